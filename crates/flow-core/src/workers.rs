//! How many threads of one process run its executor: a word of flow files, and of executors' own options.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How many threads of one process run its executor side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workers {
    /// So many.
    Number(NonZeroU16),
    /// One for each core that the process may use; one if the executor cannot be forked.
    Auto,
}

impl Default for Workers {
    fn default() -> Self {
        Self::Number(NonZeroU16::MIN)
    }
}

/// The text names no number of workers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no number of workers: a number from 1 on, or `auto`")]
pub struct BadWorkers(String);

impl FromStr for Workers {
    type Err = BadWorkers;

    fn from_str(text: &str) -> Result<Self, BadWorkers> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number
                .parse()
                .map(Self::Number)
                .map_err(|_| BadWorkers(text.to_owned())),
        }
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}
