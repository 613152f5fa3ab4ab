//! A pair of files with vectors. Records are only ever added at the end.
//!
//! `NAME.vectors` holds records of the same length: the key, the number of tokens, the values, and a checksum of all that.
//! `NAME.keys` holds the first eight bytes of each key, so that a process which starts need not read the vectors. A record
//! is written before its key. What a crash left incomplete is either cut off by the next process that writes to the segment,
//! or fails its checksum and counts as absent.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::key::VectorKey;

/// Bytes of a record besides its values.
const FRAME: usize = VectorKey::LEN + 4 + 4;

/// Bytes of a key in the file of keys.
const PREFIX: u64 = 8;

/// Only the user reads the files: texts cannot be restored from them, but guesses can be confirmed.
const MODE: u32 = 0o600;

const VECTORS: &str = "vectors";
const KEYS: &str = "keys";

/// A segment whose records are read.
#[derive(Debug)]
pub(super) struct Segment {
    vectors: File,
    keys: File,
    /// How many of its records have been returned by [`Self::new_keys`].
    indexed: u32,
}

impl Segment {
    pub(super) fn open(stem: &Path) -> io::Result<Self> {
        Ok(Self {
            vectors: File::open(stem.with_extension(VECTORS))?,
            keys: File::open(stem.with_extension(KEYS))?,
            indexed: 0,
        })
    }

    /// The keys of records that were added since the last call, each with its record.
    pub(super) fn new_keys(&mut self) -> io::Result<impl Iterator<Item = (u64, u32)> + use<>> {
        let count = self.keys.metadata()?.len() / PREFIX;
        // What a crash left may have been cut off meanwhile.
        let start = u64::from(self.indexed).min(count);
        let mut bytes = vec![0; usize::try_from((count - start) * PREFIX).unwrap_or(0)];
        self.keys.read_exact_at(&mut bytes, start * PREFIX)?;
        self.indexed = u32::try_from(count).unwrap_or(u32::MAX);
        let first = u32::try_from(start).unwrap_or(u32::MAX);
        let prefixes: Vec<[u8; 8]> = bytes.as_chunks().0.to_vec();
        Ok(prefixes.into_iter().map(u64::from_le_bytes).zip(first..))
    }

    /// Copies the vector of a record into `row`, if the record is whole and has this key. Returns its number of tokens.
    pub(super) fn read(&self, record: u32, key: &VectorKey, row: &mut [f32]) -> Option<usize> {
        let mut bytes = vec![0; record_len(row.len())];
        let offset = u64::from(record) * bytes.len() as u64;
        self.vectors.read_exact_at(&mut bytes, offset).ok()?;
        decode(&bytes, key, row)
    }
}

/// A segment that this process adds records to. No other process does meanwhile.
#[derive(Debug)]
pub(super) struct Writer {
    vectors: File,
    keys: File,
    pub(super) records: u32,
}

impl Writer {
    /// Makes a segment.
    pub(super) fn create(stem: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(MODE);
        let vectors = options.open(stem.with_extension(VECTORS))?;
        vectors.try_lock().map_err(io::Error::from)?;
        Ok(Self {
            keys: options.open(stem.with_extension(KEYS))?,
            vectors,
            records: 0,
        })
    }

    /// Continues a segment. `None` if another process writes to it.
    pub(super) fn resume(stem: &Path, width: usize) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.write(true);
        let vectors = options.open(stem.with_extension(VECTORS))?;
        match vectors.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            locked => locked.map_err(io::Error::from)?,
        }
        let keys = options.open(stem.with_extension(KEYS))?;
        let length = record_len(width) as u64;
        let whole = vectors.metadata()?.len() / length;
        let records = whole.min(keys.metadata()?.len() / PREFIX);
        vectors.set_len(records * length)?;
        keys.set_len(records * PREFIX)?;
        Ok(Some(Self {
            vectors,
            keys,
            records: u32::try_from(records).unwrap_or(u32::MAX),
        }))
    }

    /// Adds a record.
    pub(super) fn append(&mut self, key: &VectorKey, tokens: usize, row: &[f32]) -> io::Result<()> {
        let record = encode(key, tokens, row);
        let place = u64::from(self.records);
        self.vectors
            .write_all_at(&record, place * record.len() as u64)?;
        let prefix = key.prefix().to_le_bytes();
        self.keys.write_all_at(&prefix, place * PREFIX)?;
        self.records += 1;
        Ok(())
    }
}

/// The files of a segment.
pub(super) fn files(stem: &Path) -> [PathBuf; 2] {
    [VECTORS, KEYS].map(|extension| stem.with_extension(extension))
}

/// The segment that a file of keys belongs to.
pub(super) fn stem_of(file: &Path) -> Option<PathBuf> {
    let is_keys = file.extension().is_some_and(|it| it == KEYS);
    is_keys.then(|| file.with_extension(""))
}

/// Bytes of a record, and of its key in the file of keys.
pub(super) fn bytes_of_record(width: usize) -> u64 {
    record_len(width) as u64 + PREFIX
}

fn record_len(width: usize) -> usize {
    FRAME + 4 * width
}

fn encode(key: &VectorKey, tokens: usize, row: &[f32]) -> Vec<u8> {
    let mut record = Vec::with_capacity(record_len(row.len()));
    record.extend(key.0);
    record.extend(u32::try_from(tokens).unwrap_or(u32::MAX).to_le_bytes());
    record.extend(row.iter().flat_map(|value| value.to_le_bytes()));
    record.extend(crc32fast::hash(&record).to_le_bytes());
    record
}

fn decode(record: &[u8], key: &VectorKey, row: &mut [f32]) -> Option<usize> {
    let (content, checksum) = record.split_last_chunk()?;
    let (found, rest) = content.split_first_chunk()?;
    let (tokens, values) = rest.split_first_chunk()?;
    if *found != key.0 || crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return None;
    }
    for (to, from) in row.iter_mut().zip(values.as_chunks().0) {
        *to = f32::from_le_bytes(*from);
    }
    usize::try_from(u32::from_le_bytes(*tokens)).ok()
}
