//! Reads `uses_with` into the typed options of an executor, or into the list of its problems.
//!
//! `options/reader.rs` reads values as serde does, and reports problems in the terms of a flow file.

pub(crate) mod reader;

use std::fmt;

use flow_core::{BadOption, closest};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::reader::{Problem, ReadError};
use crate::sdk::Executor;

/// Finds all problems of options for `E`, without loading anything.
#[must_use]
pub fn check_options<E: Executor>(with: &Map<String, Value>) -> Vec<BadOption> {
    read::<E>(with.clone()).map_or_else(|bad| bad.0, |_| Vec::new())
}

/// The endpoints of `E`, each with a method.
#[must_use]
pub fn endpoints<E: Executor>() -> Vec<String> {
    let bindings = E::endpoints().bindings.into_iter();
    bindings.map(|binding| binding.endpoint).collect()
}

/// Options that an executor cannot use; never empty.
///
/// Each one is printed on a line of its own, after a line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOptions(pub Vec<BadOption>);

impl std::error::Error for BadOptions {}

impl fmt::Display for BadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |bad: &BadOption| bad.key.clone().unwrap_or_default();
        let width = self.0.iter().map(|bad| key(bad).chars().count()).max();
        let width = width.unwrap_or(0);
        self.0.iter().try_for_each(|bad| {
            let (key, gap) = (key(bad), if width == 0 { "" } else { "  " });
            write!(f, "\n  {key:width$}{gap}{bad}")
        })
    }
}

/// Reads and checks the options of `E`.
pub(crate) fn read<E: Executor>(with: Map<String, Value>) -> Result<E::With, BadOptions> {
    let with: E::With = parse(with)?;
    E::check(&with).map_err(|error| {
        BadOptions(vec![BadOption {
            key: None,
            is_unknown: false,
            message: error.to_string(),
            remedy: None,
        }])
    })?;
    Ok(with)
}

/// Removes each wrong option and reads the others again, so that all problems are found.
fn parse<T: DeserializeOwned>(mut with: Map<String, Value>) -> Result<T, BadOptions> {
    let mut wrong: Vec<BadOption> = Vec::new();
    loop {
        let error = match reader::read(with.clone()) {
            Ok(read) if wrong.is_empty() => return Ok(read),
            Ok(_) => return Err(BadOptions(wrong)),
            Err(error) => error,
        };
        let key = error.key().map(str::to_owned);
        if key.and_then(|key| with.shift_remove(&key)).is_some() {
            wrong.push(error.into());
            continue;
        }
        // An option that was removed is missing now, which is not another problem.
        let removed_known = wrong.iter().any(|bad| !bad.is_unknown);
        if !(removed_known && error.is_missing()) {
            wrong.push(error.into());
        }
        return Err(BadOptions(wrong));
    }
}

impl From<ReadError> for BadOption {
    fn from(error: ReadError) -> Self {
        let is_unknown = error.is_unknown_option();
        let (message, remedy) = match &error.problem {
            Problem::Unknown { name, known } => unknown(name, known),
            Problem::Missing { name } => (format!("`{name}` is missing"), None),
            Problem::Twice { name } => (
                format!("means `{name}`, which is given too"),
                Some("keep one of them".to_owned()),
            ),
            Problem::Value { message, remedy } => (message.clone(), remedy.clone()),
        };
        // The path to a problem inside of the option.
        let inside = error.path.get(1..).unwrap_or_default();
        Self {
            key: error.key().map(str::to_owned),
            is_unknown,
            message: match inside {
                [] => message,
                inside => format!("`{}` {message}", inside.join(".")),
            },
            remedy,
        }
    }
}

fn unknown(name: &str, known: &[&'static str]) -> (String, Option<String>) {
    let listed = || {
        let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let remedy = match closest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "it takes no options".to_owned(),
        None => format!("its options are {}", listed()),
    };
    let message = format!("`{name}` is not an option of this executor");
    (message, Some(remedy))
}

#[cfg(test)]
mod tests;
