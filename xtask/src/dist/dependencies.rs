//! The crates that a program is made of, as cargo describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;

use super::target::Target;
use crate::shell;

/// The package of the program.
pub(super) const PROGRAM: &str = "flow-cli";

/// A name and a version.
pub(super) type Key = (String, String);

/// A crate that is compiled for the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crate {
    pub(super) key: Key,
    pub(super) description: Option<String>,
    pub(super) license: Option<String>,
    pub(super) repository: Option<String>,
    /// The SHA-256 of the archive on crates.io. `None` for our own crates.
    pub(super) checksum: Option<String>,
    /// The folder of its sources.
    pub(super) folder: PathBuf,
    /// Whether it is in the program: build scripts and procedural macros only run while it is compiled.
    pub(super) is_in_program: bool,
    /// The crates among [`read`]'s result that it depends on.
    pub(super) depends_on: BTreeSet<Key>,
}

/// The crates that some packages of the workspace are made of for a target, in the order of their names.
pub(super) fn read(target: &Target, packages: &[&str]) -> anyhow::Result<Vec<Crate>> {
    let all = tree(target, packages, "normal,build")?;
    let in_program = tree(target, packages, "normal,no-proc-macro")?;
    let mut cargo = shell::cargo();
    cargo.args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        target.name(),
    ]);
    let metadata = serde_json::from_str(&shell::output(&mut cargo)?)?;
    let lock = std::fs::read_to_string(crate::repository::root().join("Cargo.lock"))?;
    crates(&metadata, &checksums(&lock), &all, &in_program)
}

/// The crates that cargo compiles for the packages, over edges of these kinds. `cargo metadata` unites the features of the whole
/// workspace, so it lists more.
fn tree(target: &Target, packages: &[&str], edges: &str) -> anyhow::Result<BTreeSet<Key>> {
    let mut cargo = shell::cargo();
    cargo.args(["tree", "--locked", "--edges", edges]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    cargo.args([
        "--target",
        target.name(),
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let text = shell::output(&mut cargo)?;
    Ok(text.lines().filter_map(listed).collect())
}

/// The crate of a line such as `bytes v1.10.1 (*)`.
fn listed(line: &str) -> Option<Key> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let version = words.next()?.strip_prefix('v')?;
    Some((name.to_owned(), version.to_owned()))
}

/// The checksums in `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<Key, String> {
    let entry = |text: &str| -> Option<(Key, String)> {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

fn crates(
    metadata: &Value,
    checksums: &BTreeMap<Key, String>,
    all: &BTreeSet<Key>,
    in_program: &BTreeSet<Key>,
) -> anyhow::Result<Vec<Crate>> {
    let packages = list(metadata, "packages")?;
    let by_id: BTreeMap<&str, Key> = packages
        .iter()
        .filter_map(|it| Some((it["id"].as_str()?, key(it)?)))
        .collect();
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("cargo lists no nodes")?;
    let edges = nodes.iter().filter_map(|node| {
        let from = by_id.get(node["id"].as_str()?)?;
        let ids = node["dependencies"]
            .as_array()?
            .iter()
            .filter_map(Value::as_str);
        let to = ids
            .filter_map(|id| by_id.get(id))
            .filter(|key| all.contains(*key));
        Some((from.clone(), to.cloned().collect::<BTreeSet<Key>>()))
    });
    let mut edges: BTreeMap<Key, BTreeSet<Key>> = edges.collect();
    let mut crates = Vec::new();
    for package in packages {
        let Some(key) = key(package).filter(|key| all.contains(key)) else {
            continue;
        };
        let text = |name: &str| package[name].as_str().map(str::to_owned);
        let manifest = PathBuf::from(text("manifest_path").context("a package has no manifest")?);
        crates.push(Crate {
            description: text("description")
                .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")),
            license: text("license"),
            repository: text("repository"),
            checksum: checksums.get(&key).cloned(),
            folder: manifest.parent().map(PathBuf::from).unwrap_or_default(),
            is_in_program: in_program.contains(&key),
            depends_on: edges.remove(&key).unwrap_or_default(),
            key,
        });
    }
    crates.sort_by(|one, two| one.key.cmp(&two.key));
    Ok(crates)
}

fn list<'a>(value: &'a Value, name: &str) -> anyhow::Result<&'a Vec<Value>> {
    value[name]
        .as_array()
        .with_context(|| format!("cargo lists no {name}"))
}

fn key(package: &Value) -> Option<Key> {
    let text = |name: &str| package[name].as_str().map(str::to_owned);
    Some((text("name")?, text("version")?))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::dist) fn key_of(name: &str, version: &str) -> Key {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn lines_of_cargo_tree_name_crates() {
        assert_eq!(listed("bytes v1.10.1 (*)"), Some(key_of("bytes", "1.10.1")));
        assert_eq!(
            listed("echo v0.1.0 (/src/executors/echo)"),
            Some(key_of("echo", "0.1.0"))
        );
        assert_eq!(listed("[build-dependencies]"), None);
    }

    #[test]
    fn checksums_come_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        assert_eq!(
            checksums(lock),
            [(key_of("a", "1.0.0"), "ff".to_owned())].into()
        );
    }

    #[test]
    fn only_crates_of_the_program_are_kept_with_the_edges_between_them() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "manifest_path": format!("/src/{name}/Cargo.toml"), "license": "MIT", "description": "One\n two"});
        let node = |name: &str, to: &[&str]| json!({"id": name, "dependencies": to});
        let metadata = json!({
            "packages": [package("b"), package("a"), package("test-only")],
            "resolve": {"nodes": [node("a", &["b", "test-only"]), node("b", &[])]},
        });
        let (a, b) = (key_of("a", "1.0.0"), key_of("b", "1.0.0"));
        let all = BTreeSet::from([a.clone(), b.clone()]);
        let in_program = BTreeSet::from([a.clone()]);
        let found = crates(&metadata, &BTreeMap::new(), &all, &in_program).unwrap();
        let [first, second] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((&first.key, &second.key), (&a, &b));
        assert_eq!(first.depends_on, BTreeSet::from([b]));
        assert_eq!((first.is_in_program, second.is_in_program), (true, false));
        assert_eq!(first.description.as_deref(), Some("One two"));
        assert_eq!(first.folder, PathBuf::from("/src/a"));
    }
}
