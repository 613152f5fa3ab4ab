//! Errors of a child that never became ready.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use flow_docker::EngineError;

use crate::docker::volumes::VolumeError;
use crate::process::exit_status::{ProcessExit, write_lines};
use crate::spec::container::ImageError;

/// Why a process never became ready.
#[derive(Debug, thiserror::Error)]
pub enum ProcessStartError {
    /// The program cannot be started.
    #[error("cannot start `{name}` as `{program}`{}", remedy.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
    Spawn {
        /// The process's name.
        name: Arc<str>,
        /// The program.
        program: String,
        /// What to do, where that can be guessed.
        remedy: Option<String>,
        /// The kernel's error.
        source: io::Error,
    },
    /// The Docker engine does not run its container.
    #[error("cannot start `{name}` from the image `{image}`")]
    Engine {
        /// The process's name.
        name: Arc<str>,
        /// The image.
        image: String,
        /// The engine's error.
        source: EngineError,
    },
    /// Its image holds no executor that flow can start.
    #[error("cannot start `{name}`")]
    Image {
        /// The process's name.
        name: Arc<str>,
        /// Why.
        source: ImageError,
    },
    /// Its container cannot get its folders.
    #[error("cannot start `{name}`")]
    Volume {
        /// The process's name.
        name: Arc<str>,
        /// Why.
        source: VolumeError,
    },
    /// It exited first.
    #[error("`{name}` {exit}")]
    Exited {
        /// The process's name.
        name: Arc<str>,
        /// How, and its last lines.
        exit: ProcessExit,
    },
    /// It took too long and was killed.
    #[error("`{name}` was not ready within {limit:?} (`timeout_ready`) and was killed{}", Quote(.last_lines))]
    TooLate {
        /// The process's name.
        name: Arc<str>,
        /// The time limit.
        limit: Duration,
        /// The last lines that it wrote.
        last_lines: Vec<String>,
    },
    /// Its ready line cannot be parsed.
    #[error("`{name}` is not an executor that flow can start")]
    BadReadyLine {
        /// The process's name.
        name: Arc<str>,
        /// The line.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

struct Quote<'a>(&'a [String]);

impl fmt::Display for Quote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_lines(f, self.0)
    }
}
