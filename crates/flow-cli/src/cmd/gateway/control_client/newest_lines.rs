//! The lines of a log from the newest to the oldest, across its rotated files. Holds one block of a file at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use flow_launch::rotated_log_file;

/// Bytes that are read at once.
const BLOCK_LEN: u64 = 64 << 10;

/// A longer line is returned in pieces. The supervisor writes none.
const LINE_LEN_MAX: usize = 128 << 10;

/// The lines of a log, the newest first.
#[derive(Debug)]
pub(super) struct NewestLines {
    path: PathBuf,
    /// The number of the rotated file that is next.
    next: u32,
    file: Option<File>,
    /// The files that were read: one that is rotated meanwhile is not read again.
    read: Vec<u64>,
    /// Bytes of the file before those in `block`.
    before: u64,
    /// The end of the file's part that was not returned yet.
    block: Vec<u8>,
    /// Bytes that were read from all files.
    pub(super) bytes: u64,
}

impl NewestLines {
    /// The lines of the log with this newest file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut lines = Self {
            path: path.to_owned(),
            next: 1,
            file: None,
            read: Vec::new(),
            before: 0,
            block: Vec::new(),
            bytes: 0,
        };
        lines.open(path)?;
        lines.skip_unfinished()?;
        Ok(lines)
    }

    /// The next older line without its end; `None` if there is none.
    pub(super) fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            // The last byte ends the line that is returned.
            let inner = self.block.len().saturating_sub(1);
            if let Some(at) = self.block[..inner].iter().rposition(|it| *it == b'\n') {
                return Ok(Some(self.take_from(at + 1)));
            }
            if self.block.len() >= LINE_LEN_MAX {
                return Ok(Some(self.take_from(0)));
            }
            if self.before > 0 {
                self.read_block()?;
            } else if !self.block.is_empty() {
                return Ok(Some(self.take_from(0)));
            } else if !self.open_older() {
                return Ok(None);
            }
        }
    }

    fn take_from(&mut self, start: usize) -> String {
        let line = self.block.split_off(start);
        String::from_utf8_lossy(&line)
            .trim_end_matches('\n')
            .to_owned()
    }

    /// Leaves out a line at the end of the newest file that is being written.
    fn skip_unfinished(&mut self) -> io::Result<()> {
        while self.block.is_empty() && self.before > 0 {
            self.read_block()?;
        }
        let end = self.block.iter().rposition(|it| *it == b'\n');
        self.block.truncate(end.map_or(0, |it| it + 1));
        Ok(())
    }

    /// Reads the block before the present one.
    fn read_block(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else {
            self.before = 0;
            return Ok(());
        };
        let start = self.before.saturating_sub(BLOCK_LEN);
        let len = self.before - start;
        let mut block = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read_exact_at(&mut block, start)?;
        block.append(&mut self.block);
        self.block = block;
        self.before = start;
        self.bytes += len;
        Ok(())
    }

    /// Opens the next older file that was not read yet.
    fn open_older(&mut self) -> bool {
        loop {
            let path = rotated_log_file(&self.path, self.next);
            self.next += 1;
            match self.open(&path) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
        }
    }

    /// Whether the file was not read before.
    fn open(&mut self, path: &Path) -> io::Result<bool> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let is_new = !self.read.contains(&metadata.ino());
        if is_new {
            self.read.push(metadata.ino());
            self.before = metadata.len();
            self.file = Some(file);
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn all(lines: &mut NewestLines) -> Vec<String> {
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    #[test]
    fn lines_come_from_the_newest_to_the_oldest_across_rotated_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        fs::write(rotated_log_file(&path, 2), "1\n").unwrap();
        fs::write(rotated_log_file(&path, 1), "2\n3\n").unwrap();
        fs::write(&path, "4\n\n5\nunfinished").unwrap();
        let mut lines = NewestLines::of(&path).unwrap();
        assert_eq!(all(&mut lines), ["5", "", "4", "3", "2", "1"]);
        assert!(NewestLines::of(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_file_that_is_rotated_meanwhile_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        fs::write(&path, "1\n2\n").unwrap();
        let mut lines = NewestLines::of(&path).unwrap();
        assert_eq!(lines.next().unwrap().as_deref(), Some("2"));
        fs::rename(&path, rotated_log_file(&path, 1)).unwrap();
        assert_eq!(all(&mut lines), ["1"]);
    }

    #[test]
    fn lines_may_be_longer_than_blocks_and_end_at_their_borders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let block = usize::try_from(BLOCK_LEN).unwrap();
        for len in [block - 2, block - 1, block, block + 1, block + 70] {
            let long = "x".repeat(len);
            fs::write(&path, format!("{long}\nshort\n{long}\n")).unwrap();
            let mut lines = NewestLines::of(&path).unwrap();
            assert!(all(&mut lines) == [&*long, "short", &*long], "{len}");
        }
    }

    #[test]
    fn a_line_without_an_end_takes_a_bounded_amount_of_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let endless = "x".repeat(5 * LINE_LEN_MAX);
        fs::write(&path, format!("{endless}\n")).unwrap();
        let mut lines = NewestLines::of(&path).unwrap();
        let mut found = 0;
        while let Some(piece) = lines.next().unwrap() {
            assert!(piece.len() <= LINE_LEN_MAX + usize::try_from(BLOCK_LEN).unwrap());
            found += piece.len();
        }
        assert_eq!(found, endless.len());
    }
}
