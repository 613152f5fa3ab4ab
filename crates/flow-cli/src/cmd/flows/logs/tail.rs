//! Reads the end of a log file, and the lines that follow, across the rotation of the file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use flow_launch::rotated_log_file;

/// A log file that is followed.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    file: File,
    /// The start of a line that has no end yet.
    partial: Vec<u8>,
}

impl Tail {
    /// Opens a file, and returns its last lines. If it has fewer, lines of older files are added.
    pub(super) fn open(path: PathBuf, lines: usize) -> io::Result<(Self, Vec<String>)> {
        let file = File::open(&path)?;
        let mut tail = Self {
            path,
            file,
            partial: Vec::new(),
        };
        let mut found = tail.rest()?;
        let mut number = 1;
        while found.len() < lines {
            let Ok(text) = fs::read(rotated_log_file(&tail.path, number)) else {
                break;
            };
            let text = String::from_utf8_lossy(&text).into_owned();
            let mut before: Vec<String> = text.lines().map(str::to_owned).collect();
            before.append(&mut found);
            found = before;
            number += 1;
        }
        let skipped = found.len().saturating_sub(lines);
        found.drain(..skipped);
        Ok((tail, found))
    }

    /// The lines that were written since.
    pub(super) fn more(&mut self) -> io::Result<Vec<String>> {
        let mut lines = self.rest()?;
        let is_another = match (fs::metadata(&self.path), self.file.metadata()) {
            (Ok(now), Ok(ours)) => now.ino() != ours.ino(),
            // During the rotation there is no file for a moment.
            _ => false,
        };
        if is_another {
            // The lines that were written before the rotation.
            lines.append(&mut self.rest()?);
            self.file = File::open(&self.path)?;
            lines.append(&mut self.rest()?);
        }
        Ok(lines)
    }

    fn rest(&mut self) -> io::Result<Vec<String>> {
        let mut bytes = std::mem::take(&mut self.partial);
        self.file.read_to_end(&mut bytes)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        self.partial = bytes.split_off(end.map_or(0, |it| it + 1));
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_may_be_in_older_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        fs::write(rotated_log_file(&path, 2), "1\n2\n").unwrap();
        fs::write(rotated_log_file(&path, 1), "3\n4\n").unwrap();
        fs::write(&path, "5\n").unwrap();
        let check = |lines: usize, expected: &[&str]| {
            assert_eq!(Tail::open(path.clone(), lines).unwrap().1, expected);
        };
        check(0, &[]);
        check(1, &["5"]);
        check(3, &["3", "4", "5"]);
        check(9, &["1", "2", "3", "4", "5"]);
    }

    #[test]
    fn lines_are_followed_across_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut file = File::create(&path).unwrap();
        let (mut tail, _) = Tail::open(path.clone(), 0).unwrap();
        assert!(tail.more().unwrap().is_empty());
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.more().unwrap(), ["one"]);
        file.write_all(b"o\n").unwrap();
        fs::rename(&path, rotated_log_file(&path, 1)).unwrap();
        assert_eq!(tail.more().unwrap(), ["two"]);
        fs::write(&path, "three\n").unwrap();
        assert_eq!(tail.more().unwrap(), ["three"]);
    }
}
