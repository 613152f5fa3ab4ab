//! A running flow that follows its file (`reload: true`).
//!
//! Files are looked at twice a second instead of being watched by the kernel: editors replace a file by
//! another one, network file systems tell of nothing, and each of these is a special case for a watcher;
//! two looks a second cost nothing that could be measured.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use flow_spec::Plan;
use tokio::sync::mpsc;

use crate::change::{Change, SENTENCES_MAX, Tell};
use crate::crew::Crew;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How a file looked when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    path: PathBuf,
    /// Time, length and number; none: it was not there.
    state: Option<(SystemTime, u64, u64)>,
}

impl Stamp {
    /// Looks at a file. To be taken before it is read, so that no change is missed.
    #[must_use]
    pub fn of(path: PathBuf) -> Self {
        let look = || {
            let metadata = fs::metadata(&path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        };
        let state = look();
        Self { path, state }
    }

    fn again(&self) -> Self {
        Self::of(self.path.clone())
    }
}

/// What a reading of the flow's files gave.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The plan, or in words what is wrong with the files.
    pub plan: Result<Plan, String>,
    /// Every file that was read.
    pub stamps: Vec<Stamp>,
}

/// Where a flow's plan comes from, to be read again.
#[derive(Clone)]
pub struct Source {
    read: Arc<dyn Fn() -> Reading + Send + Sync>,
    /// How the files looked at the last reading.
    stamps: Arc<Mutex<Vec<Stamp>>>,
}

impl Source {
    /// Files that `read` reads, and has read once already, when they looked like this.
    pub fn new(stamps: Vec<Stamp>, read: impl Fn() -> Reading + Send + Sync + 'static) -> Self {
        Self {
            read: Arc::new(read),
            stamps: Arc::new(Mutex::new(stamps)),
        }
    }

    /// Reads the files, on another thread: executors may be built for it, and the flow goes on meanwhile.
    pub(crate) async fn read(&self) -> Result<Plan, String> {
        let read = Arc::clone(&self.read);
        let reading = tokio::task::spawn_blocking(move || read()).await;
        let reading = reading.map_err(|error| format!("reading it has failed: {error}"))?;
        self.was_read(reading.stamps);
        reading.plan
    }

    /// Says how the files looked when they were read by somebody else.
    pub fn was_read(&self, stamps: Vec<Stamp>) {
        *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) = stamps;
    }

    fn stamps(&self) -> Vec<Stamp> {
        let stamps = self.stamps.lock();
        stamps.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamps = self.stamps();
        f.debug_struct("Source").field("stamps", &stamps).finish()
    }
}

/// Follows the files for as long as it is polled; without a source it does nothing.
pub(crate) async fn follow(source: Option<Source>, crew: &Crew) -> Infallible {
    let Some(source) = source else {
        return std::future::pending().await;
    };
    loop {
        changed(&source).await;
        match source.read().await {
            Ok(plan) => reload(plan, crew).await,
            Err(problem) => {
                tracing::error!(%problem, "the changed flow file cannot be used, the flow runs on as it was");
            }
        }
    }
}

/// Returns when a file differs from how it was read, and has come to rest: an editor may be writing it.
async fn changed(source: &Source) {
    let mut last = source.stamps();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now: Vec<Stamp> = last.iter().map(Stamp::again).collect();
        if now != source.stamps() && now == last {
            return;
        }
        last = now;
    }
}

async fn reload(plan: Plan, crew: &Crew) {
    tracing::info!("the flow file has changed");
    // Sentences go to the log too, which is the only one who listens here.
    let (tell, _sentences) = mpsc::channel(SENTENCES_MAX);
    let change = Change::begin(crew, Tell(tell)).await;
    if let Err(error) = change.reload(plan).await {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::error!(%error, cause, "the flow runs on as it was");
    }
}
