//! The Hugging Face cache, as the Python tools and `hf-hub` keep it.
//!
//! ```text
//! models--OWNER--NAME/refs/REVISION          the commit that a branch or tag stood at
//! models--OWNER--NAME/snapshots/COMMIT/…     its files, as links to blobs
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::folder::{FolderError, check_folder};
use super::name::HubName;

/// Why the cache does not give the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheError {
    /// Nothing of this model at this revision.
    #[error("`{0}` does not hold it")]
    Absent(PathBuf),
    /// It is there in part.
    #[error("what it holds is not whole")]
    Incomplete(#[source] FolderError),
}

/// The folder of `name`'s files, if they are all there.
///
/// # Errors
///
/// If they are not.
pub(super) fn find(cache: &Path, name: &HubName) -> Result<PathBuf, CacheError> {
    let folder = snapshot(cache, name).ok_or_else(|| CacheError::Absent(cache.to_owned()))?;
    check_folder(&folder).map_err(CacheError::Incomplete)?;
    Ok(folder)
}

/// The folder that `name` points to, whole or not. A commit is its own revision.
fn snapshot(cache: &Path, name: &HubName) -> Option<PathBuf> {
    let repository = cache.join(name.folder());
    let reference = fs::read_to_string(repository.join("refs").join(&name.revision));
    let commit = reference.map_or_else(|_| name.revision.clone(), |text| text.trim().to_owned());
    let folder = repository.join("snapshots").join(commit);
    folder.is_dir().then_some(folder)
}
