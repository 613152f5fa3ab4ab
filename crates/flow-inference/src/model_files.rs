//! Finds the files of a model, or fetches them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flow_models::source::{self, LogProgress, SourceEnvironment, SourceError};

/// Where the files of a model are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// The folder of the model.
    pub folder: PathBuf,
    /// The folder for what is computed from models once.
    pub cache: PathBuf,
}

impl ModelFiles {
    /// Finds a model: a folder, or a name on the Hugging Face hub, from which it is fetched if it is not on this machine.
    ///
    /// # Errors
    ///
    /// If no source has it.
    pub fn pull(
        model: &str,
        revision: Option<&str>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, SourceError> {
        let environment = SourceEnvironment::from_variables(|name| environment.get(name).cloned());
        let folder = source::pull(model, revision, &environment, &mut LogProgress::default())?;
        Ok(Self {
            folder,
            cache: environment.flow_cache,
        })
    }
}
