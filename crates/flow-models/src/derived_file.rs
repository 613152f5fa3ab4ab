//! Files that hold what was computed from a model's weights: their names, and how they are written.

use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::source::WEIGHTS_FILE;

/// Bytes of a hash that are part of a name.
const NAME_BYTES: usize = 16;

/// A hash that has read the path, the size and the time of a model's weights. `None` if these cannot be examined.
pub(crate) fn hash_weights(folder: &Path) -> Option<Sha256> {
    let weights = fs::canonicalize(folder.join(WEIGHTS_FILE)).ok()?;
    let metadata = fs::metadata(&weights).ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let mut hash = Sha256::new();
    hash.update(weights.as_os_str().as_encoded_bytes());
    hash.update(format!("\n{}\n{}\n", metadata.len(), modified.as_nanos()));
    Some(hash)
}

/// The hash as a file's name, in hexadecimal digits.
pub(crate) fn file_name(hash: Sha256) -> String {
    let bytes = hash.finalize();
    let bytes = bytes.iter().take(NAME_BYTES);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file, which appears complete or not at all. Creates its folder.
pub(crate) fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // Processes that start together may all write it.
    let part = file.with_extension(format!("{}.part", std::process::id()));
    fs::write(&part, bytes)?;
    fs::rename(&part, file)
}
