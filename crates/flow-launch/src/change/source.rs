//! The files that a flow's plan comes from, to be read again.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use flow_spec::Plan;

/// The state of a file when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    path: PathBuf,
    /// Modification time, length and inode; `None` if the file did not exist.
    state: Option<(SystemTime, u64, u64)>,
}

impl FileStamp {
    /// The present state of a file. To be taken before the file is read, so that no change is missed.
    #[must_use]
    pub fn of(path: PathBuf) -> Self {
        let state = || {
            let metadata = fs::metadata(&path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        };
        let state = state();
        Self { path, state }
    }

    fn refreshed(&self) -> Self {
        Self::of(self.path.clone())
    }
}

/// The outcome of reading the flow's files.
#[derive(Debug, Clone)]
pub struct PlanReading {
    /// The plan, or what is wrong with the files.
    pub plan: Result<Plan, String>,
    /// Every file that was read.
    pub stamps: Vec<FileStamp>,
}

/// The files that a flow's plan comes from.
#[derive(Clone)]
pub struct PlanSource {
    read: Arc<dyn Fn() -> PlanReading + Send + Sync>,
    /// The state of the files at the last reading.
    stamps: Arc<Mutex<Vec<FileStamp>>>,
    /// Held while the files are read and the flow follows them: a later reading is never overtaken by an earlier one.
    reload_lock: Arc<tokio::sync::Mutex<()>>,
}

impl PlanSource {
    /// Files that `read` reads. They had these states when they were read before.
    ///
    /// `read` is called on a thread where it may block: it may build executors.
    pub fn new(
        stamps: Vec<FileStamp>,
        read: impl Fn() -> PlanReading + Send + Sync + 'static,
    ) -> Self {
        Self {
            read: Arc::new(read),
            stamps: Arc::new(Mutex::new(stamps)),
            reload_lock: Arc::default(),
        }
    }

    /// Waits until no other reload is in progress. Calls `waits` if one is.
    pub(crate) async fn lock(&self, waits: impl FnOnce()) -> tokio::sync::MutexGuard<'_, ()> {
        match self.reload_lock.try_lock() {
            Ok(guard) => guard,
            Err(_held) => {
                waits();
                self.reload_lock.lock().await
            }
        }
    }

    /// Reads the files on another thread, while the flow is supervised.
    pub(crate) async fn read(&self) -> Result<Plan, String> {
        let read = Arc::clone(&self.read);
        let reading = tokio::task::spawn_blocking(move || read()).await;
        let reading = reading.map_err(|error| format!("cannot read it: {error}"))?;
        self.set_stamps(reading.stamps);
        reading.plan
    }

    /// Sets the states that the files had when other code read them.
    pub fn set_stamps(&self, stamps: Vec<FileStamp>) {
        *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) = stamps;
    }

    /// The state of the files at the last reading.
    pub(crate) fn stamps(&self) -> Vec<FileStamp> {
        let stamps = self.stamps.lock();
        stamps.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The present state of these files. They may be on a network file system, so another thread looks at them.
    pub(crate) async fn refreshed(stamps: Vec<FileStamp>) -> Vec<FileStamp> {
        let before = stamps.clone();
        let refresh = move || stamps.iter().map(FileStamp::refreshed).collect();
        let refreshed = tokio::task::spawn_blocking(refresh).await;
        refreshed.unwrap_or(before)
    }
}

impl fmt::Debug for PlanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamps = self.stamps();
        f.debug_struct("PlanSource")
            .field("stamps", &stamps)
            .finish_non_exhaustive()
    }
}
