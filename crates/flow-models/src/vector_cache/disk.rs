//! Vectors in a folder, within a limit. Several processes may share it.
//!
//! The folder has a folder for each model and options, and that has segments (`segment.rs`). A process adds to one segment,
//! which it locks, and reads all of them. From time to time it reads which records others have added. When the folder is
//! full, the oldest segments go, whichever model they belong to.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::key::VectorKey;
use super::segment::{self, Segment, Writer};

/// The folder holds about this many full segments. One at a time is removed.
const SEGMENTS: u64 = 16;

/// How often the records of other processes are looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A store in a folder.
#[derive(Debug)]
pub(super) struct Disk {
    /// The folder with the folders of all models.
    root: PathBuf,
    /// The folder of this model.
    folder: PathBuf,
    max_bytes: u64,
    width: usize,
    segments: BTreeMap<PathBuf, (u32, Segment)>,
    /// Where the record of a key is: the number of its segment, and its own.
    index: HashMap<u64, (u32, u32)>,
    next_segment: u32,
    writer: Option<Writer>,
    looked: Instant,
}

impl Disk {
    /// Opens the store of a model, whose name is a hash of all that its vectors depend on.
    pub(super) fn open(root: &Path, name: &str, max_bytes: u64, width: usize) -> io::Result<Self> {
        let folder = root.join(name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let mut disk = Self {
            root: root.to_owned(),
            folder,
            max_bytes,
            width,
            segments: BTreeMap::new(),
            index: HashMap::new(),
            next_segment: 0,
            writer: None,
            looked: Instant::now(),
        };
        disk.look()?;
        Ok(disk)
    }

    /// Number of vectors in the store.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Copies a vector into `row`, and returns its text's number of tokens.
    pub(super) fn get(&mut self, key: &VectorKey, row: &mut [f32]) -> io::Result<Option<usize>> {
        if !self.index.contains_key(&key.prefix()) && self.looked.elapsed() >= LOOK_AGAIN {
            self.look()?;
        }
        let Some(&(number, record)) = self.index.get(&key.prefix()) else {
            return Ok(None);
        };
        let mut segments = self.segments.values();
        let segment = segments.find(|(its, _)| *its == number);
        let found = segment.and_then(|(_, segment)| segment.read(record, key, row));
        if found.is_none() {
            // The record is damaged, or of another key that begins like this one.
            self.index.remove(&key.prefix());
        }
        Ok(found)
    }

    /// Adds a vector.
    pub(super) fn insert(&mut self, key: &VectorKey, tokens: usize, row: &[f32]) -> io::Result<()> {
        let max = self.segment_records();
        let mut writer = match self.writer.take() {
            Some(writer) if writer.records < max => writer,
            _ => self.start_segment()?,
        };
        writer.append(key, tokens, row)?;
        self.writer = Some(writer);
        Ok(())
    }

    fn segment_records(&self) -> u32 {
        let bytes = self.max_bytes / SEGMENTS;
        let records = bytes / segment::bytes_of_record(self.width);
        u32::try_from(records).unwrap_or(u32::MAX).max(1)
    }

    /// Resumes a segment that no other process writes to, or creates one and removes old segments to make room for it.
    fn start_segment(&mut self) -> io::Result<Writer> {
        self.writer = None;
        self.look()?;
        let newest_first: Vec<PathBuf> = self.segments.keys().rev().cloned().collect();
        for stem in newest_first {
            // Another process may just have removed it.
            let resumed = Writer::resume(&stem, self.width).ok().flatten();
            if let Some(writer) = resumed
                && writer.records < self.segment_records()
            {
                return Ok(writer);
            }
        }
        let segment = u64::from(self.segment_records()) * segment::bytes_of_record(self.width);
        self.remove_oldest(segment)?;
        let writer = Writer::create(&self.folder.join(new_name()))?;
        self.look()?;
        Ok(writer)
    }

    /// Removes the oldest segments until there is room for this many bytes.
    fn remove_oldest(&mut self, room: u64) -> io::Result<()> {
        let mut segments = Vec::new();
        for folder in subfolders(&self.root)? {
            for stem in stems(&folder)? {
                let sizes = segment::files(&stem).map(|file| fs::metadata(file).map(|it| it.len()));
                let bytes: u64 = sizes.into_iter().map(Result::unwrap_or_default).sum();
                segments.push((stem, bytes));
            }
        }
        // Names begin with the time.
        segments.sort_by(|(a, _), (b, _)| a.file_name().cmp(&b.file_name()));
        let mut total: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
        for (stem, bytes) in segments {
            if total + room <= self.max_bytes {
                break;
            }
            for file in segment::files(&stem) {
                remove(&file)?;
            }
            total -= bytes;
        }
        Ok(())
    }

    /// Finds the segments and records that there are now.
    fn look(&mut self) -> io::Result<()> {
        self.looked = Instant::now();
        let stems = stems(&self.folder)?;
        let before = self.segments.len();
        self.segments.retain(|stem, _| stems.contains(stem));
        if self.segments.len() < before {
            let numbers: Vec<u32> = self.segments.values().map(|(number, _)| *number).collect();
            self.index.retain(|_, (number, _)| numbers.contains(number));
        }
        for stem in stems {
            if !self.segments.contains_key(&stem)
                && let Ok(segment) = Segment::open(&stem)
            {
                self.segments.insert(stem, (self.next_segment, segment));
                self.next_segment += 1;
            }
        }
        for (number, segment) in self.segments.values_mut() {
            let keys = segment.new_keys()?;
            self.index
                .extend(keys.map(|(prefix, record)| (prefix, (*number, record))));
        }
        Ok(())
    }
}

/// A name that sorts by time and that no other process chooses.
fn new_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.unwrap_or_default().as_nanos();
    format!("{nanoseconds:020}-{}", process::id())
}

fn subfolders(root: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(root)?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

/// The segments of a folder.
fn stems(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut stems = Vec::new();
    for entry in fs::read_dir(folder)? {
        stems.extend(segment::stem_of(&entry?.path()));
    }
    Ok(stems)
}

/// Removes a file that another process may have removed.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
