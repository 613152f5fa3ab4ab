//! References to variables that look like secrets, in files for Docker: the files have their names and not their values. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::render::argument;
use crate::render::docker::as_it_is;
use crate::render::parts::{Units, Workload};

/// Which variable of the environment of Docker has the value of a unit's variable.
pub(super) struct SecretReferences<'u>(BTreeMap<(&'u str, &'u str), String>);

impl<'u> SecretReferences<'u> {
    /// Variables of the same name have the same value, unless that of the unit is added to their names.
    pub(super) fn of(units: &'u Units) -> Self {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let all = || units.executors().chain([&units.gateway]);
        for (_, variable, value) in all().flat_map(secrets) {
            values.entry(variable).or_default().insert(value);
        }
        let reference = |(unit, variable, _): (&'u str, &'u str, &str)| {
            let name = match values[variable].len() {
                1 => variable.to_owned(),
                _ => prefixed(unit, variable),
            };
            ((unit, variable), name)
        };
        Self(all().flat_map(secrets).map(reference).collect())
    }

    /// What a file has as the value of a variable, if it looks like a secret. Docker refuses to go on without it.
    pub(super) fn get(&self, unit: &Workload, variable: &str) -> Option<String> {
        let name = self.0.get(&(unit.name.as_str(), variable))?;
        Some(format!("${{{name}:?}}"))
    }

    /// The arguments of a replica, with a reference in place of each secret.
    pub(super) fn command(&self, unit: &Workload, replica: u16) -> Vec<String> {
        let arguments = unit.arguments_of(replica).into_iter();
        let reference = |variable: &str| self.get(unit, variable).unwrap_or_default();
        arguments
            .map(|argument| argument.render(as_it_is, reference))
            .collect()
    }

    /// Says once for each reference whose value it is. `remedy` says where Docker looks for it.
    pub(super) fn remarks(&self, remedy: impl Fn(&str) -> String) -> Vec<String> {
        let mut units: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for ((unit, _), name) in &self.0 {
            units.entry(name).or_default().insert(unit);
        }
        let remark = |(name, units): (&str, BTreeSet<&str>)| {
            let units: Vec<String> = units.iter().map(|unit| format!("`{unit}`")).collect();
            let units = units.join(", ");
            format!(
                "the value of `{name}` of {units} looks like a secret and is not in the file: {}",
                remedy(name)
            )
        };
        units.into_iter().map(remark).collect()
    }
}

/// The variables of a unit that look like secrets: its name, theirs, and their values.
fn secrets(unit: &Workload) -> impl Iterator<Item = (&str, &str, &str)> {
    let name = unit.name.as_str();
    unit.secrets()
        .map(move |(variable, value)| (name, variable, value.reveal().as_str()))
}

/// A variable's name with that of a unit before it.
fn prefixed(unit: &str, variable: &str) -> String {
    let unit = argument::variable("", unit);
    // A name of a variable does not begin with a digit.
    let start = match unit.starts_with(|it: char| it.is_ascii_digit()) {
        true => "_",
        false => "",
    };
    format!("{start}{unit}_{variable}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefixed_name_is_the_name_of_a_variable() {
        assert_eq!(prefixed("my-node.1", "HF_TOKEN"), "MY_NODE_1_HF_TOKEN");
        assert_eq!(prefixed("2nd", "KEY"), "_2ND_KEY");
    }
}
