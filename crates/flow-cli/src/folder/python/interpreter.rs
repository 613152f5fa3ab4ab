//! Interpreters of Python, and what they can import.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variable with the path of the interpreter for Python executors.
pub(super) const PYTHON: &str = "FLOW_PYTHON";

/// The package with our own runtime.
pub(super) const PACKAGE: &str = "flow_serve";

/// Whether an interpreter can be run, and finds a module.
pub(super) fn has_module(python: &Path, module: &str) -> bool {
    let code =
        format!("import sys, importlib.util as u; sys.exit(u.find_spec('{module}') is None)");
    let checked = Command::new(python)
        .args(["-c", &code])
        .stdin(Stdio::null())
        .output();
    checked.is_ok_and(|output| output.status.success())
}

/// The interpreters for an executor, those that the user chose for it first. One that was chosen is the only one.
pub(super) fn candidates(
    executor: &Path,
    variable: impl Fn(&str) -> Option<String>,
    own: Option<PathBuf>,
) -> Vec<PathBuf> {
    let given = |name: &str| variable(name).filter(|it| !it.is_empty());
    if let Some(python) = given(PYTHON) {
        return vec![python.into()];
    }
    let folder = executor.parent().unwrap_or(Path::new(""));
    let beside_executor = folder.join(".venv/bin/python");
    if beside_executor.exists() {
        return vec![beside_executor];
    }
    let active = given("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python"));
    // pip installs the program `flow` beside the interpreter.
    let beside_flow = own.map(|flow| flow.with_file_name("python"));
    let path = variable("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("python3"));
    let all = active.into_iter().chain(beside_flow).chain(on_path);
    all.filter(|python| python.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_that_was_chosen_is_the_only_candidate() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let (active, flow, on_path) = (at("env/bin/python"), at("tool/python"), at("bin/python3"));
        let executor = folder.path().join("mine/executor.py");
        let check = |python: Option<&str>, expected: &[&Path]| {
            let variable = |name: &str| match name {
                "FLOW_PYTHON" => python.map(str::to_owned),
                "VIRTUAL_ENV" => Some(folder.path().join("env").display().to_string()),
                "PATH" => Some(folder.path().join("bin").display().to_string()),
                _ => None,
            };
            let own = Some(folder.path().join("tool/flow"));
            assert_eq!(candidates(&executor, variable, own), expected);
        };
        check(None, &[&active, &flow, &on_path]);
        check(Some(""), &[&active, &flow, &on_path]);
        check(Some("/my/python"), &[Path::new("/my/python")]);
        let beside = at("mine/.venv/bin/python");
        check(None, &[&beside]);
    }
}
