//! Restricts where files can be changed, by Landlock. Reading and running stays as the user may.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus,
};

use crate::applied::Applied;
use crate::error::SandboxError;

/// Where files can be changed. Everything else can only be read and run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WritableFiles {
    /// Folders in which everything can be changed. They exist.
    pub folders: Vec<PathBuf>,
}

/// The version whose rights are handled, as far as the kernel knows them. Later ones are about other things than changes of files.
const VERSION: ABI = ABI::V5;

/// What cannot be forbidden by kernels before a version of Landlock.
const GAPS: &[(ABI, &str)] = &[
    (ABI::V3, "existing files can be truncated (Landlock 3)"),
    (ABI::V5, "devices can be controlled by `ioctl` (Landlock 5)"),
];

/// Devices that every process may write to: they keep nothing, or belong to a terminal.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    // GPUs, which their drivers use by these files.
    "/dev/kfd",
    "/dev/dri",
];

/// What the names of NVIDIA's devices begin with.
const NVIDIA: &str = "nvidia";

/// Restricts the calling thread and all that it starts.
pub(crate) fn restrict(
    writable: &WritableFiles,
    applied: &mut Applied,
) -> Result<(), SandboxError> {
    let status = enforce(writable)?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled => {
            let reason = "is not enabled in this kernel (`lsm=landlock,…` at boot enables it)";
            return Err(SandboxError::NoLandlock { reason });
        }
        LandlockStatus::NotImplemented => {
            let reason = "this kernel does not have (Linux has it from 5.13 on)";
            return Err(SandboxError::NoLandlock { reason });
        }
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        let reason = "does not enforce its rules here";
        return Err(SandboxError::NoLandlock { reason });
    }
    let folders: Vec<String> = writable
        .folders
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    applied.limits.push(format!(
        "files can be changed in {} only (Landlock {version})",
        folders.join(", ")
    ));
    applied.gaps.extend(gaps(version).map(str::to_owned));
    Ok(())
}

/// What a version cannot forbid.
fn gaps(version: ABI) -> impl Iterator<Item = &'static str> {
    let missing = GAPS.iter().filter(move |(since, _)| version < *since);
    missing.map(|(_, what)| *what)
}

fn enforce(writable: &WritableFiles) -> Result<RestrictionStatus, SandboxError> {
    let changes = AccessFs::from_write(VERSION);
    let ruleset = Ruleset::default().handle_access(changes);
    let mut ruleset = ruleset
        .and_then(Ruleset::create)
        .map_err(SandboxError::Landlock)?;
    for folder in &writable.folders {
        let opened = PathFd::new(folder).map_err(|source| SandboxError::Folder {
            path: folder.clone(),
            source,
        })?;
        let added = ruleset.add_rule(PathBeneath::new(opened, changes));
        ruleset = added.map_err(SandboxError::Landlock)?;
    }
    let use_of_devices: BitFlags<AccessFs> =
        AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    // One that this machine does not have needs no rule.
    for device in devices().iter().filter_map(|it| PathFd::new(it).ok()) {
        let added = ruleset.add_rule(PathBeneath::new(device, use_of_devices));
        ruleset = added.map_err(SandboxError::Landlock)?;
    }
    ruleset.restrict_self().map_err(SandboxError::Landlock)
}

/// The devices that may be used, as far as this machine has them.
fn devices() -> Vec<PathBuf> {
    let named = DEVICES.iter().map(PathBuf::from);
    let found = fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_gpu = |path: &PathBuf| {
        let name = path.file_name().map(|it| it.to_string_lossy());
        name.is_some_and(|it| it.starts_with(NVIDIA))
    };
    let gpus = found.map(|entry| entry.path()).filter(is_gpu);
    named.chain(gpus).filter(|it| exists(it)).collect()
}

fn exists(path: &Path) -> bool {
    path.try_exists().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::ErrorKind;
    use std::thread;

    use super::*;

    #[test]
    fn an_old_kernel_has_gaps() {
        let check = |version, expected: usize| assert_eq!(gaps(version).count(), expected);
        check(ABI::V1, 2);
        check(ABI::V2, 2);
        check(ABI::V3, 1);
        check(ABI::V5, 0);
        check(ABI::V7, 0);
    }

    /// Every kind of change of this folder, with a file `old` in it, that is refused.
    fn refused(folder: &Path) -> Vec<&'static str> {
        let old = folder.join("old");
        let changes = [
            ("create", File::create(folder.join("new")).map(drop)),
            (
                "append",
                OpenOptions::new().append(true).open(&old).map(drop),
            ),
            ("make", fs::create_dir(folder.join("folder"))),
            (
                "link",
                std::os::unix::fs::symlink(&old, folder.join("link")),
            ),
            ("rename", fs::rename(&old, folder.join("renamed"))),
            (
                "remove",
                fs::remove_file(folder.join("renamed")).or_else(|_| fs::remove_file(&old)),
            ),
        ];
        let is_refused = |(what, outcome): (&'static str, Result<(), std::io::Error>)| {
            let denied = outcome.is_err_and(|it| it.kind() == ErrorKind::PermissionDenied);
            denied.then_some(what)
        };
        changes.into_iter().filter_map(is_refused).collect()
    }

    #[test]
    fn a_thread_changes_files_only_where_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        for it in [&inside, &outside] {
            fs::create_dir(it).unwrap();
            fs::write(it.join("old"), "old").unwrap();
        }
        let writable = WritableFiles {
            folders: vec![inside.clone()],
        };
        // Of this thread only: other tests keep their rights.
        let restricted = thread::spawn(move || {
            let mut applied = Applied::default();
            restrict(&writable, &mut applied)?;
            let null = OpenOptions::new().write(true).open("/dev/null");
            null.expect("every process may write to it");
            assert_eq!(fs::read_to_string(outside.join("old")).unwrap(), "old");
            Ok::<_, SandboxError>((refused(&outside), refused(&inside), applied))
        });
        let (outside, inside, applied) = match restricted.join().unwrap() {
            Err(error @ SandboxError::NoLandlock { .. }) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
            other => other.unwrap(),
        };
        let all = ["create", "append", "make", "link", "rename", "remove"];
        assert_eq!(outside, all);
        assert_eq!(inside, [""; 0]);
        assert!(
            applied.limits[0].contains("/in only (Landlock "),
            "{applied:?}"
        );
    }

    #[test]
    fn a_folder_that_does_not_exist_is_an_error() {
        let writable = WritableFiles {
            folders: vec!["/nowhere/at/all".into()],
        };
        let error = thread::spawn(move || enforce(&writable).unwrap_err());
        assert_eq!(
            error.join().unwrap().to_string(),
            "cannot open `/nowhere/at/all`, which is to stay writable"
        );
    }
}
