//! Finds models in the Hugging Face cache, which the Python tools and `hf-hub` share.
//!
//! ```text
//! models--OWNER--NAME/refs/REVISION          the commit of a branch or tag
//! models--OWNER--NAME/snapshots/COMMIT/…     its files, as links to blobs
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::folder::{FolderError, check_folder};
use super::name::HubModel;

/// The cache does not have the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheError {
    /// The model is not there at this revision.
    #[error("`{0}` does not contain it")]
    Absent(PathBuf),
    /// Only a part of the model is there.
    #[error("its copy is incomplete")]
    Incomplete(#[source] FolderError),
}

/// Finds the folder of a model.
///
/// # Errors
///
/// If the model is missing or incomplete.
pub(super) fn find(cache: &Path, name: &HubModel) -> Result<PathBuf, CacheError> {
    let folder = snapshot(cache, name).ok_or_else(|| CacheError::Absent(cache.to_owned()))?;
    check_folder(&folder).map_err(CacheError::Incomplete)?;
    Ok(folder)
}

/// The folder of a revision, complete or not. The revision may be a commit itself.
fn snapshot(cache: &Path, name: &HubModel) -> Option<PathBuf> {
    let repository = cache.join(name.folder_name());
    let reference = fs::read_to_string(repository.join("refs").join(&name.revision));
    let commit = reference.map_or_else(|_| name.revision.clone(), |text| text.trim().to_owned());
    let folder = repository.join("snapshots").join(commit);
    folder.is_dir().then_some(folder)
}
