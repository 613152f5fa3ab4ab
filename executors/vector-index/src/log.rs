//! The file that an index is kept in: records at its end, one for each request that changed it.
//!
//! A request is acknowledged after its record is with the operating system, and on the disk unless `sync`
//! is off. What a crash leaves half written is cut off at the next start. A record is never changed; when
//! most records of a log are outdated, a new log with the current entries is written beside it and replaces it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flow_executor::Chain;

use crate::record::{self, IndexChange, Read, RecordFormat};

/// What the file begins with: whose it is, and in which form.
const MAGIC: &[u8; 8] = b"FLOWVEC2";
const MAGIC_V1: &[u8; 8] = b"FLOWVEC1";

const LOG: &str = "index.log";
const NEW_LOG: &str = "index.log.new";
const LOCK: &str = "index.lock";

/// Changes in one record of a compacted log: some megabytes.
const RECORD_CHANGES_MAX: usize = 1024;

/// A log that is open for more.
#[derive(Debug)]
pub(crate) struct IndexLog {
    folder: PathBuf,
    file: Arc<File>,
    /// Up to here everything is whole.
    len: u64,
    format: RecordFormat,
    sync: bool,
    /// The file may end in half a record that could not be cut off.
    broken: bool,
    /// Held as long as this process lives.
    _lock: File,
}

/// Reads vectors from the log as it was when the reader was made.
#[derive(Debug, Clone)]
pub(crate) struct LogReader {
    path: PathBuf,
    file: Arc<File>,
}

/// A log could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("cannot use the folder `{folder}`")]
    Folder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another process keeps its index in `{0}`: give each replica a workspace of its own")]
    InUse(PathBuf),
    #[error("`{0}` is not the log of an index")]
    Foreign(PathBuf),
    #[error("`{path}` is damaged at byte {at}, and more follows: restore it, or move it away")]
    Damaged { path: PathBuf, at: u64 },
    #[error("cannot read a vector at byte {at} of `{path}`")]
    ReadVector {
        path: PathBuf,
        at: u64,
        #[source]
        source: io::Error,
    },
    #[error("cannot write `{path}`")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot cut off what a write that failed has left at the end of `{path}`")]
    Repair {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl IndexLog {
    /// Opens the log of a folder, or begins one. `apply` gets every change in it, in order, and where its vector begins.
    pub(crate) fn open(
        folder: &Path,
        sync: bool,
        mut apply: impl FnMut(IndexChange, Option<u64>),
    ) -> Result<Self, LogError> {
        let wrong = |source| LogError::Folder {
            folder: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(wrong)?;
        let lock = lock(folder)?;
        // Left behind by a crash before it took the log's place.
        remove_if_there(&folder.join(NEW_LOG)).map_err(wrong)?;
        let path = folder.join(LOG);
        let mut file = open(&path).map_err(wrong)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(wrong)?;
        let content = Bytes::from(content);
        let (format, end) = replay(&path, &content, &mut apply)?;
        let mut log = Self {
            folder: folder.to_owned(),
            file: Arc::new(file),
            len: end,
            format,
            sync,
            broken: false,
            _lock: lock,
        };
        log.begin(content.len() as u64).map_err(wrong)?;
        Ok(log)
    }

    /// Whether it was written by an earlier version: then it has to be rewritten before anything is added.
    pub(crate) fn is_old(&self) -> bool {
        self.format != RecordFormat::V2
    }

    /// Writes a request down. When this returns, a crash does not lose it. Returns where the vector of each change begins.
    pub(crate) fn append(&mut self, changes: &[IndexChange]) -> Result<Vec<Option<u64>>, LogError> {
        self.repair()?;
        let record = record::encode(changes);
        let written = (&*self.file)
            .write_all(&record)
            .and_then(|()| sync_if(self.sync, &self.file));
        if let Err(source) = written {
            self.broken = true;
            let failed = LogError::Write {
                path: self.path(),
                source,
            };
            if let Err(error) = self.repair() {
                tracing::warn!(error = %Chain(&error), "tried again before the next write");
            }
            return Err(failed);
        }
        let at = offsets(self.len, RecordFormat::V2, changes).collect();
        self.len += record.len() as u64;
        Ok(at)
    }

    /// Reads vectors from what is in the log now.
    pub(crate) fn reader(&self) -> LogReader {
        LogReader {
            path: self.path(),
            file: Arc::clone(&self.file),
        }
    }

    /// Cuts off half a record, which would make damage of the next one.
    fn repair(&mut self) -> Result<(), LogError> {
        if self.broken {
            let cut = self.file.set_len(self.len);
            cut.map_err(|source| LogError::Repair {
                path: self.path(),
                source,
            })?;
            self.broken = false;
        }
        Ok(())
    }

    /// Puts a log that says only this in the place of the old one, which stays as it is if that fails. Returns where the vector
    /// of each entry begins. [`Self::sync_folder`] has to follow.
    pub(crate) fn rewrite(
        &mut self,
        changes: impl Iterator<Item = Result<IndexChange, LogError>>,
    ) -> Result<Vec<u64>, LogError> {
        let path = self.folder.join(NEW_LOG);
        let written = write_new(&path, changes).and_then(|written| {
            fs::rename(&path, self.path()).map_err(cannot_write(&path))?;
            Ok(written)
        });
        let NewLog { file, len, at } = written.inspect_err(|_| {
            // The space that it takes may be all that there is.
            drop(remove_if_there(&path));
        })?;
        // From here on the old file has no name: what were written to it would be lost.
        (self.file, self.len) = (Arc::new(file), len);
        (self.format, self.broken) = (RecordFormat::V2, false);
        Ok(at)
    }

    /// Puts the name of the log on the disk.
    pub(crate) fn sync_folder(&self) -> Result<(), LogError> {
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(cannot_write(&self.path()))
    }

    /// Bytes of the log.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Cuts off what is torn; writes the beginning of a new log.
    fn begin(&mut self, found: u64) -> io::Result<()> {
        if found > self.len {
            let cut = found - self.len;
            tracing::warn!(
                bytes = cut,
                "the log of the index ends with an incomplete record, after a crash; truncating it"
            );
            self.file.set_len(self.len)?;
        }
        if self.len == 0 {
            (&*self.file).write_all(MAGIC)?;
            self.len = MAGIC.len() as u64;
        }
        self.file.sync_all()
    }
}

impl LogReader {
    /// The vector that begins at a byte of the log.
    pub(crate) fn vector(&self, at: u64, dimensions: usize) -> Result<Vec<f32>, LogError> {
        let mut bytes = vec![0; dimensions * size_of::<f32>()];
        let read = self.file.read_exact_at(&mut bytes, at);
        read.map_err(|source| LogError::ReadVector {
            path: self.path.clone(),
            at,
            source,
        })?;
        Ok(record::floats(&bytes))
    }
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError::Write {
        path: path.clone(),
        source,
    }
}

/// Where the vectors of changes begin in a log whose next record begins at `start`.
fn offsets(
    start: u64,
    format: RecordFormat,
    changes: &[IndexChange],
) -> impl Iterator<Item = Option<u64>> {
    let offsets = record::vector_offsets(format, changes);
    offsets.map(move |offset| Some(start + offset? as u64))
}

fn lock(folder: &Path) -> Result<File, LogError> {
    let wrong = |source| LogError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let file = open(&folder.join(LOCK)).map_err(wrong)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LogError::InUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(wrong(source)),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Applies every whole record, and gives the format of the log and where the last record ends.
fn replay(
    path: &Path,
    content: &Bytes,
    apply: &mut dyn FnMut(IndexChange, Option<u64>),
) -> Result<(RecordFormat, u64), LogError> {
    let format = match content.get(..MAGIC.len()) {
        Some(magic) if magic == MAGIC => RecordFormat::V2,
        Some(magic) if magic == MAGIC_V1 => RecordFormat::V1,
        // A crash may have torn the first bytes of all.
        None if MAGIC.starts_with(content) => return Ok((RecordFormat::V2, 0)),
        _ => return Err(LogError::Foreign(path.to_owned())),
    };
    let mut at = MAGIC.len();
    loop {
        match record::read(format, &content.slice(at..)) {
            Read::Record(changes, len) => {
                let offsets: Vec<_> = offsets(at as u64, format, &changes).collect();
                let changes = changes.into_iter().zip(offsets);
                changes.for_each(|(change, offset)| apply(change, offset));
                at += len;
            }
            Read::End | Read::Torn => return Ok((format, at as u64)),
            Read::Damaged => {
                return Err(LogError::Damaged {
                    path: path.to_owned(),
                    at: at as u64,
                });
            }
        }
    }
}

/// A log that was just written.
struct NewLog {
    file: File,
    len: u64,
    /// Where the vector of each entry begins.
    at: Vec<u64>,
}

fn write_new(
    path: &Path,
    changes: impl Iterator<Item = Result<IndexChange, LogError>>,
) -> Result<NewLog, LogError> {
    let wrong = cannot_write(path);
    remove_if_there(path).map_err(&wrong)?;
    let mut file = open(path).map_err(&wrong)?;
    file.write_all(MAGIC).map_err(&wrong)?;
    let (mut len, mut at) = (MAGIC.len() as u64, Vec::new());
    let mut changes = changes.peekable();
    while changes.peek().is_some() {
        let some = changes.by_ref().take(RECORD_CHANGES_MAX);
        let some: Vec<IndexChange> = some.collect::<Result<_, _>>()?;
        at.extend(offsets(len, RecordFormat::V2, &some).flatten());
        let record = record::encode(&some);
        file.write_all(&record).map_err(&wrong)?;
        len += record.len() as u64;
    }
    file.sync_all().map_err(&wrong)?;
    Ok(NewLog { file, len, at })
}

fn sync_if(sync: bool, file: &File) -> io::Result<()> {
    if sync { file.sync_data() } else { Ok(()) }
}

#[cfg(test)]
mod property_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(id: &str) -> IndexChange {
        IndexChange::Delete(id.to_owned())
    }

    fn reopened(folder: &Path) -> Result<Vec<IndexChange>, LogError> {
        let mut changes = Vec::new();
        IndexLog::open(folder, true, |change, _| changes.push(change)).map(|_| changes)
    }

    #[test]
    fn complete_records_survive_a_torn_end_and_the_log_continues() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG);
        let mut log = IndexLog::open(folder.path(), true, |_, _| {}).unwrap();
        log.append(&[delete("a")]).unwrap();
        log.append(&[delete("b"), delete("c")]).unwrap();
        let (one, all) = (log.len, fs::read(&path).unwrap());
        drop(log);
        let first = MAGIC.len() + record::encode(&[delete("a")]).len();
        for len in first..all.len() {
            fs::write(&path, &all[..len]).unwrap();
            assert_eq!(reopened(folder.path()).unwrap(), [delete("a")], "{len}");
            assert_eq!(fs::metadata(&path).unwrap().len(), first as u64);
        }
        fs::write(&path, &all[..all.len() - 1]).unwrap();
        let mut log = IndexLog::open(folder.path(), true, |_, _| {}).unwrap();
        log.append(&[delete("d")]).unwrap();
        assert!(log.len < one);
        drop(log);
        let expected = [delete("a"), delete("d")];
        assert_eq!(reopened(folder.path()).unwrap(), expected);
    }

    #[test]
    fn damage_before_the_end_is_an_error_and_nothing_is_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = IndexLog::open(folder.path(), false, |_, _| {}).unwrap();
        log.append(&[delete("a")]).unwrap();
        log.append(&[delete("b")]).unwrap();
        drop(log);
        let path = folder.path().join(LOG);
        let mut bytes = fs::read(&path).unwrap();
        bytes[MAGIC.len() + record::HEADER_LEN + 1] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = reopened(folder.path()).unwrap_err();
        assert!(matches!(error, LogError::Damaged { at: 8, .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn a_changed_length_truncates_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = IndexLog::open(folder.path(), false, |_, _| {}).unwrap();
        for id in 0..100 {
            log.append(&[delete(&id.to_string())]).unwrap();
        }
        drop(log);
        let path = folder.path().join(LOG);
        let whole = fs::read(&path).unwrap();
        let second = MAGIC.len() + record::encode(&[delete("0")]).len();
        for place in 0..record::HEADER_LEN {
            let mut bytes = whole.clone();
            bytes[second + place] ^= 0x40;
            fs::write(&path, &bytes).unwrap();
            let error = reopened(folder.path()).unwrap_err();
            assert!(matches!(error, LogError::Damaged { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn a_log_of_the_first_version_is_read_and_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let mut old = MAGIC_V1.to_vec();
        for id in ["a", "b"] {
            let mut record = record::encode(&[delete(id)]).to_vec();
            record.drain(8..record::HEADER_LEN);
            old.extend(record);
        }
        fs::write(folder.path().join(LOG), old).unwrap();
        let mut changes = Vec::new();
        let mut log =
            IndexLog::open(folder.path(), true, |change, _| changes.push(change)).unwrap();
        assert!(log.is_old());
        log.rewrite(changes.into_iter().map(Ok)).unwrap();
        assert!(!log.is_old());
        log.append(&[delete("c")]).unwrap();
        drop(log);
        let expected = [delete("a"), delete("b"), delete("c")];
        assert_eq!(reopened(folder.path()).unwrap(), expected);
    }

    #[test]
    fn a_compacted_log_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = IndexLog::open(folder.path(), true, |_, _| {}).unwrap();
        log.append(&[delete("a")]).unwrap();
        // Of a crash in the middle of an earlier attempt.
        fs::write(folder.path().join(NEW_LOG), "half").unwrap();
        log.rewrite((0..3000).map(|it| Ok(delete(&it.to_string()))))
            .unwrap();
        log.append(&[delete("last")]).unwrap();
        drop(log);
        let changes = reopened(folder.path()).unwrap();
        assert_eq!(changes.len(), 3001);
        assert_eq!(changes[3000], delete("last"));
    }

    #[test]
    fn two_processes_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let _log = IndexLog::open(folder.path(), true, |_, _| {}).unwrap();
        assert!(matches!(reopened(folder.path()), Err(LogError::InUse(_))));
    }

    #[test]
    fn a_file_of_another_program_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(LOG), "dear diary").unwrap();
        let error = reopened(folder.path()).unwrap_err();
        assert!(matches!(error, LogError::Foreign(_)), "{error}");
        fs::write(folder.path().join(LOG), &MAGIC[..3]).unwrap();
        assert_eq!(reopened(folder.path()).unwrap(), []);
    }
}
