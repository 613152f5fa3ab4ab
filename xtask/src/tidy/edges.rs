//! Allowed dependencies between crates: the rows of the table in ARCHITECTURE.md.
//!
//! The listed edges are exactly those that exist: an edge that no manifest has is reported, too. `rows.rs` checks that each
//! leads down in the table of ARCHITECTURE.md. What only tests use is free: cargo keeps it out of programs.

use std::collections::BTreeMap;

use crate::tidy::finding::Finding;
use crate::tidy::tree::{File, Tree};

/// Where the edges are listed.
const LIST: &str = "xtask/src/tidy/edges.rs";

const ROWS: &[(&str, &[&str])] = &[
    ("flow-proto", &[]),
    ("flow-core", &["flow-proto"]),
    ("flow-kernels", &[]),
    ("flow-amx-emulator", &["flow-kernels"]),
    ("flow-cuda", &[]),
    ("flow-cuda-emulator", &["flow-cuda"]),
    ("flow-models", &["flow-core", "flow-kernels", "flow-cuda"]),
    ("flow-metrics", &[]),
    ("flow-docker", &["flow-spec"]),
    ("flow-hub", &["flow-docker"]),
    ("flow-process", &[]),
    ("flow-sandbox", &[]),
    ("flow-trace", &["flow-core"]),
    (
        "flow-net",
        &["flow-trace", "flow-metrics", "flow-core", "flow-proto"],
    ),
    (
        "flow-otlp",
        &[
            "flow-process",
            "flow-net",
            "flow-trace",
            "flow-metrics",
            "flow-core",
        ],
    ),
    ("flow-spec", &["flow-core"]),
    ("flow-client", &["flow-net", "flow-core", "flow-proto"]),
    (
        "flow-gateway",
        &[
            "flow-spec",
            "flow-otlp",
            "flow-net",
            "flow-trace",
            "flow-metrics",
            "flow-core",
            "flow-proto",
        ],
    ),
    (
        "flow-launch",
        &[
            "flow-spec",
            "flow-process",
            "flow-net",
            "flow-docker",
            "flow-core",
        ],
    ),
    (
        "flow-executor",
        &[
            "flow-process",
            "flow-otlp",
            "flow-net",
            "flow-trace",
            "flow-metrics",
            "flow-core",
            "flow-proto",
        ],
    ),
    // Above the SDK and below the executors that share it.
    ("flow-index", &["flow-executor", "flow-core"]),
    (
        "flow-inference",
        &["flow-executor", "flow-models", "flow-kernels"],
    ),
    (
        "flow-rs",
        &[
            "flow-client",
            "flow-spec",
            "flow-process",
            "flow-net",
            "flow-core",
        ],
    ),
    // What others are measured against must not be made of us.
    ("bare-tonic", &[]),
];

/// What an executor's package may use; never another executor.
const EXECUTOR: &[&str] = &[
    "flow-executor",
    "flow-index",
    "flow-inference",
    "flow-net",
    "flow-models",
    "flow-kernels",
    "flow-core",
];

/// They may use everything.
const PROGRAMS: &[&str] = &[
    "flow-cli",
    "flow-concurrency-models",
    "flow-fuzz",
    "flow-py",
    "flow-tests",
    "matrix-products",
    "xtask",
    "xtask-codegen",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree
        .files
        .values()
        .filter(|file| file.path.ends_with("Cargo.toml"));
    let packages: BTreeMap<&str, &File> = manifests
        .filter_map(|file| Some((package(&file.text)?, file)))
        .collect();
    let mut findings: Vec<Finding> = packages
        .iter()
        .flat_map(|(name, file)| check_package(name, file, &packages))
        .collect();
    findings.extend(unused_edges(&packages));
    findings
}

/// Edges that are listed here and that no manifest has.
fn unused_edges(packages: &BTreeMap<&str, &File>) -> Vec<Finding> {
    let uses = |file: &File, below: &str| {
        let used = dependencies(&file.text);
        used.into_iter().any(|(_, used)| used == below)
    };
    let mut findings = Vec::new();
    for (name, below) in ROWS {
        let Some(file) = packages.get(name) else {
            continue;
        };
        let unused = below.iter().filter(|below| !uses(file, below));
        findings.extend(unused.map(|unused| {
            let what = format!("`{name}` does not use `{unused}`: remove the edge from {LIST}");
            file.finding(1, &what)
        }));
    }
    let executors: Vec<&&File> = packages
        .values()
        .filter(|file| file.path.starts_with("executors/"))
        .collect();
    let unused = EXECUTOR
        .iter()
        .filter(|below| !executors.iter().any(|file| uses(file, below)));
    if let Some(first) = executors.first() {
        findings.extend(unused.map(|unused| {
            let what = format!("no executor uses `{unused}`: remove it from {LIST}");
            first.finding(1, &what)
        }));
    }
    findings
}

/// The packages of the workspace that a manifest names for its program, each with the line.
pub(super) fn dependencies_of(file: &File, is_own: impl Fn(&str) -> bool) -> Vec<(usize, &str)> {
    let used = dependencies(&file.text).into_iter();
    used.filter(|(_, name)| is_own(name)).collect()
}

fn check_package(name: &str, file: &File, packages: &BTreeMap<&str, &File>) -> Vec<Finding> {
    if PROGRAMS.contains(&name) {
        return Vec::new();
    }
    let row = ROWS
        .iter()
        .find(|(of, _)| *of == name)
        .map(|(_, below)| *below);
    let executor = file.path.starts_with("executors/").then_some(EXECUTOR);
    let Some(below) = row.or(executor) else {
        return vec![file.finding(
            1,
            &format!("`{name}` has no row in xtask/src/tidy/edges.rs"),
        )];
    };
    let used = dependencies(&file.text);
    let ours = used
        .into_iter()
        .filter(|(_, used)| packages.contains_key(used));
    let wrong = ours.filter(|(_, used)| !below.contains(used));
    wrong
        .map(|(line, used)| file.finding(line, &format!("`{name}` must not use `{used}`")))
        .collect()
}

/// The name in `[package]`.
pub(super) fn package(manifest: &str) -> Option<&str> {
    let (_, after) = manifest.split_once("[package]")?;
    let line = after.lines().find(|line| line.starts_with("name"))?;
    line.split('"').nth(1)
}

/// What programs are built from, with the lines that say so.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            inside = table.ends_with("dependencies") && !table.ends_with("dev-dependencies");
            // The long form, one table for each: `[dependencies.flow-core]`.
            let long = table.strip_prefix("dependencies.");
            found.extend(long.map(|name| (index + 1, name)));
        } else if inside {
            let name = line
                .split(['.', '=', ' '])
                .next()
                .filter(|name| !name.is_empty());
            found.extend(name.map(|name| (index + 1, name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found when the package `from`, in folder `path`, has this manifest.
    fn findings(path: &str, from: &str, manifest: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{from}\"\n{manifest}");
        let mut files = vec![(path, manifest.as_str())];
        // They are in a folder without rows; only the package under test is checked.
        let others = [
            "flow-core",
            "flow-net",
            "flow-spec",
            "flow-executor",
            "echo",
        ];
        let others = others.into_iter().filter(|name| *name != from);
        let others = others.map(|name| {
            (
                format!("o/{name}/Cargo.toml"),
                format!("[package]\nname = \"{name}\"\n"),
            )
        });
        let others: Vec<(String, String)> = others.collect();
        files.extend(
            others
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str())),
        );
        let found = check(&Tree::of(&files))
            .into_iter()
            .filter(|finding| finding.path == path && !finding.what.contains("remove"));
        found
            .map(|finding| format!("{} {}", finding.line, finding.what))
            .collect()
    }

    #[test]
    fn an_edge_down_is_fine_and_one_up_or_beside_is_reported() {
        let check = |used: &str, expected: &[&str]| {
            let manifest =
                format!("[dependencies]\nserde.workspace = true\n{used}.workspace = true\n");
            assert_eq!(
                findings("crates/flow-net/Cargo.toml", "flow-net", &manifest),
                expected
            );
        };
        check("flow-core", &[]);
        check("flow-spec", &["5 `flow-net` must not use `flow-spec`"]);
        check(
            "flow-executor",
            &["5 `flow-net` must not use `flow-executor`"],
        );
    }

    #[test]
    fn an_executor_does_not_see_the_flow_it_is_in() {
        let path = "executors/shout/Cargo.toml";
        assert!(
            findings(
                path,
                "shout",
                "[dependencies]\nflow-executor.workspace = true\n"
            )
            .is_empty()
        );
        assert_eq!(
            findings(
                path,
                "shout",
                "[dependencies]\nflow-spec.workspace = true\n"
            )
            .len(),
            1
        );
        assert_eq!(
            findings(
                path,
                "shout",
                "[dependencies]\necho = { path = \"../echo\" }\n"
            )
            .len(),
            1
        );
    }

    #[test]
    fn each_form_of_a_dependency_is_seen_and_those_of_tests_are_free() {
        let path = "crates/flow-spec/Cargo.toml";
        let count = |manifest: &str| findings(path, "flow-spec", manifest).len();
        assert_eq!(
            count("[dependencies]\nflow-net = { workspace = true }\n"),
            1
        );
        assert_eq!(count("[dependencies.flow-net]\nworkspace = true\n"), 1);
        assert_eq!(
            count("[target.'cfg(unix)'.dependencies]\nflow-net.workspace = true\n"),
            1
        );
        assert_eq!(
            count("[build-dependencies]\nflow-net.workspace = true\n"),
            1
        );
        assert_eq!(count("[dev-dependencies]\nflow-net.workspace = true\n"), 0);
    }

    #[test]
    fn an_edge_that_no_manifest_has_is_reported() {
        let check = |manifest: &str, expected: &[&str]| {
            let tree = Tree::of(&[
                ("crates/flow-hub/Cargo.toml", manifest),
                (
                    "crates/flow-docker/Cargo.toml",
                    "[package]\nname = \"flow-docker\"\n[dependencies]\nflow-spec.workspace = true\n",
                ),
            ]);
            let found: Vec<String> = check(&tree).into_iter().map(|it| it.what).collect();
            assert_eq!(found, expected);
        };
        let package = "[package]\nname = \"flow-hub\"\n";
        let unused =
            "`flow-hub` does not use `flow-docker`: remove the edge from xtask/src/tidy/edges.rs";
        check(package, &[unused]);
        let test_only = format!("{package}[dev-dependencies]\nflow-docker.workspace = true\n");
        check(&test_only, &[unused]);
        check(
            &format!("{package}[dependencies]\nflow-docker.workspace = true\n"),
            &[],
        );
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        assert_eq!(
            findings("crates/flow-utils/Cargo.toml", "flow-utils", "").len(),
            1
        );
    }
}
