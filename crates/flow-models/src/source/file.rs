//! Checksums and sizes of files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The SHA-256 of a file, in hexadecimal digits.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{:x}", hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// Total bytes of the files in a folder. Files that vanish meanwhile are not counted.
pub(super) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let bytes = |entry: fs::DirEntry| match fs::metadata(entry.path()) {
        Ok(data) if data.is_dir() => folder_bytes(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}
