//! YAML text → a tree in which every value has its span.

mod parse;
mod scalar;
mod substitute;
mod tree;

pub use parse::yaml_to_json;
pub(crate) use parse::{embedded, parse};
pub(crate) use scalar::{Resolved, Scalar};
pub use substitute::Variables;
pub(crate) use substitute::substitute;
pub(crate) use tree::{YamlContent, YamlEntry, YamlNode, entries_to_json};

#[cfg(test)]
mod tests;
