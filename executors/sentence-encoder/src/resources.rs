//! Estimates what an encoder's process needs of its machine before the process starts, for deployment files that
//! request memory.
//!
//! The estimate downloads nothing. The size of a model is known if the model is on this machine, or is the default one.

use flow_models::source::{self, ModelName, SourceEnvironment, WEIGHTS_FILE};
use flow_models::{DeviceSpec, WeightsFile};

use crate::config::SentenceEncoderConfig;

/// The number of parameters of the default model.
const DEFAULT_MODEL_PARAMETERS: u64 = 22_713_216;

/// Bytes of a parameter in memory in f32, whatever the file's format. bf16 takes half of it.
const BYTES_PER_PARAMETER: u64 = 4;

/// Bytes of the program, its tokenizer and its buffers: 56 MB beside the 91 MB of the default model's weights, measured
/// when idle (tests/load/runs, memory.csv).
const BASE_BYTES: u64 = 64 << 20;

/// Bytes of a thread's buffers. Two threads took 45 MB under load in the same run.
const BYTES_PER_THREAD: u64 = 24 << 20;

/// Threads assumed if the options do not set them: the process then counts the cores of the machine it runs on.
const DEFAULT_THREADS: u64 = 2;

/// What a process needs, as far as that is known before it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceEstimate {
    /// Bytes of memory. `None` if the model's size is unknown or it runs on a GPU.
    pub memory: Option<u64>,
    /// Whether the process downloads its model. A cache folder that outlives the process then saves the next download.
    pub downloads_model: bool,
}

/// Estimates what an encoder with these options needs.
#[must_use]
pub fn estimate_resources(
    with: &SentenceEncoderConfig,
    environment: &SourceEnvironment,
) -> ResourceEstimate {
    let name = ModelName::parse(&with.model, with.revision.as_deref());
    ResourceEstimate {
        memory: parameters(with, environment)
            .filter(|_| with.device == DeviceSpec::Cpu)
            .map(|parameters| memory(parameters, with)),
        downloads_model: matches!(name, Ok(ModelName::Hub(_))),
    }
}

/// Bytes of memory of a process whose model has this many parameters.
fn memory(parameters: u64, with: &SentenceEncoderConfig) -> u64 {
    let threads = with
        .threads
        .map_or(DEFAULT_THREADS, |threads| threads.get() as u64);
    let model = parameters * BYTES_PER_PARAMETER + threads * BYTES_PER_THREAD;
    BASE_BYTES + model + with.cache.memory()
}

/// The number of the model's parameters, if it is known.
fn parameters(with: &SentenceEncoderConfig, environment: &SourceEnvironment) -> Option<u64> {
    let folder = source::find(&with.model, with.revision.as_deref(), environment);
    let weights = folder.ok().map(|it| it.join(WEIGHTS_FILE));
    let counted = weights.and_then(|file| Some(WeightsFile::open(&file).ok()?.parameters()));
    let is_default = with.model == SentenceEncoderConfig::default().model;
    counted.or(is_default.then_some(DEFAULT_MODEL_PARAMETERS))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    /// An environment without any model.
    fn empty_environment() -> SourceEnvironment {
        SourceEnvironment::from_variables(|name| (name == "HOME").then(|| "/nowhere".to_owned()))
    }

    fn estimate(with: Value) -> ResourceEstimate {
        estimate_resources(&serde_json::from_value(with).unwrap(), &empty_environment())
    }

    #[test]
    fn the_estimate_for_the_default_model_covers_what_was_measured() {
        let ResourceEstimate {
            memory,
            downloads_model,
        } = estimate(json!({}));
        // 192 MB were resident under load.
        let megabytes = memory.unwrap() / 1_000_000;
        assert!((192..240).contains(&megabytes), "{megabytes} MB");
        assert!(downloads_model);
    }

    #[test]
    fn each_thread_adds_memory() {
        let with_threads = |threads| estimate(json!({"threads": threads})).memory.unwrap();
        assert_eq!(with_threads(8) - with_threads(2), 6 * BYTES_PER_THREAD);
        assert_eq!(with_threads(2), estimate(json!({})).memory.unwrap());
    }

    #[test]
    fn a_cache_adds_its_size() {
        let with_cache = |cache| estimate(json!({"cache": cache})).memory.unwrap();
        assert_eq!(with_cache("512MiB") - with_cache("0"), 512 << 20);
        assert_eq!(with_cache("0"), estimate(json!({})).memory.unwrap());
    }

    #[test]
    fn a_missing_model_and_a_gpu_have_no_memory_estimate() {
        let missing = estimate(json!({"model": "a/b"}));
        assert_eq!((missing.memory, missing.downloads_model), (None, true));
        assert_eq!(estimate(json!({"device": "cuda"})).memory, None);
    }

    #[test]
    fn a_folder_is_measured_and_not_downloaded() {
        let folder = tempfile::tempdir().unwrap();
        let header = r#"{"a":{"dtype":"F16","shape":[3,4],"data_offsets":[0,24]}}"#;
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header.as_bytes());
        weights.extend([0; 24]);
        fs::write(folder.path().join(WEIGHTS_FILE), weights).unwrap();
        for file in [source::CONFIG_FILE, source::TOKENIZER_FILE] {
            fs::write(folder.path().join(file), "{}").unwrap();
        }
        let found = estimate(json!({"model": folder.path(), "threads": 1}));
        let expected = BASE_BYTES + 12 * BYTES_PER_PARAMETER + BYTES_PER_THREAD;
        assert_eq!(
            (found.memory, found.downloads_model),
            (Some(expected), false)
        );
        let in_container = estimate(json!({"model": "/model"}));
        assert_eq!(
            (in_container.memory, in_container.downloads_model),
            (None, false)
        );
    }
}
