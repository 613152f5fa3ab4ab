//! What an encoder's process needs of its machine, told before it starts: for whoever finds a place for it.
//!
//! Nothing is downloaded for the answer. The size of a model is known if the model is on this machine, or is the
//! default one.

use flow_models::Device;
use flow_models::model::Weights;
use flow_models::source::{self, Environment, ModelName, WEIGHTS_FILE};

use crate::config::With;

/// Numbers in the weights of the default model.
const DEFAULT_MODEL_PARAMETERS: u64 = 22_713_216;

/// Bytes of a weight in memory, whatever the file has. In bf16 it is half of it.
const BYTES_PER_PARAMETER: u64 = 4;

/// The program, its tokenizer and its buffers: 56 MB beside the 91 MB of the default model's weights, measured when it
/// is idle (tests/load/runs, memory.csv).
const BASE: u64 = 64 << 20;

/// What a thread computes in. Two took 45 MB under load in the same run.
const PER_THREAD: u64 = 24 << 20;

/// Threads where neither the options nor the machine that asks can say: the process counts the cores it finds.
const THREADS: u64 = 2;

/// What a process needs, as far as that is known before it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of memory. `None` where the model's size is not known, or a GPU computes.
    pub memory: Option<u64>,
    /// The model is downloaded, so a folder that outlives the process saves the next one a download.
    pub downloads_model: bool,
}

/// What an encoder with these options needs.
#[must_use]
pub fn needs(with: &With, environment: &Environment) -> Needs {
    let name = ModelName::parse(&with.model, with.revision.as_deref());
    Needs {
        memory: parameters(with, environment)
            .filter(|_| with.device == Device::Cpu)
            .map(|parameters| memory(parameters, with)),
        downloads_model: matches!(name, Ok(ModelName::Hub(_))),
    }
}

fn memory(parameters: u64, with: &With) -> u64 {
    let threads = with.threads.map_or(THREADS, |threads| threads.get() as u64);
    BASE + parameters * BYTES_PER_PARAMETER + threads * PER_THREAD
}

/// Numbers in the weights of the model.
fn parameters(with: &With, environment: &Environment) -> Option<u64> {
    let folder = source::find(&with.model, with.revision.as_deref(), environment);
    let weights = folder.ok().map(|it| it.join(WEIGHTS_FILE));
    let counted = weights.and_then(|file| Some(Weights::open(&file).ok()?.parameters()));
    let is_default = with.model == With::default().model;
    counted.or(is_default.then_some(DEFAULT_MODEL_PARAMETERS))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    /// An environment without any model.
    fn nowhere() -> Environment {
        Environment::from_variables(|name| (name == "HOME").then(|| "/nowhere".to_owned()))
    }

    fn of(with: Value) -> Needs {
        needs(&serde_json::from_value(with).unwrap(), &nowhere())
    }

    #[test]
    fn the_default_model_needs_what_was_measured() {
        let Needs {
            memory,
            downloads_model,
        } = of(json!({}));
        // 192 MB were resident under load.
        let megabytes = memory.unwrap() / 1_000_000;
        assert!((192..240).contains(&megabytes), "{megabytes} MB");
        assert!(downloads_model);
    }

    #[test]
    fn threads_have_memory_of_their_own() {
        let of_threads = |threads| of(json!({"threads": threads})).memory.unwrap();
        assert_eq!(of_threads(8) - of_threads(2), 6 * PER_THREAD);
        assert_eq!(of_threads(2), of(json!({})).memory.unwrap());
    }

    #[test]
    fn a_model_that_is_not_here_and_a_gpu_have_no_size() {
        let elsewhere = of(json!({"model": "a/b"}));
        assert_eq!((elsewhere.memory, elsewhere.downloads_model), (None, true));
        assert_eq!(of(json!({"device": "cuda"})).memory, None);
    }

    #[test]
    fn a_folder_is_measured_and_needs_no_download() {
        let folder = tempfile::tempdir().unwrap();
        let header = r#"{"a":{"dtype":"F16","shape":[3,4],"data_offsets":[0,24]}}"#;
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header.as_bytes());
        weights.extend([0; 24]);
        fs::write(folder.path().join(WEIGHTS_FILE), weights).unwrap();
        for file in [source::CONFIG_FILE, source::TOKENIZER_FILE] {
            fs::write(folder.path().join(file), "{}").unwrap();
        }
        let found = of(json!({"model": folder.path(), "threads": 1}));
        let expected = BASE + 12 * BYTES_PER_PARAMETER + PER_THREAD;
        assert_eq!(
            (found.memory, found.downloads_model),
            (Some(expected), false)
        );
        let inside = of(json!({"model": "/model"}));
        assert_eq!((inside.memory, inside.downloads_model), (None, false));
    }
}
