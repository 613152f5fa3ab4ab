//! Takes the place of `hub.rs` in programs that are built without the Cargo feature `download`.

use std::path::PathBuf;

use super::environment::SourceEnvironment;
use super::name::HubModel;
use super::progress::DownloadProgress;

/// The program cannot download.
#[derive(Debug, thiserror::Error)]
#[error("downloads need a program that is built with the Cargo feature `download`")]
pub struct HubError;

/// # Errors
///
/// Always.
pub(super) fn fetch(
    _: &HubModel,
    _: &SourceEnvironment,
    _: &mut dyn DownloadProgress,
) -> Result<PathBuf, HubError> {
    Err(HubError)
}
