//! The package `flow_serve` on the oldest Python that it supports, and on the newest one that is tested.

use std::path::Path;

use flow_tests::{
    flow_command, flow_serve_alone, last_json, measured, other_pythons, python_script,
};
use serde_json::json;

/// The scripts of `python/` that need only the package and NumPy.
const SCRIPTS: [&str; 5] = [
    "documents.py",
    "arrays.py",
    "flows.py",
    "own_executors.py",
    "migrate.py",
];

#[test]
fn the_package_works_on_the_oldest_and_on_the_newest_python() {
    let Some(package) = flow_serve_alone() else {
        return;
    };
    for python in other_pythons() {
        for name in SCRIPTS {
            run(name, &python, package.path());
        }
        measured(&format!("{} ran {SCRIPTS:?}", python.display()));
    }
}

/// Runs a script on an interpreter, which finds the package in a folder.
#[track_caller]
fn run(name: &str, python: &Path, package: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = flow_command();
    command
        .arg("python")
        .arg(python_script(name))
        .arg(folder.path());
    command.env("FLOW_PYTHON", python);
    command.env("PYTHONPATH", package);
    command.env("XDG_STATE_HOME", folder.path().join("state"));
    assert_eq!(last_json(command), json!("fine"), "{name} on {python:?}");
}
