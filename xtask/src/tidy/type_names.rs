//! Names of public types: one name has one meaning in the whole workspace.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::finding::Finding;
use crate::tidy::source::Token;
use crate::tidy::tree::{File, Tree};

const OPTIONS: &str = "options of the flow file, and what a process makes of them";
const CLIENTS: &str = "flow-client's has more than that of flow-net, of which it is made";
const CUDA: &str = "flow-cuda depends on no other engine";
const SPANS: &str = "flow-executor's is that of flow-trace, with what its thread does";
const FLOWS: &str = "a flow as a file describes it, and one that a Rust program runs";
const REGISTRIES: &str = "the field's word for images and for metrics";
const ERRORS: &str = "an executor or a file that cannot be loaded; programs see one of them";
const EXECUTORS: &str = "each executor names its options so";
const FACTS: &str = "what a process sends when it is ready, and what the launcher reads";

/// Names that several crates may use for public types, each with its reason.
const ALLOWED: &[(&str, &str)] = &[
    ("Activation", CUDA),
    ("ApiKeys", OPTIONS),
    ("CertificateFiles", OPTIONS),
    ("Client", CLIENTS),
    ("ClientCertificates", OPTIONS),
    ("Collector", OPTIONS),
    ("Container", OPTIONS),
    ("DockerOptions", OPTIONS),
    ("Facts", FACTS),
    ("Flow", FLOWS),
    ("Gateway", OPTIONS),
    ("GatewayLimits", OPTIONS),
    ("LoadError", ERRORS),
    ("Monitoring", OPTIONS),
    ("PoolingMode", CUDA),
    ("Registry", REGISTRIES),
    ("Reply", CLIENTS),
    ("Span", SPANS),
    ("With", EXECUTORS),
];

/// Words that define a type.
const DEFINITIONS: &[&str] = &["struct", "enum", "trait", "type"];

/// A public type: the file and the line of its definition.
type Definition<'t> = (&'t File, usize);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, definitions) in public_types(tree) {
        let crates: BTreeSet<&str> = definitions
            .iter()
            .map(|(file, _)| file.crate_folder())
            .collect();
        if crates.len() < 2 || ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
            continue;
        }
        let what = format!(
            "`{name}` is a public type of {} crates: rename it, or give a reason in xtask/src/tidy/type_names.rs",
            crates.len()
        );
        findings.extend(
            definitions
                .iter()
                .map(|(file, line)| file.finding(*line, &what)),
        );
    }
    findings
}

/// Public types of crates and executors, by name. Generated code has the names of protocols.
fn public_types(tree: &Tree) -> BTreeMap<&str, Vec<Definition<'_>>> {
    let mut types: BTreeMap<&str, Vec<Definition<'_>>> = BTreeMap::new();
    let is_own = |file: &&File| {
        let in_folder = |folder| file.path.starts_with(folder);
        (in_folder("crates/") || in_folder("executors/"))
            && !file.is_test()
            && !file.path.contains("/generated/")
    };
    for file in tree.sources().filter(is_own) {
        for (name, line) in defined(file.code()) {
            types.entry(name).or_default().push((file, line));
        }
    }
    types
}

/// The public types that code defines, each with its line. `pub(crate)` is not public.
fn defined(code: &[Token]) -> impl Iterator<Item = (&str, usize)> {
    let definitions = code
        .windows(3)
        .filter(|words| words[0].text == "pub" && DEFINITIONS.contains(&words[1].text.as_str()));
    definitions.map(|words| (words[2].text.as_str(), words[2].line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(files: &[(&str, &str)], expected: &[&str]) {
        let findings = check(&Tree::of(files));
        let places: Vec<String> = findings
            .iter()
            .map(|it| format!("{}:{}", it.path, it.line))
            .collect();
        assert_eq!(places, expected);
    }

    #[test]
    fn a_public_type_has_a_name_of_its_own() {
        expect(
            &[
                ("crates/a/src/lib.rs", "pub struct Entry;"),
                ("crates/b/src/lib.rs", "\npub enum Entry {}"),
            ],
            &["crates/a/src/lib.rs:1", "crates/b/src/lib.rs:2"],
        );
    }

    #[test]
    fn private_types_may_share_a_name_and_so_may_those_of_one_crate() {
        expect(
            &[
                (
                    "crates/a/src/lib.rs",
                    "pub struct Entry; pub(crate) struct State;",
                ),
                ("crates/a/src/b.rs", "pub struct Entry;"),
                (
                    "crates/b/src/lib.rs",
                    "struct Entry; pub(crate) struct State;",
                ),
                ("crates/c/src/generated/c.rs", "pub struct Entry;"),
            ],
            &[],
        );
    }

    #[test]
    fn an_allowed_name_needs_to_be_used_twice() {
        let tree = Tree::read(crate::repository::root()).expect("the tree is there");
        let types = public_types(&tree);
        for (name, _) in ALLOWED {
            let crates = types
                .get(name)
                .into_iter()
                .flatten()
                .map(|(file, _)| file.crate_folder());
            let crates: BTreeSet<&str> = crates.collect();
            assert!(crates.len() > 1, "`{name}` is allowed and not needed");
        }
    }
}
