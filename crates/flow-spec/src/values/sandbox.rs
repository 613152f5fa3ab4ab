//! Limits of an executor's processes, as the kernel enforces them.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

/// What the processes of an executor may use, and what they may not do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sandbox {
    /// Most memory, in bytes; `None` sets no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<NonZeroU64>,
    /// Most processors; `None` sets no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Millicpus>,
    /// Only Unix sockets can be created.
    pub no_network: bool,
    /// Files can be changed only in the workspace, and in a temporary folder of each process.
    pub read_only: bool,
}

impl Sandbox {
    /// Whether it limits nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Processors, in thousandths. As text, `1.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millicpus(pub NonZeroU32);

impl Millicpus {
    /// Thousandths of one processor.
    pub const OF_ONE: u32 = 1000;
}

impl fmt::Display for Millicpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = f64::from(self.0.get()) / f64::from(Self::OF_ONE);
        cpus.fmt(f)
    }
}
