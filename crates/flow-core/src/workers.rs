//! The number of worker threads of an executor, as flow files and command lines state it.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How many threads of a process run its executor concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workers {
    /// This number.
    Number(NonZeroU16),
    /// One per core that the process may use; one if the executor cannot be forked.
    Auto,
}

impl Default for Workers {
    fn default() -> Self {
        Self::Number(NonZeroU16::MIN)
    }
}

/// The text is not a number of workers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid number of workers: write a number of at least 1, or `auto`")]
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
