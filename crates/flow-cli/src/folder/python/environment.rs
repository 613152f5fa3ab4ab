//! Virtual environments with the requirements of Python executors.
//!
//! An environment lies in the cache, in a folder that is named after everything that it is made from, and is made once.
//! The package `flow_serve` is linked into it from the interpreter that it is made with.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::Deserialize;

use super::interpreter::PACKAGE;
use super::requirements;
use crate::folder::builder::Builder;
use crate::paths::{cache_folder, fnv1a};
use crate::shell::Shell;

/// The file in an environment that says that everything is installed.
const COMPLETE: &str = "flow-complete";

/// Prints what [`Base`] holds.
const DESCRIBE: &str = "\
import importlib.util, json, sys
found = importlib.util.find_spec('flow_serve')
package = found.submodule_search_locations[0] if found else None
print(json.dumps({'version': sys.version, 'package': package}))";

/// The interpreter that an environment is made with.
#[derive(Debug, Deserialize)]
pub(super) struct Base {
    #[serde(skip)]
    python: PathBuf,
    version: String,
    /// The folder of the package `flow_serve`, if it has that.
    pub(super) package: Option<PathBuf>,
}

/// Makes an environment with these requirements, unless it is there, and returns its interpreter. Shows the progress of
/// pip on standard error.
///
/// # Errors
///
/// If the environment cannot be made, or a requirement cannot be installed.
pub(crate) fn prepare(
    requirements: &Path,
    base: &Path,
    builder: &Builder,
    shell: &Shell,
) -> anyhow::Result<PathBuf> {
    let cache = cache_folder(shell).context("there is no folder for caches: set HOME")?;
    let base = Base::of(base)?;
    let written = requirements::contents(requirements)?;
    let folder = cache.join("python").join(base.name(&written));
    let python = folder.join("bin/python");
    fs::create_dir_all(cache.join("python"))
        .with_context(|| format!("cannot create `{}`", cache.display()))?;
    let _lock = lock(&folder.with_extension("lock"))?;
    if folder.join(COMPLETE).exists() {
        return Ok(python);
    }
    tracing::info!(
        requirements = %requirements.display(),
        environment = %folder.display(),
        "installs the requirements of an executor"
    );
    // An attempt that failed may have left an incomplete environment.
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    let tools = Tools {
        builder,
        uv: on_path("uv", shell),
    };
    tools.create(&base, &folder)?;
    base.link(&folder)?;
    tools.install(&base, requirements, &folder)?;
    fs::write(folder.join(COMPLETE), "")
        .with_context(|| format!("cannot write into `{}`", folder.display()))?;
    Ok(python)
}

/// Holds a lock until it is dropped, so that processes that need the same environment do not make it at the same time.
fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create `{}`", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock `{}`", path.display()))?;
    Ok(file)
}

fn on_path(program: &str, shell: &Shell) -> Option<PathBuf> {
    let path = shell.variable("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found.find(|program| program.is_file())
}

impl Base {
    pub(super) fn of(python: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot run the interpreter `{}`", python.display());
        let mut command = Command::new(python);
        command.args(["-c", DESCRIBE]).stdin(Stdio::null());
        let output = command.output().with_context(failed)?;
        let described: Base = serde_json::from_slice(&output.stdout).with_context(failed)?;
        Ok(Self {
            python: python.to_owned(),
            ..described
        })
    }

    /// The name of the environment with these requirements.
    fn name(&self, requirements: &str) -> String {
        let package = self.package.as_deref().unwrap_or(Path::new(""));
        let parts = [
            &self.python.to_string_lossy(),
            &*self.version,
            &package.to_string_lossy(),
            env!("CARGO_PKG_VERSION"),
            requirements,
        ];
        format!("{:016x}", fnv1a(parts.join("\0").as_bytes()))
    }

    /// Links our package into the environment, and the metadata by which pip knows that it is installed.
    fn link(&self, folder: &Path) -> anyhow::Result<()> {
        let Some(package) = &self.package else {
            return Ok(());
        };
        let into = site_packages(folder)?;
        for path in std::iter::once(package.clone()).chain(distribution_info(package)) {
            let name = path.file_name().unwrap_or_default();
            symlink(&path, into.join(name))
                .with_context(|| format!("cannot link `{}`", path.display()))?;
        }
        Ok(())
    }
}

/// The folders beside a package in which pip notes what it has installed.
fn distribution_info(package: &Path) -> Vec<PathBuf> {
    let beside = package
        .parent()
        .and_then(|parent| fs::read_dir(parent).ok());
    let paths = beside.into_iter().flatten().flatten().map(|it| it.path());
    let is_info = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{PACKAGE}-")) && name.ends_with(".dist-info")
    };
    paths.filter(is_info).collect()
}

/// The folder for packages in an environment.
fn site_packages(folder: &Path) -> anyhow::Result<PathBuf> {
    let versions = fs::read_dir(folder.join("lib"));
    let versions = versions.with_context(|| format!("cannot read `{}`", folder.display()))?;
    let mut found = versions.flatten().map(|it| it.path().join("site-packages"));
    found
        .find(|path| path.is_dir())
        .with_context(|| format!("`{}` has no folder for packages", folder.display()))
}

/// The programs that make environments: uv where it is installed, because it is faster, and else the interpreter's own.
struct Tools<'t> {
    builder: &'t Builder,
    uv: Option<PathBuf>,
}

impl Tools<'_> {
    fn create(&self, base: &Base, folder: &Path) -> anyhow::Result<()> {
        let mut command = match &self.uv {
            Some(uv) => {
                let mut command = Command::new(uv);
                command
                    .args(["venv", "--quiet", "--python"])
                    .arg(&base.python);
                command
            }
            None => {
                let mut command = Command::new(&base.python);
                command.args(["-m", "venv"]);
                command
            }
        };
        self.run(command.arg(folder), || {
            let (folder, python) = (folder.display(), base.python.display());
            format!("cannot make the virtual environment `{folder}` with `{python}`; its output is above")
        })
    }

    /// Paths in requirements are relative to their file.
    fn install(&self, base: &Base, requirements: &Path, folder: &Path) -> anyhow::Result<()> {
        let python = folder.join("bin/python");
        let mut command = match &self.uv {
            Some(uv) => {
                let mut command = Command::new(uv);
                command.args(["pip", "install", "--python"]).arg(python);
                command
            }
            None => {
                let mut command = Command::new(python);
                // Not a `pip.py` beside the requirements.
                command.args(["-I", "-m", "pip", "install", "--disable-pip-version-check"]);
                command
            }
        };
        // Our package needs it, and is not installed but linked.
        let own = base.package.as_ref().map(|_| "numpy");
        let requirements = std::path::absolute(requirements)?;
        let beside = requirements.parent().unwrap_or(Path::new("/"));
        command.args(own).arg("-r").arg(&requirements);
        self.run(command.current_dir(beside), || {
            let file = requirements.display();
            format!("cannot install `{file}`; the output of the installer is above")
        })
    }

    /// What the program prints goes to standard error: standard output is for the flow.
    fn run(&self, command: &mut Command, failed: impl Fn() -> String) -> anyhow::Result<()> {
        let to = io::stderr().as_fd().try_clone_to_owned()?;
        let output = self.builder.output(command.stdout(to));
        let output = output.with_context(&failed)?;
        anyhow::ensure!(output.status.success(), failed());
        Ok(())
    }
}
