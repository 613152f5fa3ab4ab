//! Where a package is built, and where its program is kept.
//!
//! Packages that are workspaces of their own are built in one folder of the user's cache, so that what they have in
//! common is compiled once. The programs of two packages may have the same name there, and the second build would
//! replace what runs of the first: each program is kept in a folder of its package.
//!
//! Where the user says where Cargo builds, or the package is part of a larger workspace, it is built there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::output;
use crate::places;

/// Below the cache: Cargo's target folder of all executors.
const TARGET: &str = "executors/target";

/// Below the cache: their programs, each in a folder of its own.
const PROGRAMS: &str = "executors/programs";

/// Where a package is built.
#[derive(Debug)]
pub(super) enum Place {
    /// Where Cargo builds it by itself.
    Cargos,
    /// In the folder of all executors.
    Shared(Shared),
}

/// The folder of all executors, for one of them.
#[derive(Debug)]
pub(super) struct Shared {
    /// Cargo's target folder.
    pub(super) target: PathBuf,
    /// The folder of this package's program.
    program: PathBuf,
    /// Held while the package is built, until its program is kept. Another build waits.
    _lock: File,
}

impl Place {
    /// Decides by what `cargo metadata` says of the package. `cache` is flow's folder in the user's cache, if the user
    /// has one.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub(super) fn of(
        manifest: &Path,
        metadata: &Value,
        profile: &str,
        cache: Option<&Path>,
    ) -> anyhow::Result<Self> {
        match cache.filter(|_| is_cargos_choice(manifest, metadata)) {
            Some(cache) => {
                let shared = Shared::new(cache, manifest, profile)?;
                if let Some(name) = metadata["packages"][0]["name"].as_str() {
                    shared.claim(name, manifest)?;
                }
                Ok(Self::Shared(shared))
            }
            None => Ok(Self::Cargos),
        }
    }

    /// Keeps the program that Cargo has made. Gives its path.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub(super) fn keep(&self, program: PathBuf) -> anyhow::Result<PathBuf> {
        match self {
            Self::Cargos => Ok(program),
            Self::Shared(shared) => {
                let kept = shared.keep(&program);
                kept.with_context(|| {
                    let folder = shared.program.display();
                    format!("cannot keep `{}` in `{folder}`", program.display())
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
        let hash = places::hash(manifest.as_os_str().as_encoded_bytes());
        let program = format!("{PROGRAMS}/{folder}-{hash:016x}/{profile}");
        Ok(Self {
            program: cache.join(program),
            target,
            _lock: lock,
        })
    }

    /// Makes Cargo compile this package if the last one of its name was another. Cargo distinguishes workspaces
    /// by their target folders; in a shared folder it takes the program of one for that of the other.
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

    /// Running programs keep the file that they were started from, so it is replaced and not written to.
    fn keep(&self, program: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.program)?;
        let name = program.file_name().unwrap_or_default();
        let (new, kept) = (self.program.join("new"), self.program.join(name));
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if fs::hard_link(program, &new).is_err() {
            fs::copy(program, &new)?;
        }
        fs::rename(&new, &kept)?;
        Ok(kept)
    }
}

/// Nothing but the package itself says where it is built.
fn is_cargos_choice(manifest: &Path, metadata: &Value) -> bool {
    let path = |key: &str| metadata[key].as_str().map(Path::new);
    let (Some(root), Some(target)) = (path("workspace_root"), path("target_directory")) else {
        return false;
    };
    let folder = manifest.parent().unwrap_or(Path::new(""));
    super::same_file(root, folder) && target == root.join("target")
}

/// One build at a time: Cargo has it so anyway, and a program must be kept before the next of its name is built.
fn lock(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    output::error_line("waiting for another executor that is being built");
    file.lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_package_of_its_own_is_built_in_the_shared_folder() {
        let cache = tempfile::tempdir().unwrap();
        let check = |root: &str, target: &str, cache: Option<&Path>, expected: bool| {
            let metadata = json!({"workspace_root": root, "target_directory": target});
            let manifest = Path::new("/w/a/Cargo.toml");
            let place = Place::of(manifest, &metadata, "release", cache).unwrap();
            let is_shared = matches!(place, Place::Shared(_));
            assert_eq!(is_shared, expected, "{root} {target} {cache:?}");
        };
        let has = Some(cache.path());
        check("/w/a", "/w/a/target", has, true);
        check("/w/a", "/w/a/target", None, false);
        check("/w/a", "/elsewhere", has, false);
        check("/w", "/w/target", has, false);
    }

    #[test]
    fn programs_of_one_name_are_kept_apart_and_outlive_the_next_build() {
        let cache = tempfile::tempdir().unwrap();
        let keep = |folder: &str, content: &str| {
            let manifest = Path::new(folder).join("Cargo.toml");
            let shared = Shared::new(cache.path(), &manifest, "release").unwrap();
            let built = shared.target.join("greeter");
            // As Cargo does it: what was there goes first.
            drop(fs::remove_file(&built));
            fs::write(&built, content).unwrap();
            let kept = shared.keep(&built).unwrap();
            assert_eq!(kept.file_name().unwrap(), "greeter");
            kept
        };
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let one = keep("/one/greeter", "one");
        let other = keep("/other/greeter", "other");
        assert_eq!((read(&one), read(&other)), ("one".into(), "other".into()));
        assert_eq!(keep("/one/greeter", "one again"), one);
        assert_eq!(read(&one), "one again");
    }
}
