//! Reads and writes the file of API keys, for its owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_gateway::auth::KeyFile;
use rustix::fs::{FlockOperation, flock};

use crate::exit::BadUsage;

/// The beginning of the file. `flow key` rewrites the file, so comments of users would be lost.
const HEADER: &str = "# API keys. `flow key` writes this file; comments are not kept.\n";

/// Waits until no other `flow key` changes the file. The lock ends when this is dropped.
pub(super) fn lock(path: &Path) -> anyhow::Result<File> {
    let folder = folder(path);
    let cannot = || BadUsage(format!("cannot use the folder `{}`", folder.display()));
    let lock = File::open(&folder).with_context(cannot)?;
    flock(&lock, FlockOperation::LockExclusive).with_context(cannot)?;
    Ok(lock)
}

/// The keys of a file, or none if there is no file.
pub(super) fn read_or_new(path: &Path) -> anyhow::Result<KeyFile> {
    if !path.exists() {
        return Ok(KeyFile::default());
    }
    KeyFile::read(path).with_context(|| BadUsage("cannot use the keys".to_owned()))
}

/// Replaces the file as a whole: a gateway never reads a part of it.
pub(super) fn write(path: &Path, keys: &KeyFile) -> anyhow::Result<()> {
    let cannot = || BadUsage(format!("cannot write `{}`", path.display()));
    replace(path, &format!("{HEADER}{}", keys.to_yaml())).with_context(cannot)
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link stays a link: its target is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let new = target.with_extension(format!("{}.part", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| {
        if let Ok(before) = fs::metadata(&target) {
            file.set_permissions(before.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&new, &target)
    });
    if written.is_err() {
        // What failed is reported.
        drop(fs::remove_file(&new));
    }
    written
}

/// The folder of a file.
fn folder(path: &Path) -> PathBuf {
    let parent = path.parent().unwrap_or(Path::new(""));
    match parent.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => parent.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use flow_gateway::auth::KeyEntry;

    use super::*;

    #[test]
    fn a_new_file_is_for_its_owner_and_another_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.yml");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let keys = KeyFile {
            keys: vec![KeyEntry::new("a", "b")],
        };
        write(&path, &keys).unwrap();
        assert_eq!(mode(), 0o600);
        assert_eq!(read_or_new(&path).unwrap(), keys);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        write(&path, &KeyFile::default()).unwrap();
        assert_eq!(mode(), 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
