//! The path of the repository, and of its build folder.

use std::path::{Path, PathBuf};

/// The repository's top folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask/ lies in the top folder")
}

/// The folder in which cargo puts the programs of a profile, such as `release`.
pub(crate) fn programs(profile: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target
        .map_or_else(|| root().join("target"), PathBuf::from)
        .join(profile)
}

/// A path below `target/`, whatever folder cargo itself builds in.
pub(crate) fn target(name: &str) -> PathBuf {
    root().join("target").join(name)
}
