//! The environment of the process, read once and passed on as values.

use std::collections::BTreeMap;

use anyhow::Context;
use flow_executor::LOG_TO_VARIABLE;
use flow_process::LogOutput;

use crate::exit::BadUsage;
use crate::log::{LogArgs, LogConfig};

/// The environment, and the options of all commands.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    /// Environment variables; those that are not valid UTF-8 are left out.
    pub(crate) variables: BTreeMap<String, String>,
    /// The configuration of the log.
    pub(crate) log: LogConfig,
    /// Whether colors are allowed. They are used on terminals only.
    pub(crate) wants_colour: bool,
}

impl Shell {
    /// Fails if a variable about logging is wrong.
    pub(crate) fn new(log: LogArgs) -> anyhow::Result<Self> {
        let variables = variables();
        let variable = |name: &str| variables.get(name).map(String::as_str);
        let to = match variable(LOG_TO_VARIABLE).filter(|it| !it.is_empty()) {
            Some(name) => name.parse().with_context(|| {
                BadUsage(format!("the variable `{LOG_TO_VARIABLE}` is invalid"))
            })?,
            None => LogOutput::default(),
        };
        Ok(Self {
            log: log.resolve(variable("FLOW_LOG"), to)?,
            wants_colour: wants_colour(&variables),
            variables,
        })
    }

    /// A shell with these variables only.
    #[cfg(test)]
    pub(crate) fn of(variables: BTreeMap<String, String>) -> Self {
        let log = LogConfig {
            format: flow_process::LogFormat::Text,
            filter: flow_process::LogFilter::default(),
            to: LogOutput::Stderr,
        };
        Self {
            log,
            wants_colour: false,
            variables,
        }
    }

    /// The value of a variable, if it is set.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
}

/// The whole environment, for the processes that this one starts.
#[cfg(feature = "launch")]
pub(crate) fn environment() -> flow_launch::Environment {
    std::env::vars_os().collect()
}

fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// By no-color.org, every value but the empty one turns colors off.
fn wants_colour(variables: &BTreeMap<String, String>) -> bool {
    let is_set = |name: &str| variables.get(name).is_some_and(|value| !value.is_empty());
    let is_dumb = variables.get("TERM").is_some_and(|term| term == "dumb");
    !is_set("NO_COLOR") && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], wanted: bool) {
        let owned = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(wants_colour(&owned.collect()), wanted, "{variables:?}");
    }

    #[test]
    fn no_color_turns_colours_off_unless_it_is_empty() {
        check(&[], true);
        check(&[("NO_COLOR", "")], true);
        check(&[("NO_COLOR", "1")], false);
        check(&[("TERM", "dumb")], false);
    }
}
