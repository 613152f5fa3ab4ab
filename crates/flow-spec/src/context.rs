//! What the caller supplies besides the text of a flow file.

mod executors;
mod files;

use std::path::Path;

pub use executors::{AnyExecutor, ExecutorDescription, Executors, FoundExecutor, NotFound};
pub use files::{Files, NoFiles};

use crate::yaml::Variables;

/// The text of a file, which the caller has read.
#[derive(Debug, Clone, Copy)]
pub struct TextFile<'f> {
    /// Its path, for messages only.
    pub path: &'f Path,
    /// Its content.
    pub text: &'f str,
}

/// What a flow file refers to besides its own text.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// Values of its references, such as `${{ ENV.X }}`.
    pub variables: &'c Variables,
    /// The Deployments and the gateway's config that it names.
    pub files: &'c dyn Files,
    /// The executors that it names.
    pub executors: &'c dyn Executors,
    /// Keys that flow does not know are warnings instead of problems.
    pub lenient: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Context");
        shown
            .field("variables", self.variables)
            .finish_non_exhaustive()
    }
}
