//! An option that an executor cannot use. Executors find them, and checks of flow files say where they are.

use std::fmt;

/// An option of an executor (`uses_with`) that it cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOption {
    /// The option's key; `None` if the options contradict each other.
    pub key: Option<String>,
    /// Whether the executor has no option of this name. Otherwise the value is wrong.
    pub is_unknown: bool,
    /// What is wrong: "must be a number, is the text `x`".
    pub message: String,
    /// What to do about it, where that can be guessed.
    pub remedy: Option<String>,
}

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}
