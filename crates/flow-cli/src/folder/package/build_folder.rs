//! The folders in which packages are built and their programs are stored.
//!
//! Packages that are workspaces of their own share a target folder in the user's cache, so that common dependencies are
//! compiled once. Programs of two packages may have the same name there, and the second build would replace the first program
//! while it runs. Therefore each program is copied to a folder of its package.
//!
//! A package that is part of a larger workspace, or whose target folder is configured, is built where Cargo builds it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::output;
use crate::paths;

/// Cargo's target folder of all executors, below the cache.
const TARGET: &str = "executors/target";

/// The programs, each in a folder of its own, below the cache.
const PROGRAMS: &str = "executors/programs";

/// The folder in which a package is built.
#[derive(Debug)]
pub(super) enum BuildFolder {
    /// The folder that Cargo chooses.
    Default,
    /// The target folder of all executors.
    Shared(Shared),
}

/// The shared target folder, for one package.
#[derive(Debug)]
pub(super) struct Shared {
    /// Cargo's target folder.
    pub(super) target: PathBuf,
    /// Folder for the program of the package.
    program: PathBuf,
    /// Held until the program is copied. Another build waits.
    _lock: File,
}

impl BuildFolder {
    /// Chooses by the output of `cargo metadata`. `cache` is flow's folder in the user's cache.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub(super) fn of(
        manifest: &Path,
        metadata: &Value,
        profile: &str,
        cache: Option<&Path>,
    ) -> anyhow::Result<Self> {
        match cache.filter(|_| is_default(manifest, metadata)) {
            Some(cache) => {
                let shared = Shared::new(cache, manifest, profile)?;
                if let Some(name) = metadata["packages"][0]["name"].as_str() {
                    shared.claim(name, manifest)?;
                }
                Ok(Self::Shared(shared))
            }
            None => Ok(Self::Default),
        }
    }

    /// Stores the program that Cargo has built, and returns its path.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub(super) fn store(&self, program: PathBuf) -> anyhow::Result<PathBuf> {
        match self {
            Self::Default => Ok(program),
            Self::Shared(shared) => {
                let stored = shared.store(&program);
                stored.with_context(|| {
                    let folder = shared.program.display();
                    format!("cannot copy `{}` to `{folder}`", program.display())
                })
            }
        }
    }
}

impl Shared {
    fn new(cache: &Path, manifest: &Path, profile: &str) -> anyhow::Result<Self> {
        let target = cache.join(TARGET);
        let cannot = || format!("cannot build executors in `{}`", target.display());
        fs::create_dir_all(&target).with_context(cannot)?;
        let lock = lock(&target.with_extension("lock")).with_context(cannot)?;
        let folder = manifest.parent().and_then(Path::file_name);
        let folder = folder.unwrap_or_default().to_string_lossy();
        let hash = paths::fnv1a(manifest.as_os_str().as_encoded_bytes());
        let program = format!("{PROGRAMS}/{folder}-{hash:016x}/{profile}");
        Ok(Self {
            program: cache.join(program),
            target,
            _lock: lock,
        })
    }

    /// Makes Cargo compile this package if the last package of this name was another one. Cargo distinguishes workspaces by
    /// their target folders; in a shared folder it mistakes the program of one for that of the other.
    fn claim(&self, name: &str, manifest: &Path) -> io::Result<()> {
        let owners = self.target.with_file_name("owners");
        let owner = owners.join(name);
        let path = manifest.as_os_str().as_encoded_bytes();
        if fs::read(&owner).is_ok_and(|known| known == path) {
            return Ok(());
        }
        let prefix = format!("{name}-");
        for profile in fs::read_dir(&self.target)? {
            let Ok(fingerprints) = fs::read_dir(profile?.path().join(".fingerprint")) else {
                continue;
            };
            for fingerprint in fingerprints {
                let fingerprint = fingerprint?;
                if fingerprint
                    .file_name()
                    .to_string_lossy()
                    .starts_with(&prefix)
                {
                    fs::remove_dir_all(fingerprint.path())?;
                }
            }
        }
        fs::create_dir_all(&owners)?;
        fs::write(owner, path)
    }

    /// Replaces the file and does not write to it: running programs keep the file that they were started from.
    fn store(&self, program: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.program)?;
        let name = program.file_name().unwrap_or_default();
        let (new, stored) = (self.program.join("new"), self.program.join(name));
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if fs::hard_link(program, &new).is_err() {
            fs::copy(program, &new)?;
        }
        fs::rename(&new, &stored)?;
        Ok(stored)
    }
}

/// Whether the package is a workspace of its own, and its target folder is not configured.
fn is_default(manifest: &Path, metadata: &Value) -> bool {
    let path = |key: &str| metadata[key].as_str().map(Path::new);
    let (Some(root), Some(target)) = (path("workspace_root"), path("target_directory")) else {
        return false;
    };
    let folder = manifest.parent().unwrap_or(Path::new(""));
    same_file(root, folder) && target == root.join("target")
}

/// Allows one build at a time, as Cargo does: a program must be copied before the next one of its name is built.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    output::error_line("waiting for the build of another executor");
    file.lock()?;
    Ok(file)
}

/// Whether two paths are the same file. Cargo may resolve links in paths.
pub(super) fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_workspace_of_its_own_is_built_in_the_shared_folder() {
        let cache = tempfile::tempdir().unwrap();
        let check = |root: &str, target: &str, cache: Option<&Path>, expected: bool| {
            let metadata = json!({"workspace_root": root, "target_directory": target});
            let manifest = Path::new("/w/a/Cargo.toml");
            let folder = BuildFolder::of(manifest, &metadata, "release", cache).unwrap();
            let is_shared = matches!(folder, BuildFolder::Shared(_));
            assert_eq!(is_shared, expected, "{root} {target} {cache:?}");
        };
        let has = Some(cache.path());
        check("/w/a", "/w/a/target", has, true);
        check("/w/a", "/w/a/target", None, false);
        check("/w/a", "/elsewhere", has, false);
        check("/w", "/w/target", has, false);
    }

    #[test]
    fn programs_of_the_same_name_are_stored_apart() {
        let cache = tempfile::tempdir().unwrap();
        let store = |folder: &str, content: &str| {
            let manifest = Path::new(folder).join("Cargo.toml");
            let shared = Shared::new(cache.path(), &manifest, "release").unwrap();
            let built = shared.target.join("greeter");
            // Cargo removes the old program first.
            drop(fs::remove_file(&built));
            fs::write(&built, content).unwrap();
            let stored = shared.store(&built).unwrap();
            assert_eq!(stored.file_name().unwrap(), "greeter");
            stored
        };
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let one = store("/one/greeter", "one");
        let other = store("/other/greeter", "other");
        assert_eq!((read(&one), read(&other)), ("one".into(), "other".into()));
        assert_eq!(store("/one/greeter", "one again"), one);
        assert_eq!(read(&one), "one again");
    }
}
