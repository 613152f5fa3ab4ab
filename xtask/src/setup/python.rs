//! The user's own Python and its pip, as far as the peers need them.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::shell;

/// Tried in this order; the pinned versions are known to install on 3.11.
const PROGRAMS: &[&str] = &["python3.11", "python3"];

/// A Python that has `venv` and `pip`.
#[derive(Debug)]
pub(crate) struct Python {
    program: String,
    /// For pyenv, whose programs ask which version they are to start.
    version: Option<&'static str>,
}

impl Python {
    /// Looks for a Python with all that is needed; says what to install where something is missing.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let found = PROGRAMS
            .iter()
            .find(|program| starts(program, &["--version"]));
        let program = found.context(
            "there is no `python3` on PATH; install Python 3.11 (Debian: apt-get install python3)",
        )?;
        let python = Self {
            program: (*program).to_owned(),
            version: None,
        };
        python.needs("pip", "python3-pip")?;
        python.needs("venv", "python3-venv")?;
        Ok(python)
    }

    /// The Python of this version, such as `3.9`, by its name on `PATH`.
    pub(crate) fn of_version(version: &'static str) -> anyhow::Result<Self> {
        let python = Self {
            program: format!("python{version}"),
            version: Some(version),
        };
        shell::output(python.command().arg("--version")).with_context(|| {
            format!("there is no `python{version}` on PATH; install it, for example with `pyenv install {version}`")
        })?;
        Ok(python)
    }

    fn needs(&self, module: &str, package: &str) -> anyhow::Result<()> {
        let asked = shell::output(self.module(module).arg("--help"));
        asked.map(drop).with_context(|| {
            let program = &self.program;
            format!("`{program}` has no `{module}` (Debian: apt-get install {package})")
        })
    }

    /// Makes an empty virtual environment.
    pub(crate) fn venv(&self, folder: &Path) -> anyhow::Result<()> {
        // Without a pip of its own: that is quicker, and works where Debian keeps ensurepip apart.
        shell::output(self.module("venv").arg("--without-pip").arg(folder)).map(drop)
    }

    /// Installs packages into a virtual environment.
    pub(crate) fn install(
        &self,
        venv: &Path,
        pins: &Path,
        packages: &[&str],
    ) -> anyhow::Result<()> {
        let mut command = self.module("pip");
        command.arg("--python").arg(venv.join("bin/python"));
        command.args([
            "install",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ]);
        command.arg("--constraint").arg(pins).args(packages);
        shell::output(&mut command).map(drop)
    }

    /// Downloads what a file of requirements names; each of them must carry its hash.
    pub(crate) fn download(&self, requirements: &Path, into: &Path) -> anyhow::Result<()> {
        let mut command = self.module("pip");
        command.args([
            "download",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ]);
        command
            .args(["--no-deps", "--require-hashes", "--requirement"])
            .arg(requirements);
        shell::output(command.arg("--dest").arg(into)).map(drop)
    }

    /// Builds a wheel of a source distribution, with what that needs to build.
    pub(crate) fn wheel(&self, source: &Path, into: &Path) -> anyhow::Result<()> {
        let mut command = self.module("pip");
        command.args([
            "wheel",
            "--no-deps",
            "--no-input",
            "--disable-pip-version-check",
        ]);
        command.arg("--wheel-dir").arg(into).arg(source);
        shell::run(&mut command)
    }

    /// Unpacks a wheel.
    pub(crate) fn unpack(&self, wheel: &Path, into: &Path) -> anyhow::Result<()> {
        shell::output(self.module("zipfile").arg("-e").arg(wheel).arg(into)).map(drop)
    }

    fn module(&self, name: &str) -> Command {
        let mut command = self.command();
        command.args(["-m", name]);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.version.map(|version| ("PYENV_VERSION", version)));
        command
    }
}

fn starts(program: &str, args: &[&str]) -> bool {
    shell::output(Command::new(program).args(args)).is_ok()
}
