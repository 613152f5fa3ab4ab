//! Errors of files that are not valid flows.

use std::path::PathBuf;

use crate::diagnostics::{Position, Problems};

/// Why a text is not YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {message}", .position.line, .position.column)]
pub struct SyntaxError {
    /// The position of the fault.
    pub position: Position,
    /// What is wrong.
    pub message: String,
}

/// Why a file did not become a [`Flow`](crate::Flow) or an [`ExecutorConfig`](crate::ExecutorConfig).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file is not YAML.
    #[error("`{}` is not valid YAML", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: SyntaxError,
    },
    /// The file has problems. All of them are listed, so that they can be repaired in one go.
    #[error("`{}` has {}\n{problems}", .path.display(), counted(.problems.len()))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What to repair.
        problems: Problems,
    },
}

fn counted(problems: usize) -> String {
    if problems == 1 {
        "1 problem".to_owned()
    } else {
        format!("{problems} problems")
    }
}
