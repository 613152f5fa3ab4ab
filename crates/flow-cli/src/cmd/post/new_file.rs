//! A file that appears whole: until it is finished it lies beside its place under another name, and what
//! was there before stays.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is being written.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    /// Where it lies, and where it belongs; none if it is written in place.
    rename: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// Begins a file that will be at `path`. What is there and is no regular file, such as a pipe or
    /// `/dev/null`, is written to directly.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        // A link stays one: its target is what is replaced.
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

    /// Puts the file in its place.
    pub(super) fn finish(mut self) -> io::Result<()> {
        match self.rename.take() {
            Some((part, target)) => fs::rename(part, target),
            None => Ok(()),
        }
    }
}

/// A name beside `target` that no other process takes.
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
            // It was never finished. If it cannot be removed either, there is nobody left to tell.
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
    fn what_was_there_stays_until_the_new_file_is_finished() {
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
    fn a_file_that_is_never_finished_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        drop(NewFile::create(&folder.path().join("out")).unwrap());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_link_keeps_leading_to_its_target() {
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
    fn devices_are_written_to_as_they_are() {
        let mut null = NewFile::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"x").unwrap();
        null.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
