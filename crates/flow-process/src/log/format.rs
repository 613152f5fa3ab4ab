//! The formats of log lines.

use std::str::FromStr;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One line per event, for people.
    #[default]
    Text,
    /// One JSON object per event, for programs.
    Json,
}

impl LogFormat {
    /// The names of all formats.
    pub const NAMES: [&str; 2] = ["text", "json"];
}

impl FromStr for LogFormat {
    type Err = BadLogFormat;

    fn from_str(name: &str) -> Result<Self, BadLogFormat> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(BadLogFormat(name.to_owned())),
        }
    }
}

/// The name is not that of a log format.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a log format; expected `text` or `json`")]
pub struct BadLogFormat(String);
