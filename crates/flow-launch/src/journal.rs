//! The log files of a flow: one for each process, with every line that it writes and notes of when it
//! starts, is ready and ends.
//!
//! `logs/encoder.log` holds the newest lines, `logs/encoder.log.1` those before them, and so on. A process
//! `encoder/rep-0` has `logs/encoder/rep-0.log`. `log_line.rs` says how a line looks. Lines are written by a
//! thread of their own, because a disk may be slow, and at once, so that they can be followed.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc;

use crate::log_line::LogLine;

/// A file that would grow beyond this is put aside.
const FILE_LEN_MAX: u64 = 10 << 20;

/// Files put aside that are kept, for each process.
const ASIDE_MAX: u32 = 3;

/// Lines that may wait for a slow disk before the processes that write them do.
const LINES_MAX: usize = 1_024;

/// A line and the process whose log it belongs to.
#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    line: LogLine,
}

/// Where lines are sent to be written.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    entries: mpsc::Sender<Entry>,
}

impl Journal {
    /// Starts the thread that writes; it ends when the last sender has gone.
    pub(crate) fn start(folder: PathBuf) -> io::Result<(Self, JoinHandle<()>)> {
        let (entries, mut written) = mpsc::channel(LINES_MAX);
        let mut shelf = Shelf::new(folder, FILE_LEN_MAX);
        let write = move || {
            while let Some(entry) = written.blocking_recv() {
                shelf.keep(&entry);
            }
        };
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(write)?;
        Ok((Self { entries }, thread))
    }

    /// Appends a line to the log of a process.
    pub(crate) async fn write(&self, name: Arc<str>, line: LogLine) {
        // The thread ends only after us.
        drop(self.entries.send(Entry { name, line }).await);
    }
}

/// Where the lines of a process are, the newest of them.
#[must_use]
pub fn log_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// The file with lines older than those in `file`; 1 is the one before it.
#[must_use]
pub fn older(file: &Path, number: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The open files.
#[derive(Debug)]
struct Shelf {
    folder: PathBuf,
    len_max: u64,
    files: HashMap<Arc<str>, Opened>,
    /// That lines are lost is said once.
    has_warned: bool,
}

#[derive(Debug)]
struct Opened {
    file: File,
    len: u64,
}

impl Shelf {
    fn new(folder: PathBuf, len_max: u64) -> Self {
        Self {
            folder,
            len_max,
            files: HashMap::new(),
            has_warned: false,
        }
    }

    fn keep(&mut self, entry: &Entry) {
        let Err(error) = self.write(&entry.name, &entry.line.to_string()) else {
            return;
        };
        if !std::mem::replace(&mut self.has_warned, true) {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "log files cannot be written, lines are missing in them");
        }
    }

    /// A file that cannot be written is opened anew for the next line.
    fn write(&mut self, name: &Arc<str>, line: &str) -> io::Result<()> {
        let text = format!("{line}\n");
        let len = text.len() as u64;
        let path = log_file(&self.folder, name);
        let opened = match self.files.remove(name) {
            Some(opened) => opened,
            None => open(&path)?,
        };
        let mut opened = if opened.len > 0 && opened.len + len > self.len_max {
            put_aside(&path)?;
            open(&path)?
        } else {
            opened
        };
        opened.file.write_all(text.as_bytes())?;
        opened.len += len;
        self.files.insert(name.clone(), opened);
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<Opened> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    let len = file.metadata()?.len();
    Ok(Opened { file, len })
}

/// Makes room for a new file: each older one moves on by one, and the last of them is replaced.
fn put_aside(path: &Path) -> io::Result<()> {
    for number in (1..ASIDE_MAX).rev() {
        match fs::rename(older(path, number), older(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, older(path, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_line::LogSource;

    #[test]
    fn a_long_file_is_put_aside_and_the_oldest_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        // Room for two lines of two bytes.
        let mut shelf = Shelf::new(folder.path().to_owned(), 4);
        let name: Arc<str> = "a/rep-0".into();
        for line in ["0", "1", "2", "3", "4", "5", "6", "7", "8"] {
            shelf.write(&name, line).unwrap();
        }
        let newest = log_file(folder.path(), "a/rep-0");
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        assert_eq!(read(newest.clone()).as_deref(), Some("8\n"));
        assert_eq!(read(older(&newest, 1)).as_deref(), Some("6\n7\n"));
        assert_eq!(read(older(&newest, 3)).as_deref(), Some("2\n3\n"));
        assert_eq!(read(older(&newest, 4)), None);
    }

    #[test]
    fn a_line_that_is_longer_than_a_file_has_one_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::new(folder.path().to_owned(), 2);
        let name: Arc<str> = "a".into();
        shelf.write(&name, "long").unwrap();
        shelf.write(&name, "longer").unwrap();
        let newest = log_file(folder.path(), "a");
        assert_eq!(fs::read_to_string(older(&newest, 1)).unwrap(), "long\n");
        assert_eq!(fs::read_to_string(newest).unwrap(), "longer\n");
    }

    #[test]
    fn a_new_flow_goes_on_in_the_files_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        for line in ["first", "second"] {
            let mut shelf = Shelf::new(folder.path().to_owned(), 100);
            shelf.write(&"a".into(), line).unwrap();
        }
        let newest = log_file(folder.path(), "a");
        assert_eq!(fs::read_to_string(newest).unwrap(), "first\nsecond\n");
    }

    #[test]
    fn a_folder_that_cannot_be_written_loses_lines_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("not-a-folder");
        fs::write(&file, "").unwrap();
        let mut shelf = Shelf::new(file, 100);
        shelf.keep(&Entry {
            name: "a".into(),
            line: LogLine::now(LogSource::Stdout, "x".to_owned()),
        });
        assert!(shelf.has_warned);
    }
}
