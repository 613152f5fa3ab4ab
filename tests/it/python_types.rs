//! The types of the Python package `flow_serve`: what mypy and pyright report about the package, of its stub and of the
//! examples of the book.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{
    Program, flow_command, flow_serve, flow_serve_alone, python_script, type_checkers,
};
use serde_json::json;

use crate::documents::blocks;

/// The folder of the package's project, with the settings of both programs.
fn project() -> PathBuf {
    python_script("../../crates/flow-py")
}

/// A program of the environment, to be given its arguments. It works on files that it may cache in `folder`.
fn checker(module: &str, folder: &Path) -> Option<Command> {
    let mut command = Command::new(type_checkers()?);
    command.args(["-m", module]);
    command.env("HOME", folder).env("NO_COLOR", "1");
    Some(command)
}

fn mypy(folder: &Path) -> Option<Command> {
    let mut command = checker("mypy", folder)?;
    command.args(["--strict", "--config-file"]);
    command.arg(project().join("pyproject.toml"));
    command.arg("--cache-dir").arg(folder.join("mypy"));
    Some(command)
}

fn pyright(folder: &Path, of: &Path) -> Option<Command> {
    let mut command = checker("pyright", folder)?;
    command.arg("--warnings").arg("--pythonpath");
    command.arg(type_checkers()?).arg("--project").arg(of);
    Some(command)
}

#[track_caller]
fn finds_nothing(command: Command) {
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
}

/// Where `flow python` finds modules: our package, and its names for Jina's and DocArray's.
fn search_path() -> [PathBuf; 3] {
    let sources = project().join("python");
    let package = sources.join("flow_serve");
    [
        sources,
        package.join("jina_compat"),
        package.join("docarray_compat"),
    ]
}

#[test]
fn mypy_and_pyright_find_no_mistake_in_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut mypy) = mypy(folder.path()) else {
        return;
    };
    mypy.arg(project().join("python/flow_serve"));
    finds_nothing(mypy);
    finds_nothing(pyright(folder.path(), &project()).unwrap());
}

/// Writes the programs of a page of the book to a folder, and returns their paths.
fn examples(page: &str, folder: &Path) -> Vec<PathBuf> {
    let page = fs::read_to_string(python_script("../../docs/src").join(page)).unwrap();
    let blocks = blocks(&page);
    let programs = blocks.iter().filter(|block| block.language == "python");
    let write = |block: &crate::documents::Block| {
        let path = folder.join(block.file().unwrap());
        fs::write(&path, block.text()).unwrap();
        path
    };
    programs.map(write).collect()
}

#[test]
fn mypy_and_pyright_find_no_mistake_in_the_examples_of_the_book() {
    let folder = tempfile::tempdir().unwrap();
    let scripts = examples("python.md", folder.path());
    assert!(scripts.len() >= 5, "{scripts:?}");
    let executors = examples("executors-python.md", folder.path());
    assert!(executors.len() >= 2, "{executors:?}");
    let path = std::env::join_paths(search_path()).unwrap();
    // The methods of the executors have no annotations, as most executors have none.
    let untyped = [
        "--allow-untyped-defs",
        "--allow-incomplete-defs",
        "--allow-untyped-calls",
        // Classes of DocArray and pydantic, which are not installed here. With this option the package itself, which another
        // test checks, would have comments that are of no use.
        "--allow-subclassing-any",
        "--follow-imports=silent",
    ];
    for (programs, options) in [(scripts, &[][..]), (executors, &untyped)] {
        let Some(mut mypy) = mypy(folder.path()) else {
            return;
        };
        mypy.env("MYPYPATH", &path).args(options).args(programs);
        finds_nothing(mypy);
    }

    let settings = json!({
        "extraPaths": search_path(),
        "reportMissingModuleSource": false,
        "reportMissingImports": false,
    });
    fs::write(
        folder.path().join("pyrightconfig.json"),
        settings.to_string(),
    )
    .unwrap();
    finds_nothing(pyright(folder.path(), folder.path()).unwrap());
}

#[test]
fn the_types_of_options_are_those_of_the_schema_of_flow_files() {
    let Some(python) = flow_serve() else { return };
    let mut export = flow_command();
    export.args(["export", "schema"]);
    let (_, schema) = Program::run(export);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schema.json");
    fs::write(&file, schema.stdout()).unwrap();
    let mut generator = Command::new(python);
    generator.arg(project().join("typed_options.py"));
    generator.arg(file).arg("--check");
    finds_nothing(generator);
}

#[test]
fn the_reference_in_the_book_has_every_name_of_the_package() {
    let Some(python) = flow_serve() else { return };
    let mut generator = Command::new(python);
    generator.arg(project().join("reference.py")).arg("--check");
    finds_nothing(generator);
}

#[test]
fn the_stub_says_what_the_native_module_has() {
    let folder = tempfile::tempdir().unwrap();
    let package = flow_serve_alone();
    if let (Some(package), Some(mut command)) = (package, checker("mypy.stubtest", folder.path())) {
        command.env("PYTHONPATH", package.path());
        command.env("MYPYPATH", package.path());
        command.current_dir(folder.path());
        command.arg("--mypy-config-file");
        command.arg(project().join("pyproject.toml"));
        command
            .arg("--allowlist")
            .arg(python_script("stub_differences.txt"));
        command.arg("flow_serve._native");
        finds_nothing(command);
    }
}
