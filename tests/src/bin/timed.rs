//! An executor whose calls take a given time without using a CPU, as those of an accelerator do. `capacity` measures flows of it.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use flow_executor::{
    Batching, CallError, Document, Endpoints, Executor, LoadContext, LoadError, Parameters, Tensor,
};
use serde::Deserialize;

/// Documents that share a call; `capacity` has the same number.
const BATCH: NonZeroUsize = NonZeroUsize::new(32).unwrap();

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Timed {
    /// How long a call takes, in microseconds.
    call_us: u64,
    /// How much longer it takes for each document.
    document_us: u64,
    /// Numbers of the vector that each document gets.
    vector: usize,
}

impl Executor for Timed {
    type With = Self;

    fn load(with: Self, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(with)
    }

    fn endpoints() -> Endpoints<Self> {
        let batching = Batching {
            size: BATCH,
            ..Batching::default()
        };
        Endpoints::new()
            .on_batch("/encode", Self::wait)
            .batching("/encode", batching)
    }
}

impl Timed {
    fn wait(&mut self, documents: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let count = u64::try_from(documents.len()).unwrap_or(u64::MAX);
        let us = self.document_us.saturating_mul(count);
        let us = us.saturating_add(self.call_us);
        if us > 0 {
            thread::sleep(Duration::from_micros(us));
        }
        if self.vector > 0 {
            let vector = Tensor::vector(&vec![0.1; self.vector]);
            documents
                .iter_mut()
                .for_each(|it| it.set_embedding(&vector));
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    flow_executor::run::<Timed>()
}
