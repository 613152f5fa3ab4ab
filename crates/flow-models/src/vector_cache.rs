//! Vectors of texts that were encoded before.
//!
//! A vector depends on its text, on what the request says about it, on the model and on the encoder's options. `key.rs` hashes
//! the first two. The others are the same for the whole store in memory (`memory.rs`), and name a folder of the store on
//! disk (`disk.rs`).

mod disk;
mod key;
mod memory;
mod segment;

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flow_core::{ByteSize, Chain};
use sha2::{Digest, Sha256};

use self::disk::Disk;
pub(crate) use self::key::VectorKey;
use self::memory::Memory;
use crate::derived_file::file_name;
use crate::encoder::TextEncoder;
use crate::options::EncoderOptions;

/// Changes when the records of the store on disk look different.
const FORMAT: &str = "1";

/// Where vectors are stored, and how many bytes they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// Maximum bytes in memory.
    pub size: ByteSize,
    /// A folder for a store on disk, which outlives the process. Default: none.
    pub path: Option<PathBuf>,
    /// Maximum bytes of the store on disk.
    pub disk_size: ByteSize,
}

/// How often vectors were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Texts whose vector was in memory.
    pub memory: usize,
    /// Texts whose vector was on disk.
    pub disk: usize,
    /// Texts whose vector was computed.
    pub computed: usize,
}

/// Vectors by their texts.
#[derive(Debug)]
pub struct VectorCache {
    memory: Memory,
    disk: Option<Disk>,
    counts: CacheCounts,
}

/// The store on disk cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the cache in `{path}`")]
pub struct OpenCacheError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl VectorCache {
    /// Opens a cache for the vectors of an encoder that was loaded from `model` with `encoder_options`.
    ///
    /// # Errors
    ///
    /// If the folder of the store on disk cannot be made or read.
    pub fn open(
        options: &CacheOptions,
        (model, encoder_options): (&Path, &EncoderOptions),
        encoder: &TextEncoder,
    ) -> Result<Self, OpenCacheError> {
        let width = encoder.width();
        let open = |path: &PathBuf| {
            let name = identity(model, encoder_options, encoder)?;
            let disk = Disk::open(path, &name, options.disk_size.bytes(), width)?;
            tracing::info!(path = %path.display(), vectors = disk.len(), "cache opened");
            Ok(disk)
        };
        let failed = |source| OpenCacheError {
            path: options.path.clone().unwrap_or_default(),
            source,
        };
        Ok(Self {
            memory: Memory::new(options.size.bytes(), width),
            disk: options
                .path
                .as_ref()
                .map(open)
                .transpose()
                .map_err(failed)?,
            counts: CacheCounts::default(),
        })
    }

    /// How often vectors were found so far.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Copies the vector of a text into `row`, and returns the text's number of tokens.
    pub(crate) fn get(&mut self, key: VectorKey, row: &mut [f32]) -> Option<usize> {
        if let Some(tokens) = self.memory.get(&key, row) {
            self.counts.memory += 1;
            return Some(tokens);
        }
        let found = self.disk.as_mut().map(|disk| disk.get(&key, row));
        match self.without_failures(found).flatten() {
            Some(tokens) => {
                self.counts.disk += 1;
                self.memory.insert(key, tokens, row);
                Some(tokens)
            }
            None => {
                self.counts.computed += 1;
                None
            }
        }
    }

    /// Stores the vector of a text.
    pub(crate) fn insert(&mut self, key: VectorKey, tokens: usize, row: &[f32]) {
        let stored = self
            .disk
            .as_mut()
            .map(|disk| disk.insert(&key, tokens, row));
        self.without_failures(stored);
        self.memory.insert(key, tokens, row);
    }

    /// The outcome of an operation on the store on disk. After a failure, such as a full disk, it is not used any more.
    fn without_failures<T>(&mut self, outcome: Option<io::Result<T>>) -> Option<T> {
        match outcome? {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the cache on disk fails, and is not used until the executor restarts");
                self.disk = None;
                None
            }
        }
    }
}

/// A hash of everything but the text that a vector depends on: the model's files by their paths, sizes and times, the options,
/// what computes, and the version of this program.
fn identity(folder: &Path, options: &EncoderOptions, encoder: &TextEncoder) -> io::Result<String> {
    let mut hash = Sha256::new();
    let info = encoder.info();
    let EncoderOptions {
        pooling,
        normalize,
        max_length,
        dimensions,
        prompt,
        prompt_name,
        ..
    } = options;
    hash.update(format!(
        "{FORMAT} {} {} {} {} {pooling:?} {normalize:?} {max_length:?} {dimensions:?} {prompt:?} {prompt_name:?}\n",
        env!("CARGO_PKG_VERSION"),
        info.engine,
        info.back_end,
        info.precision,
    ));
    for file in files(folder)? {
        let metadata = fs::metadata(&file)?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
        let modified = modified.unwrap_or_default().as_nanos();
        hash.update(file.as_os_str().as_encoded_bytes());
        hash.update(format!("\n{} {modified}\n", metadata.len()));
    }
    Ok(file_name(hash))
}

/// The files of a model, in a fixed order, by the paths that links lead to. Links to folders are not followed: a model's folder
/// could lead back to itself. Links to nothing are left out.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => files.extend(self::files(&entry.path())?),
            false => files.extend(fs::canonicalize(entry.path())),
        }
    }
    files.sort();
    Ok(files)
}
