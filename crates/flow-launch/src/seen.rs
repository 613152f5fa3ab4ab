//! What is seen of a process from outside, kept up to date by its keeper.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::child::StartError;
use crate::event::Member;

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It was started, or will be, and is not ready yet.
    Starting,
    /// It serves.
    Ready,
    /// It died, and waits for its next start.
    Waiting,
    /// It finishes what is under way.
    Stopping,
    /// It never was ready.
    Failed,
    /// It died too often.
    GivenUp,
}

/// One look at a process.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) stage: Stage,
    /// As it was last ready.
    pub(crate) member: Option<Member>,
    /// When it was last ready.
    pub(crate) since: Option<Instant>,
    /// How often it was started again because it had died.
    pub(crate) restarts: u32,
    /// Why it never was ready.
    pub(crate) failure: Option<Arc<StartError>>,
}

impl Seen {
    pub(crate) fn starting() -> Self {
        Self {
            stage: Stage::Starting,
            member: None,
            since: None,
            restarts: 0,
            failure: None,
        }
    }
}
