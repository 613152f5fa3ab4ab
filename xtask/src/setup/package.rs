//! The Python package `flow_serve`, as this tree builds it, in the virtual environment that tests use.
//!
//! It is not a wheel: the module that cargo built and the package's Python files are copied to where `import` finds
//! them. That takes no time and needs nothing but cargo.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::shell;

/// The virtual environment.
pub(crate) const FOLDER: &str = "python";

/// The library that cargo makes of `crates/flow-py`.
const LIBRARY: &str = "libflow_py.so";

/// Builds the package, and installs it.
pub(crate) fn build_and_install(peers: &Path) -> anyhow::Result<()> {
    eprintln!("{FOLDER}: building the package `flow_serve`");
    shell::run(shell::cargo().args(["build", "--package", "flow-py"]))?;
    install(peers)
}

/// The same, as users get it.
pub(crate) fn build_and_install_release(peers: &Path) -> anyhow::Result<()> {
    shell::run(shell::cargo().args(["build", "--release", "--package", "flow-py"]))?;
    install_library(peers, &target()?.with_file_name("release").join(LIBRARY))
}

/// Installs what cargo has built beside this program.
pub(crate) fn install(peers: &Path) -> anyhow::Result<()> {
    install_library(peers, &target()?.join(LIBRARY))
}

/// Where cargo puts what it builds in the profile of this program.
fn target() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of xtask itself")?;
    Ok(own.parent().map(Path::to_path_buf).unwrap_or_default())
}

fn install_library(peers: &Path, library: &Path) -> anyhow::Result<()> {
    let package = site_packages(&peers.join(FOLDER))?.join("flow_serve");
    if package.exists() {
        fs::remove_dir_all(&package)?;
    }
    let sources = crate::repository::root().join("crates/flow-py/python/flow_serve");
    copy(&sources, &package)?;
    fs::copy(library, package.join("_native.abi3.so"))
        .with_context(|| format!("cannot copy `{}`", library.display()))?;
    Ok(())
}

/// The folder of packages of a virtual environment.
fn site_packages(venv: &Path) -> anyhow::Result<PathBuf> {
    let lib = venv.join("lib");
    let versions =
        fs::read_dir(&lib).with_context(|| format!("cannot read `{}`", lib.display()))?;
    let mut folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("site-packages")));
    folders
        .find(|folder| folder.is_dir())
        .with_context(|| format!("`{}` is not a virtual environment", venv.display()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read `{}`", from.display()))? {
        let path = entry?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        if path.is_dir() && name != "__pycache__" {
            copy(&path, &to.join(name))?;
        } else if path.is_file() {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
