//! Shared code of the executors that run models.
//!
//! | File | What it has |
//! |---|---|
//! | `model_files.rs` | finds the files of a model, or fetches them |
//! | `back_end.rs` | reads the CPU instruction set that a user chooses |
//! | `devices.rs` | opens devices, logs and names them |
//! | `gpu_metrics.rs` | measures the GPUs that a model uses |
//! | `score_precision.rs` | refuses precisions that a device does not have for scores |
//! | `model_error.rs` | makes the error of a call of an error of a model |
//! | `cpu_only.rs` | refuses options of models that run on the CPU only |
//! | `selected_texts.rs` | reads the texts of documents, and logs documents without a text |
//! | `per_document.rs` | sums numbers of texts by document |
//! | `excerpt.rs` | shortens texts for messages |
//! | `metrics.rs` | measures the calls of a model |
//!
//! The models themselves run in [`flow_models`].

#![warn(missing_docs)]

pub mod back_end;
mod cpu_only;
mod devices;
mod excerpt;
mod gpu_metrics;
mod metrics;
mod model_error;
mod model_files;
mod per_document;
mod score_precision;
mod selected_texts;

pub use cpu_only::{NotOnCpu, check_cpu_only};
pub use devices::{cores, device_name, open_devices, watch_gpus};
pub use excerpt::excerpt;
pub use metrics::ModelMetrics;
pub use model_error::model_error;
pub use model_files::ModelFiles;
pub use per_document::sums;
pub use score_precision::{UnsupportedPrecision, check_score_precision};
pub use selected_texts::{SelectedTexts, WithoutText, too_long};

/// The parameters that select the documents which a model reads. If a request has both, the first one applies.
pub const ACCESS_PATHS: [&str; 2] = ["access_paths", "traversal_paths"];

/// The parameter that says whether a text with more tokens than the model reads is truncated, or refused.
pub const TRUNCATE: &str = "truncate";

/// The parameter that names the side at which such a text is truncated: `right` or `left`.
pub const TRUNCATION_DIRECTION: &str = "truncation_direction";
