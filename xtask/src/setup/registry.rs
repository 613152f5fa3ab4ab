//! A registry of images, unpacked from Debian's package: it needs no root and no installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::shell;

pub(crate) const FOLDER: &str = "registry";

const PACKAGE: &str = "docker-registry";

/// The folder comes whole, by one rename: if it is there, it is ready.
pub(crate) fn is_ready(peers: &Path) -> bool {
    peers.join(FOLDER).exists()
}

pub(crate) fn make(peers: &Path) -> anyhow::Result<()> {
    eprintln!("registry: downloading Debian's `{PACKAGE}` (5 MB)");
    let work = peers.join("registry.part");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    let download = ["download", "-qq", PACKAGE];
    shell::output(Command::new("apt-get").args(download).current_dir(&work))
        .context("the package comes from Debian or Ubuntu")?;
    let unpacked = work.join("unpacked");
    let package = package(&work)?;
    shell::output(Command::new("dpkg").arg("-x").arg(package).arg(&unpacked))?;
    fs::rename(unpacked.join("usr/bin"), peers.join(FOLDER))
        .with_context(|| format!("`{PACKAGE}` has no programs"))?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

fn package(folder: &Path) -> anyhow::Result<PathBuf> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    let package = paths
        .into_iter()
        .find(|path| path.extension().is_some_and(|it| it == "deb"));
    package.context("apt-get downloaded no package")
}
