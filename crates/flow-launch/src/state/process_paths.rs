//! Paths for what belongs to one process each, in a folder of the state directory of a flow.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Only the owner may enter the folder.
const FOLDER_MODE: u32 = 0o700;

/// A folder that is empty when the flow starts, and the number of paths that it has given.
#[derive(Debug)]
pub(crate) struct ProcessPaths {
    folder: PathBuf,
    given: AtomicU64,
}

impl ProcessPaths {
    /// The folder with this name in the state directory. Removes what an earlier flow left there.
    pub(crate) fn open(state_directory: &Path, name: &str) -> io::Result<Self> {
        // Processes run in other folders than this one.
        let folder = std::path::absolute(state_directory)?.join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(FOLDER_MODE).create(&folder)?;
        Ok(Self {
            folder,
            given: AtomicU64::new(0),
        })
    }

    /// A path that no other process of the flow has. Nothing is created there.
    pub(crate) fn next(&self, process: &str) -> PathBuf {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let process = process.replace('/', ".");
        self.folder.join(format!("{process}.{number}"))
    }
}
