//! The options that are tried.

use std::fmt;
use std::num::NonZeroUsize;

use serde_json::{Map, Value, json};

/// Tokens of a batch, unless the options say otherwise.
const BATCH_TOKENS: usize = 2048;

/// Options of the encoder, and the number of its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) precision: &'static str,
    pub(super) replicas: usize,
    /// Threads of each replica.
    pub(super) threads: usize,
    pub(super) batch_tokens: usize,
    /// Whether it runs in the process of the gateway.
    pub(super) colocate: bool,
}

/// Each precision, with one process on all cores. The first one is exact.
pub(super) fn precisions(cores: NonZeroUsize) -> Vec<Candidate> {
    let candidate = |precision| Candidate {
        precision,
        replicas: 1,
        threads: cores.get(),
        batch_tokens: BATCH_TOKENS,
        colocate: false,
    };
    ["f32", "bf16", "int8"].map(candidate).to_vec()
}

/// Other ways to divide the cores: half of the threads in two processes, and one thread in as many processes as there are cores.
pub(super) fn divisions(best: Candidate, cores: NonZeroUsize) -> Vec<Candidate> {
    let mut threads = vec![cores.get() / 2, 1];
    threads.dedup();
    let divided = threads
        .into_iter()
        .filter(|threads| (1..cores.get()).contains(threads));
    let candidate = |threads| Candidate {
        replicas: cores.get() / threads,
        threads,
        ..best
    };
    divided.map(candidate).collect()
}

/// Smaller and larger batches.
pub(super) fn batches(best: Candidate) -> Vec<Candidate> {
    let candidate = |batch_tokens| Candidate {
        batch_tokens,
        ..best
    };
    [BATCH_TOKENS / 4, BATCH_TOKENS * 4].map(candidate).to_vec()
}

/// A single process in that of the gateway.
pub(super) fn colocated(best: Candidate) -> Vec<Candidate> {
    let candidate = Candidate {
        colocate: true,
        ..best
    };
    vec![candidate; usize::from(best.replicas == 1)]
}

impl Candidate {
    /// The options of the executor. Those that equal a default are left out.
    pub(super) fn uses_with(&self, model: &str, cores: usize) -> Map<String, Value> {
        let mut options = Map::new();
        options.insert("model".to_owned(), json!(model));
        options.insert("precision".to_owned(), json!(self.precision));
        if self.threads != cores {
            options.insert("threads".to_owned(), json!(self.threads));
        }
        if self.batch_tokens != BATCH_TOKENS {
            options.insert("batch_tokens".to_owned(), json!(self.batch_tokens));
        }
        options
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            precision,
            replicas,
            threads,
            batch_tokens,
            colocate,
        } = self;
        write!(
            f,
            "{precision}, {replicas} × {threads} threads, {batch_tokens} tokens a batch"
        )?;
        match colocate {
            true => f.write_str(", colocated"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(cores: usize) -> NonZeroUsize {
        NonZeroUsize::new(cores).unwrap()
    }

    #[test]
    fn the_cores_are_divided_in_two_and_one_by_one() {
        let divided = |number: usize| -> Vec<(usize, usize)> {
            let one = precisions(cores(number))[0];
            let divided = divisions(one, cores(number));
            divided.iter().map(|it| (it.replicas, it.threads)).collect()
        };
        assert_eq!(divided(1), []);
        assert_eq!(divided(2), [(2, 1)]);
        assert_eq!(divided(16), [(2, 8), (16, 1)]);
    }

    #[test]
    fn only_a_single_process_can_be_that_of_the_gateway() {
        let one = precisions(cores(2))[0];
        let text = colocated(one)[0].to_string();
        assert_eq!(text, "f32, 1 × 2 threads, 2048 tokens a batch, colocated");
        assert_eq!(colocated(divisions(one, cores(2))[0]), []);
    }

    #[test]
    fn options_that_equal_a_default_are_left_out() {
        let [f32, ..] = precisions(cores(2))[..] else {
            panic!("no candidate")
        };
        assert_eq!(
            Value::Object(f32.uses_with("m", 2)),
            json!({"model": "m", "precision": "f32"})
        );
        let small = batches(divisions(f32, cores(2))[0])[0];
        let wanted = json!({"model": "m", "precision": "f32", "threads": 1, "batch_tokens": 512});
        assert_eq!(Value::Object(small.uses_with("m", 2)), wanted);
    }
}
