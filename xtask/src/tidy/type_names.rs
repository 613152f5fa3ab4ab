//! Names of types that are visible in their whole crate or beyond: one name has one meaning in the workspace.

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
const SERVICES: &str = "each server implements Jina's gRPC services";

/// Names that several crates may use for such types, each with its reason.
const ALLOWED: &[(&str, &str)] = &[
    ("Activation", CUDA),
    ("ApiKeys", OPTIONS),
    ("CertificateFiles", OPTIONS),
    ("Client", CLIENTS),
    ("ClientCertificates", OPTIONS),
    ("Collector", OPTIONS),
    ("Compression", OPTIONS),
    ("Container", OPTIONS),
    ("DockerOptions", OPTIONS),
    ("Facts", FACTS),
    ("Flow", FLOWS),
    ("Gateway", OPTIONS),
    ("GatewayLimits", OPTIONS),
    ("JinaService", SERVICES),
    ("LoadError", ERRORS),
    ("Monitoring", OPTIONS),
    ("PoolingMode", CUDA),
    ("Registry", REGISTRIES),
    ("Reply", CLIENTS),
    ("Span", SPANS),
    ("With", EXECUTORS),
];

/// Folders whose types have the names of other things, each with its reason.
const NAMED_AFTER_OTHERS: &[(&str, &str)] = &[
    (
        "crates/flow-cli/src/cmd/",
        "the options of a command have its name",
    ),
    (
        "crates/flow-py/src/",
        "classes of Python have the names of the Rust types that they wrap",
    ),
];

/// Words that define a type.
const DEFINITIONS: &[&str] = &["struct", "enum", "trait", "type"];

/// A type that its whole crate can see: the file and the line of its definition.
type Definition<'t> = (&'t File, usize);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, definitions) in visible_types(tree) {
        let crates: BTreeSet<&str> = definitions
            .iter()
            .map(|(file, _)| file.crate_folder())
            .collect();
        if crates.len() < 2 || ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
            continue;
        }
        let what = format!(
            "`{name}` is a type of {} crates: rename it, or give a reason in xtask/src/tidy/type_names.rs",
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

/// Types of crates and executors that their whole crate can see, by name. Generated code has the names of protocols.
fn visible_types(tree: &Tree) -> BTreeMap<&str, Vec<Definition<'_>>> {
    let mut types: BTreeMap<&str, Vec<Definition<'_>>> = BTreeMap::new();
    let is_own = |file: &&File| {
        let in_folder = |folder| file.path.starts_with(folder);
        (in_folder("crates/") || in_folder("executors/"))
            && !file.is_test()
            && !file.path.contains("/generated/")
            && !NAMED_AFTER_OTHERS
                .iter()
                .any(|(folder, _)| in_folder(folder))
    };
    for file in tree.sources().filter(is_own) {
        for (name, line) in defined(file.code()) {
            types.entry(name).or_default().push((file, line));
        }
    }
    types
}

/// The types that code defines as `pub` or `pub(crate)`, each with its line.
fn defined(code: &[Token]) -> impl Iterator<Item = (&str, usize)> {
    (0..code.len()).filter_map(|at| {
        let after = after_visibility(&code[at..])?;
        let [keyword, name, ..] = after else {
            return None;
        };
        let is_type = DEFINITIONS.contains(&keyword.text.as_str());
        is_type.then_some((name.text.as_str(), name.line))
    })
}

/// What follows `pub` or `pub(crate)` at the start of `code`.
fn after_visibility(code: &[Token]) -> Option<&[Token]> {
    let text = |at: usize| code.get(at).map(|token| token.text.as_str());
    if text(0) != Some("pub") {
        return None;
    }
    match [text(1), text(2), text(3)] {
        [Some("("), Some("crate"), Some(")")] => Some(&code[4..]),
        _ => Some(&code[1..]),
    }
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
    fn a_type_that_its_crate_can_see_has_a_name_of_its_own() {
        expect(
            &[
                ("crates/a/src/lib.rs", "pub struct Entry;"),
                ("crates/b/src/lib.rs", "\npub enum Entry {}"),
            ],
            &["crates/a/src/lib.rs:1", "crates/b/src/lib.rs:2"],
        );
        expect(
            &[
                ("crates/a/src/lib.rs", "pub(crate) struct Entry;"),
                ("crates/b/src/lib.rs", "pub(crate) type Entry = u8;"),
            ],
            &["crates/a/src/lib.rs:1", "crates/b/src/lib.rs:1"],
        );
    }

    #[test]
    fn local_types_may_share_a_name_and_so_may_those_of_one_crate() {
        expect(
            &[
                (
                    "crates/a/src/lib.rs",
                    "pub struct Entry; pub(crate) struct State;",
                ),
                ("crates/a/src/b.rs", "pub struct Entry;"),
                (
                    "crates/b/src/lib.rs",
                    "struct Entry; pub(super) struct State;",
                ),
                ("crates/c/src/generated/c.rs", "pub struct Entry;"),
            ],
            &[],
        );
    }

    #[test]
    fn the_options_of_a_command_have_its_name() {
        expect(
            &[
                (
                    "crates/flow-cli/src/cmd/gateway.rs",
                    "pub(crate) struct Entry;",
                ),
                ("crates/a/src/lib.rs", "pub struct Entry;"),
            ],
            &[],
        );
    }

    #[test]
    fn an_allowed_name_needs_to_be_used_twice() {
        let tree = Tree::read(crate::repository::root()).expect("the tree is there");
        let types = visible_types(&tree);
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
