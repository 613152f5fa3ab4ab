//! A file that appears complete: until it is finished it has a temporary name, and the file that was there before stays.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    /// Its temporary and its final path. `None` if it is written in place.
    rename: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// Creates a file that will be at `path`. If something is there that is not a regular file, such as a pipe or
    /// `/dev/null`, it is written to directly.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // A link stays a link: its target is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let before = fs::metadata(&target).ok();
        if before.as_ref().is_some_and(|about| !about.is_file()) {
            let file = OpenOptions::new().write(true).open(&target)?;
            return Ok(Self { file, rename: None });
        }
        let part = part_of(&target)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&part)?;
        let new = Self {
            file,
            rename: Some((part, target)),
        };
        if let Some(before) = before {
            new.file.set_permissions(before.permissions())?;
        }
        Ok(new)
    }

    /// Gives the file its final path.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match self.rename.take() {
            Some((part, target)) => fs::rename(part, target),
            None => Ok(()),
        }
    }
}

/// A temporary path beside `target` that no other process uses.
fn part_of(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut part = OsString::from(".");
    part.push(name);
    part.push(format!(".{}.part", std::process::id()));
    Ok(target.with_file_name(part))
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.rename {
            // It was not finished. A failure to remove it cannot be reported.
            drop(fs::remove_file(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect()
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut new = NewFile::create(&path).unwrap();
        new.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        new.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn an_unfinished_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        drop(NewFile::create(&folder.path().join("out")).unwrap());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_link_keeps_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut new = NewFile::create(&link).unwrap();
        new.write_all(b"new").unwrap();
        new.finish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn devices_are_written_to_directly() {
        let mut null = NewFile::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"x").unwrap();
        null.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
