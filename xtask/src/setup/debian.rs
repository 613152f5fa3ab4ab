//! Programs unpacked from Debian's packages: that needs no root and no installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::shell;

/// A package whose programs are wanted.
#[derive(Debug)]
pub(crate) struct Package {
    /// The folder in `.peers/` that gets its programs.
    pub(crate) folder: &'static str,
    name: &'static str,
    /// Size of the download, in megabytes.
    megabytes: u32,
}

/// A registry of images.
pub(crate) const REGISTRY: Package = Package {
    folder: "registry",
    name: "docker-registry",
    megabytes: 5,
};

/// Prometheus, and `promtool`, which checks its files.
pub(crate) const PROMETHEUS: Package = Package {
    folder: "prometheus",
    name: "prometheus",
    megabytes: 20,
};

/// The program `kubectl` of Kubernetes.
pub(crate) const KUBECTL: Package = Package {
    folder: "kubectl",
    name: "kubernetes-client",
    megabytes: 9,
};

impl Package {
    /// The folder comes whole, by one rename: if it is there, it is ready.
    pub(crate) fn is_ready(&self, peers: &Path) -> bool {
        peers.join(self.folder).exists()
    }

    pub(crate) fn make(&self, peers: &Path) -> anyhow::Result<()> {
        let Self { folder, name, .. } = self;
        eprintln!(
            "{folder}: downloading Debian's `{name}` ({} MB)",
            self.megabytes
        );
        let work = peers.join(format!("{folder}.part"));
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir_all(&work)?;
        let download = ["download", "-qq", name];
        shell::output(Command::new("apt-get").args(download).current_dir(&work))
            .context("the package comes from Debian or Ubuntu")?;
        let unpacked = work.join("unpacked");
        let archive = archive(&work)?;
        shell::output(Command::new("dpkg").arg("-x").arg(archive).arg(&unpacked))?;
        fs::rename(unpacked.join("usr/bin"), peers.join(folder))
            .with_context(|| format!("`{name}` has no programs"))?;
        fs::remove_dir_all(&work)?;
        Ok(())
    }
}

fn archive(folder: &Path) -> anyhow::Result<PathBuf> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    let archive = paths
        .into_iter()
        .find(|path| path.extension().is_some_and(|it| it == "deb"));
    archive.context("apt-get downloaded no package")
}
