//! The files that a flow's plan comes from, to be read again.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use flow_spec::Plan;
use serde::{Deserialize, Serialize};

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

/// Reads the files of a flow.
type Read = Arc<dyn Fn() -> PlanReading + Send + Sync>;

/// The files that a flow's plan comes from.
#[derive(Clone)]
pub struct PlanSource {
    read: Read,
    check: Read,
    /// The last reading, which the flow follows unless there was a problem.
    last: Arc<Mutex<Seen>>,
    /// The last check of files that changed after the last reading. Held while they are checked.
    checked: Arc<tokio::sync::Mutex<Option<Seen>>>,
    /// Held while the files are read and the flow follows them: a later reading is never overtaken by an earlier one.
    reload_lock: Arc<tokio::sync::Mutex<()>>,
}

/// Files as they were once.
#[derive(Debug, Clone, Default)]
struct Seen {
    stamps: Vec<FileStamp>,
    /// What was wrong with them.
    problem: Option<String>,
}

/// How the flow file differs from what the flow follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowFileState {
    /// The flow follows the file.
    Followed,
    /// A file was written after the flow read it, and reading it again finds no problem. Building its executors may still fail.
    Changed,
    /// The flow does not follow the file, because it cannot.
    Invalid {
        /// Everything that is wrong with it, or why the flow could not follow it.
        problem: String,
    },
}

impl PlanSource {
    /// Files that `read` reads, and that `check` reads without building executors. They had these states when they were
    /// read before.
    ///
    /// Both are called on a thread where they may block.
    pub fn new(
        stamps: Vec<FileStamp>,
        read: impl Fn() -> PlanReading + Send + Sync + 'static,
        check: impl Fn() -> PlanReading + Send + Sync + 'static,
    ) -> Self {
        let problem = None;
        Self {
            read: Arc::new(read),
            check: Arc::new(check),
            last: Arc::new(Mutex::new(Seen { stamps, problem })),
            checked: Arc::default(),
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
        let reading = run(&self.read).await?;
        let problem = reading.plan.as_ref().err().cloned();
        *self.last() = Seen {
            stamps: reading.stamps,
            problem,
        };
        reading.plan
    }

    /// Notes that the flow could not follow what was read last.
    pub(crate) fn note_failure(&self, problem: String) {
        self.last().problem = Some(problem);
    }

    /// Sets the states that the files had when other code read them.
    pub fn set_stamps(&self, stamps: Vec<FileStamp>) {
        let problem = None;
        *self.last() = Seen { stamps, problem };
    }

    /// The state of the files at the last reading.
    pub(crate) fn stamps(&self) -> Vec<FileStamp> {
        self.last().stamps.clone()
    }

    /// How the files differ from what the flow follows. They are checked again only if they changed.
    pub(crate) async fn state(&self) -> FlowFileState {
        let last = self.last().clone();
        if is_current(&last.stamps).await {
            return match last.problem {
                None => FlowFileState::Followed,
                Some(problem) => FlowFileState::Invalid { problem },
            };
        }
        let mut checked = self.checked.lock().await;
        let known = match checked.take() {
            Some(known) if is_current(&known.stamps).await => known,
            _ => match run(&self.check).await {
                Ok(reading) => Seen {
                    problem: reading.plan.err(),
                    stamps: reading.stamps,
                },
                // It is checked again the next time.
                Err(problem) => return FlowFileState::Invalid { problem },
            },
        };
        let problem = checked.insert(known).problem.clone();
        problem.map_or(FlowFileState::Changed, |problem| FlowFileState::Invalid {
            problem,
        })
    }

    fn last(&self) -> MutexGuard<'_, Seen> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present state of these files. They may be on a network file system, so another thread looks at them.
    pub(crate) async fn refreshed(stamps: Vec<FileStamp>) -> Vec<FileStamp> {
        let before = stamps.clone();
        let refresh = move || stamps.iter().map(FileStamp::refreshed).collect();
        let refreshed = tokio::task::spawn_blocking(refresh).await;
        refreshed.unwrap_or(before)
    }
}

async fn run(read: &Read) -> Result<PlanReading, String> {
    let read = Arc::clone(read);
    let reading = tokio::task::spawn_blocking(move || read()).await;
    reading.map_err(|error| format!("cannot read it: {error}"))
}

/// Whether files are as they were when these states were taken.
async fn is_current(stamps: &[FileStamp]) -> bool {
    PlanSource::refreshed(stamps.to_vec()).await == stamps
}

impl fmt::Debug for PlanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamps = self.stamps();
        f.debug_struct("PlanSource")
            .field("stamps", &stamps)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::supervisor::fake::plan;

    /// A source with one file, whose text is what is wrong with it, and the number of its checks.
    fn source(file: &Path) -> (PlanSource, Arc<AtomicUsize>) {
        let checks = Arc::new(AtomicUsize::new(0));
        let counted = checks.clone();
        let path = file.to_owned();
        let read = move || PlanReading {
            stamps: vec![FileStamp::of(path.clone())],
            plan: match fs::read_to_string(&path) {
                Ok(text) if text.trim().is_empty() => Ok(plan("[{name: a}]")),
                Ok(text) => Err(text),
                Err(error) => Err(error.kind().to_string()),
            },
        };
        let again = read.clone();
        let check = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            again()
        };
        let stamps = vec![FileStamp::of(file.to_owned())];
        (PlanSource::new(stamps, read, check), checks)
    }

    fn invalid(problem: &str) -> FlowFileState {
        FlowFileState::Invalid {
            problem: problem.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_file_that_changed_is_checked_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        fs::write(&file, "").unwrap();
        let (source, checks) = source(&file);
        assert_eq!(source.state().await, FlowFileState::Followed);

        fs::write(&file, "no executor").unwrap();
        assert_eq!(source.state().await, invalid("no executor"));
        assert_eq!(source.state().await, invalid("no executor"));
        assert_eq!(checks.load(Ordering::Relaxed), 1);

        fs::remove_file(&file).unwrap();
        assert_eq!(source.state().await, invalid("entity not found"));
        fs::write(&file, "\n").unwrap();
        assert_eq!(source.state().await, FlowFileState::Changed);
    }

    #[tokio::test]
    async fn a_file_that_was_read_again_is_followed_unless_it_is_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        fs::write(&file, "").unwrap();
        let (source, checks) = source(&file);
        fs::write(&file, "no executor").unwrap();
        assert!(source.read().await.is_err());
        assert_eq!(source.state().await, invalid("no executor"));
        fs::write(&file, "\n").unwrap();
        assert!(source.read().await.is_ok());
        assert_eq!(source.state().await, FlowFileState::Followed);
        source.note_failure("a new process was not ready".to_owned());
        assert_eq!(source.state().await, invalid("a new process was not ready"));
        assert_eq!(checks.load(Ordering::Relaxed), 0);
    }
}
