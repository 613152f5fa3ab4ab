//! What crates link, directly or through others: pure crates link no async runtime and no network stack.
//!
//! Read from the dependency tree that cargo resolved, because a manifest does not show what its dependencies
//! bring with them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::tidy::finding::Finding;
use crate::{rustc, shell};

/// Crates of plain data and decisions.
const PURE: &[&str] = &["flow-core", "flow-metrics", "flow-proto", "flow-spec"];

/// What they must not link.
const FORBIDDEN: &[&str] = &["tokio", "hyper", "h2", "tonic"];

/// The packages of the workspace and their dependencies, as resolved by cargo.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// By package id.
    names: BTreeMap<String, String>,
    /// By package id: what it links, without what only its tests or its build script use.
    links: BTreeMap<String, Vec<String>>,
    /// Package ids of the workspace.
    own: Vec<String>,
}

impl Packages {
    /// Asks cargo.
    pub(super) fn read() -> anyhow::Result<Self> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(crate::repository::root());
        cargo.args(["metadata", "--format-version=1", "--locked"]);
        cargo.args(["--filter-platform", &rustc::host()?]);
        let metadata: Value = serde_json::from_str(&shell::output(&mut cargo)?)
            .context("`cargo metadata` printed no JSON")?;
        Ok(Self::of(&metadata))
    }

    fn of(metadata: &Value) -> Self {
        let mut all = Self::default();
        for package in list(&metadata["packages"]) {
            all.names
                .insert(text(&package["id"]), text(&package["name"]));
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let linked = list(&node["deps"]).filter(|it| is_linked(it));
            let linked = linked.map(|it| text(&it["pkg"]));
            all.links.insert(text(&node["id"]), linked.collect());
        }
        all.own = list(&metadata["workspace_members"]).map(text).collect();
        all
    }

    pub(super) fn check(&self) -> Vec<Finding> {
        PURE.iter()
            .flat_map(|name| self.check_package(name))
            .collect()
    }

    /// How many packages each library and program of `crates/` and `executors/` links.
    pub(super) fn linked_by_own_crates(&self) -> Vec<(&str, usize)> {
        let own = self
            .own
            .iter()
            .filter_map(|id| self.names.get_key_value(id));
        let mut counts: Vec<(&str, usize)> = own
            .map(|(id, name)| (name.as_str(), self.ways(id).len()))
            .collect();
        counts.sort_unstable();
        counts
    }

    fn check_package(&self, name: &str) -> Vec<Finding> {
        let finding = |what: String| Finding {
            path: format!("crates/{name}/Cargo.toml"),
            line: 1,
            what,
        };
        let Some((id, _)) = self.names.iter().find(|(_, it)| *it == name) else {
            return vec![finding(format!("cargo knows no package `{name}`"))];
        };
        let ways = self.ways(id);
        let forbidden = ways
            .values()
            .filter(|way| way.last().is_some_and(|last| FORBIDDEN.contains(last)));
        forbidden
            .map(|way| finding(format!("`{name}` must not link `{}`", way.join("` → `"))))
            .collect()
    }

    /// A shortest way to each package that is linked, by names.
    fn ways(&self, from: &str) -> BTreeMap<&str, Vec<&str>> {
        let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut seen = BTreeSet::from([from]);
        let mut open = VecDeque::from([(from, Vec::new())]);
        while let Some((id, way)) = open.pop_front() {
            for next in self.links.get(id).into_iter().flatten() {
                let name = self.names.get(next).map_or("?", String::as_str);
                if seen.insert(next) {
                    let way = [way.as_slice(), &[name]].concat();
                    ways.insert(next, way.clone());
                    open.push_back((next, way));
                }
            }
        }
        ways
    }
}

/// Whether a dependency is part of the program.
fn is_linked(dependency: &Value) -> bool {
    list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Packages whose ids are their names, with what each depends on and how.
    fn packages(dependencies: &[(&str, &str, Option<&str>)]) -> Packages {
        let mut nodes: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (from, to, kind) in dependencies {
            nodes.entry(to).or_default();
            let dependency = json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
            nodes.entry(from).or_default().push(dependency);
        }
        for name in PURE {
            nodes.entry(name).or_default();
        }
        let named = nodes.keys().map(|name| json!({"id": name, "name": name}));
        let nodes = nodes
            .iter()
            .map(|(id, deps)| json!({"id": id, "deps": deps}));
        Packages::of(&json!({
            "packages": named.collect::<Vec<_>>(),
            "resolve": {"nodes": nodes.collect::<Vec<_>>()},
        }))
    }

    #[track_caller]
    fn check(dependencies: &[(&str, &str, Option<&str>)], expected: &[&str]) {
        let found = packages(dependencies).check();
        let found: Vec<&str> = found.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_runtime_behind_other_packages_is_found() {
        check(
            &[
                ("flow-core", "flow-proto", None),
                ("flow-core", "some", None),
                ("some", "tokio", None),
            ],
            &["`flow-core` must not link `some` → `tokio`"],
        );
    }

    #[test]
    fn tests_and_build_scripts_may_use_anything() {
        check(
            &[
                ("flow-core", "tokio", Some("dev")),
                ("flow-spec", "tonic", Some("build")),
                ("flow-net", "tonic", None),
            ],
            &[],
        );
    }
}
