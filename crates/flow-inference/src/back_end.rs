//! The CPU instruction set that a user chooses.

use std::collections::BTreeMap;

use flow_kernels::{InstructionSet, UnknownInstructionSet};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Limits the instruction set if the configuration does not. For tests, and to find out how another machine would perform.
const VARIABLE: &str = "FLOW_CPU_BACKEND";

/// Reads the instruction set from the environment variable `FLOW_CPU_BACKEND`; `None` if it is not set.
///
/// # Errors
///
/// If the variable names no instruction set.
pub fn from_environment(
    environment: &BTreeMap<String, String>,
) -> Result<Option<InstructionSet>, UnknownInstructionSet> {
    environment
        .get(VARIABLE)
        .map(|name| name.parse())
        .transpose()
}

/// Reads the instruction set from a configuration; `None` if it is `null`.
///
/// # Errors
///
/// If the text names no instruction set.
pub fn deserialize<'de, D: Deserializer<'de>>(text: D) -> Result<Option<InstructionSet>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    let parse = |text: String| text.parse().map_err(D::Error::custom);
    text.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_name_an_instruction_set() {
        let read = |name: &str| {
            let variables = [("FLOW_CPU_BACKEND".to_owned(), name.to_owned())];
            from_environment(&BTreeMap::from(variables))
        };
        assert_eq!(from_environment(&BTreeMap::new()), Ok(None));
        assert_eq!(read("avx2"), Ok(Some(InstructionSet::Avx2)));
        assert!(read("sse").unwrap_err().to_string().contains("`sse`"));
    }
}
