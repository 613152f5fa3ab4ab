//! The log files of a flow: one for each process, with every line that the process writes, and notes of when it
//! starts, is ready and exits.
//!
//! `logs/encoder.log` holds the newest lines, `logs/encoder.log.1` those before them, and so on. A process
//! `encoder/rep-0` has `logs/encoder/rep-0.log`. `log_line.rs` defines the format of a line. A thread of its own writes
//! the lines as soon as it can, so that files can be followed. When the disk is too slow for it, lines are dropped, and a
//! note in the file says how many.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use flow_process::{DroppedLines, LossySender, lossy_channel};

use crate::logs::lines::Lines;
use crate::logs::log_line::{LogSource, line_start};

/// A file that would grow beyond this is rotated.
const FILE_LEN_MAX: u64 = 10 << 20;

/// Rotated files kept for each process.
const ROTATED_MAX: u32 = 3;

/// Lines that may wait for a slow disk, or groups of lines that were read together; more are dropped.
const LINES_MAX: usize = 1_024;

/// Time that the disk gets for the last lines when the flow has ended.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Lines and the process whose log file they belong to.
#[derive(Debug)]
struct LoggedLines {
    name: Arc<str>,
    /// When they were read.
    time: SystemTime,
    source: LogSource,
    lines: Lines,
}

impl LoggedLines {
    /// The lines as the file has them.
    fn write_to(&self, text: &mut String) {
        let start = line_start(self.time, self.source);
        text.reserve(self.lines.len() + self.lines.count() * (start.len() + 1));
        for line in self.lines.iter() {
            text.push_str(&start);
            text.push_str(line);
            text.push('\n');
        }
    }
}

impl From<DroppedLines> for LoggedLines {
    fn from(dropped: DroppedLines) -> Self {
        Self {
            time: SystemTime::now(),
            source: LogSource::Flow,
            lines: Lines::new(dropped.to_string()),
            name: dropped.name,
        }
    }
}

/// Sends lines to the thread that writes them; never waits.
#[derive(Debug, Clone)]
pub(crate) struct LogFiles {
    entries: LossySender<LoggedLines>,
}

/// The thread that writes log files.
#[derive(Debug)]
pub(crate) struct LogWriter {
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl LogFiles {
    /// Starts the thread that writes; it ends when the last sender is gone.
    pub(crate) fn start(folder: PathBuf) -> io::Result<(Self, LogWriter)> {
        let (entries, mut received) = lossy_channel(LINES_MAX);
        let (running, ended) = sync_channel(0);
        let mut files = OpenFiles::new(folder, FILE_LEN_MAX);
        let write = move || {
            let _running = running;
            while let Some(entries) = received.blocking_recv_some() {
                files.append(&entries);
            }
        };
        thread::Builder::new()
            .name("log-files".to_owned())
            .spawn(write)?;
        Ok((Self { entries }, LogWriter { ended }))
    }

    /// Appends lines to the log file of a process.
    pub(crate) fn write(&self, name: &Arc<str>, source: LogSource, lines: Lines) {
        let count = lines.count();
        let entry = LoggedLines {
            name: name.clone(),
            time: SystemTime::now(),
            source,
            lines,
        };
        self.entries.send_lines(name, entry, count);
    }
}

impl LogWriter {
    /// Waits until every line is in its file, for a limited time: a disk that does not respond must not keep a flow
    /// from ending. To be called when all senders are gone.
    pub(crate) fn finish(self) {
        use std::sync::mpsc::RecvTimeoutError;
        if self.ended.recv_timeout(FLUSH_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(limit = ?FLUSH_MAX, "the disk does not respond; the last lines are missing from the log files");
        }
    }
}

/// The log file of a process, which holds its newest lines.
#[must_use]
pub fn log_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// A rotated log file: number 1 holds the lines right before those in `file`.
#[must_use]
pub fn rotated_log_file(file: &Path, number: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The files that are open for writing.
#[derive(Debug)]
struct OpenFiles {
    folder: PathBuf,
    len_max: u64,
    files: HashMap<Arc<str>, OpenFile>,
    /// The warning about lost lines is logged once.
    has_warned: bool,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    len: u64,
}

impl OpenFiles {
    fn new(folder: PathBuf, len_max: u64) -> Self {
        Self {
            folder,
            len_max,
            files: HashMap::new(),
            has_warned: false,
        }
    }

    /// Appends lines; those of one process that follow each other in one go.
    fn append(&mut self, entries: &[LoggedLines]) {
        for of_process in entries.chunk_by(|one, next| one.name == next.name) {
            let mut text = String::new();
            for entry in of_process {
                entry.write_to(&mut text);
            }
            let written = self.write(&of_process[0].name, &text);
            self.report(written);
        }
    }

    fn report(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        if !std::mem::replace(&mut self.has_warned, true) {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "cannot write log files; lines are missing from them");
        }
    }

    /// Appends lines with their ends. A file that cannot be written is opened again for the next ones.
    fn write(&mut self, name: &Arc<str>, text: &str) -> io::Result<()> {
        let len = text.len() as u64;
        let path = log_file(&self.folder, name);
        let opened = match self.files.remove(name) {
            Some(opened) => opened,
            None => open(&path)?,
        };
        let mut opened = if opened.len > 0 && opened.len + len > self.len_max {
            rotate(&path)?;
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

fn open(path: &Path) -> io::Result<OpenFile> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    let len = file.metadata()?.len();
    Ok(OpenFile { file, len })
}

/// Renames each rotated file to the next number, which replaces the last one, and the file itself to number 1.
fn rotate(path: &Path) -> io::Result<()> {
    for number in (1..ROTATED_MAX).rev() {
        match fs::rename(
            rotated_log_file(path, number),
            rotated_log_file(path, number + 1),
        ) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, rotated_log_file(path, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_rotated_and_the_oldest_one_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        // Room for two lines of two bytes.
        let mut files = OpenFiles::new(folder.path().to_owned(), 4);
        let name: Arc<str> = "a/rep-0".into();
        for line in ["0", "1", "2", "3", "4", "5", "6", "7", "8"] {
            files.write(&name, &format!("{line}\n")).unwrap();
        }
        let newest = log_file(folder.path(), "a/rep-0");
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        assert_eq!(read(newest.clone()).as_deref(), Some("8\n"));
        assert_eq!(
            read(rotated_log_file(&newest, 1)).as_deref(),
            Some("6\n7\n")
        );
        assert_eq!(
            read(rotated_log_file(&newest, 3)).as_deref(),
            Some("2\n3\n")
        );
        assert_eq!(read(rotated_log_file(&newest, 4)), None);
    }

    #[test]
    fn a_line_longer_than_a_file_gets_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = OpenFiles::new(folder.path().to_owned(), 2);
        let name: Arc<str> = "a".into();
        files.write(&name, "long\n").unwrap();
        files.write(&name, "longer\n").unwrap();
        let newest = log_file(folder.path(), "a");
        assert_eq!(
            fs::read_to_string(rotated_log_file(&newest, 1)).unwrap(),
            "long\n"
        );
        assert_eq!(fs::read_to_string(newest).unwrap(), "longer\n");
    }

    #[test]
    fn a_new_flow_appends_to_the_files_of_the_previous_one() {
        let folder = tempfile::tempdir().unwrap();
        for line in ["first", "second"] {
            let mut files = OpenFiles::new(folder.path().to_owned(), 100);
            files.write(&"a".into(), &format!("{line}\n")).unwrap();
        }
        let newest = log_file(folder.path(), "a");
        assert_eq!(fs::read_to_string(newest).unwrap(), "first\nsecond\n");
    }

    #[test]
    fn a_folder_that_cannot_be_written_loses_only_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("not-a-folder");
        fs::write(&file, "").unwrap();
        let mut files = OpenFiles::new(file, 100);
        files.append(&[LoggedLines {
            name: "a".into(),
            time: SystemTime::now(),
            source: LogSource::Stdout,
            lines: Lines::new("x"),
        }]);
        assert!(files.has_warned);
    }
}
