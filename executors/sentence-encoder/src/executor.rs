//! The executor: which documents have texts, and where their vectors go.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Instant;

use flow_core::{AccessPaths, Chain, Document, Tensor};
use flow_executor::{
    BadParameter, CallError, Endpoints, Executor, Facts, LoadContext, LoadError, Parameters,
};

use crate::config::With;
use crate::device::Opened;
use crate::encoder::{EncodeError, Encoder};
use crate::source::{self, Environment, LogProgress};

/// Names the best instructions that may be used, where the options do not: for tests, and for finding out
/// what another machine would do.
const BACK_END_VARIABLE: &str = "FLOW_CPU_BACKEND";

/// Sets the embedding of each document that has a text.
#[derive(Debug)]
pub struct SentenceEncoder {
    encoder: Encoder,
    access_paths: AccessPaths,
    facts: Facts,
    without_text: u64,
}

impl Executor for SentenceEncoder {
    type With = With;

    fn check(with: &With) -> Result<(), LoadError> {
        Ok(with.check()?)
    }

    fn load(mut with: With, context: &LoadContext) -> Result<Self, LoadError> {
        if let Some(name) = context.environment.get(BACK_END_VARIABLE)
            && with.back_end.is_none()
        {
            with.back_end = Some(name.parse()?);
        }
        let environment =
            Environment::from_variables(|name| context.environment.get(name).cloned());
        let device = with.device.open(cores())?;
        tell(&device);
        let revision = with.revision.as_deref();
        let folder = source::pull(
            &with.model,
            revision,
            &environment,
            &mut LogProgress::default(),
        )?;
        let started = Instant::now();
        let encoder = Encoder::load(&folder, &with, device)?;
        tracing::info!(
            model = with.model,
            folder = %folder.display(),
            width = encoder.width(),
            max_length = encoder.max_length(),
            seconds = started.elapsed().as_secs_f32(),
            "model loaded"
        );
        tell_budget(&encoder);
        let facts = facts(&with, &encoder);
        Ok(Self {
            encoder,
            access_paths: with.access_paths,
            facts,
            without_text: 0,
        })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch("/encode", Self::encode)
            .default_batch(Self::encode)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

impl SentenceEncoder {
    fn encode(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let paths = access_paths(parameters)?.unwrap_or_else(|| self.access_paths.clone());
        let batch_size: Option<NonZeroUsize> = parameters.get("batch_size").map_err(bad_request)?;

        let (mut texts, mut without_text) = (Vec::new(), 0);
        paths.visit(docs, &mut |doc| match doc.has_text() {
            true => texts.push(doc.text()),
            false => without_text += 1,
        })?;
        self.count_without_text(without_text);

        let vectors = self.encoder.encode(&texts, batch_size);
        let vectors = vectors.map_err(|error| failed(&error))?;
        let mut rows = vectors.rows();
        paths.visit(docs, &mut |doc| {
            if doc.has_text()
                && let Some(vector) = rows.next()
            {
                doc.set_embedding(&Tensor::vector(vector));
            }
        })?;
        Ok(())
    }

    /// They pass as they are, as with stock encoders, but somebody may have expected vectors.
    fn count_without_text(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        if self.without_text == 0 {
            tracing::warn!(count, "documents without a text get no vector; told once");
        }
        self.without_text += count;
        tracing::debug!(count, total = self.without_text, "documents without a text");
    }
}

/// With a GPU that is lost to this process, the process can do no more.
fn failed(error: &EncodeError) -> CallError {
    let failed = CallError::new(Chain(error).to_string());
    if error.is_sticky() {
        failed.and_end()
    } else {
        failed
    }
}

fn access_paths(parameters: &Parameters) -> Result<Option<AccessPaths>, CallError> {
    for name in ["access_paths", "traversal_paths"] {
        if let Some(paths) = parameters.get(name).map_err(bad_request)? {
            return Ok(Some(paths));
        }
    }
    Ok(None)
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the form that `map_err` wants"
)]
fn bad_request(error: BadParameter) -> CallError {
    CallError::bad_request(Chain(&error).to_string())
}

/// Says what will compute, and what memory it has.
fn tell(device: &Opened) {
    if let Some(reason) = &device.fallback {
        tracing::info!(device = "cpu", reason, "device chosen");
    }
    for gpu in &device.gpus {
        let mebibytes = |bytes: usize| bytes >> 20;
        let memory = gpu.memory().ok();
        tracing::info!(
            device = gpu.name(),
            capability = %gpu.capability(),
            free_mib = memory.map(|it| mebibytes(it.free)),
            total_mib = memory.map(|it| mebibytes(it.total)),
            "GPU opened"
        );
    }
}

/// Says what a GPU's memory is for.
fn tell_budget(encoder: &Encoder) {
    if let Some(gpus) = encoder.gpus() {
        let batch_tokens = encoder.batch_tokens();
        tracing::info!(
            weights_mib = gpus.weight_bytes() >> 20,
            batches_mib = gpus.batch_bytes(batch_tokens) >> 20,
            batch_tokens,
            streams = gpus.streams(),
            precision = %gpus.format(),
            "memory of a GPU shared out"
        );
    }
}

fn facts(with: &With, encoder: &Encoder) -> Facts {
    let computing = encoder.computing();
    let devices = encoder.gpus().map(|gpus| gpus.names().join(", "));
    let facts = [
        ("device", devices.unwrap_or_else(|| "cpu".to_owned())),
        ("model", with.model.clone()),
        ("engine", computing.engine.to_owned()),
        ("back_end", computing.back_end),
        ("precision", computing.precision),
        ("threads", encoder.threads().to_string()),
        ("dimensions", encoder.width().to_string()),
    ];
    facts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
