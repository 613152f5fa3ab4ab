//! NVIDIA's compiler, unpacked from wheels into `target/cuda-toolkit`: no root, no CUDA on the machine.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::setup::Python;
use crate::shell;

/// Names, versions and hashes of the wheels.
const REQUIREMENTS: &str = "xtask/cuda-toolkit.txt";

/// Where all of them unpack to.
const IN_WHEELS: &str = "nvidia/cu13";

/// Written last: the requirements that were unpacked.
const READY: &str = "ready";

/// Where wheels have programs. They forget which files may be run.
const PROGRAMS: [&str; 2] = ["bin", "nvvm/bin"];

/// A compiler that is there.
#[derive(Debug)]
pub(super) struct Toolkit {
    folder: PathBuf,
}

impl Toolkit {
    /// The compiler; fetched if it is not there, or if other versions are asked for now.
    pub(super) fn ready() -> anyhow::Result<Self> {
        let folder = crate::repository::target("cuda-toolkit");
        fs::create_dir_all(crate::repository::target(""))?;
        let lock = File::create(crate::repository::target("cuda-toolkit.lock"))?;
        lock.lock().context("cannot lock the toolkit's folder")?;
        let wanted = requirements()?;
        let found = fs::read_to_string(folder.join(READY)).unwrap_or_default();
        if found != wanted {
            make(&folder, &wanted)?;
        }
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Such as `nvcc 13.0.88`.
    pub(super) fn version(&self) -> anyhow::Result<String> {
        let output = shell::output(self.program("nvcc").arg("--version"))?;
        let version = output.split_whitespace().find_map(|word| {
            let version = word.strip_prefix('V')?;
            version
                .starts_with(|it: char| it.is_ascii_digit())
                .then_some(version)
        });
        Ok(format!(
            "nvcc {}",
            version.context("nvcc printed no version")?
        ))
    }

    /// One of its programs.
    pub(super) fn program(&self, name: &str) -> Command {
        Command::new(self.folder.join("bin").join(name))
    }
}

/// The exact requirements; if they change, the folder is created again.
pub(super) fn requirements() -> anyhow::Result<String> {
    Ok(fs::read_to_string(
        crate::repository::root().join(REQUIREMENTS),
    )?)
}

fn make(folder: &Path, wanted: &str) -> anyhow::Result<()> {
    let python = Python::find()?;
    eprintln!("cuda-toolkit: downloading nvcc and its headers (105 MB)");
    let work = crate::repository::target("cuda-toolkit.part");
    remove(&work)?;
    fs::create_dir_all(&work)?;
    python.download(&crate::repository::root().join(REQUIREMENTS), &work)?;
    for entry in fs::read_dir(&work)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "whl") {
            python.unpack(&path, &work)?;
        }
    }
    let unpacked = work.join(IN_WHEELS);
    if !unpacked.join("bin/nvcc").exists() {
        bail!("the wheels have no `{IN_WHEELS}/bin/nvcc`");
    }
    for programs in PROGRAMS {
        for entry in fs::read_dir(unpacked.join(programs))? {
            fs::set_permissions(entry?.path(), Permissions::from_mode(0o755))?;
        }
    }
    fs::write(unpacked.join(READY), wanted)?;
    remove(folder)?;
    fs::rename(unpacked, folder)?;
    remove(&work)
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wheel_is_pinned_with_a_hash_for_each_processor() {
        let text = requirements().unwrap();
        let names: Vec<&str> = text.lines().filter(|line| line.contains("==")).collect();
        assert!(
            names.iter().all(|line| line.contains("==13.0.")),
            "{names:?}"
        );
        assert_eq!(text.matches("--hash=sha256:").count(), 2 * names.len());
    }
}
