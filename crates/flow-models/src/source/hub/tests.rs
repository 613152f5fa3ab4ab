//! Downloads from hubs that lie, over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flow_core::Chain;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const BODY: &[u8] = b"not a real model, but long enough to be cut";
const TOKEN: &str = "hf_secret";

/// What a hub answers. The default tells the truth.
struct Answers {
    /// The commit in the description of the repository.
    commit: String,
    /// The header `X-Repo-Commit` of files.
    commit_of_file: String,
    /// The header `ETag` of files.
    etag: String,
    /// The length of a file, as announced.
    announced: usize,
    body: Body,
    files: Vec<&'static str>,
    /// Where the contents of files are.
    elsewhere: Option<String>,
}

#[derive(Clone, Copy)]
enum Body {
    Whole,
    /// Ends after half of the file, the first time.
    BrokenOnce,
    Short,
    Endless,
    /// A byte in each interval.
    Slow(Duration),
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            commit: COMMIT.to_owned(),
            commit_of_file: COMMIT.to_owned(),
            etag: format!("{:x}", Sha256::digest(BODY)),
            announced: BODY.len(),
            body: Body::Whole,
            files: vec!["config.json", "tokenizer.json", "model.safetensors"],
            elsewhere: None,
        }
    }
}

/// A hub that serves until it is dropped.
struct TestHub {
    port: u16,
    requests: Arc<Mutex<Vec<TestRequest>>>,
    /// Slow and endless answers end when this is dropped.
    _running: Sender<()>,
}

#[derive(Clone)]
struct TestRequest {
    path: String,
    range: Option<String>,
    token: Option<String>,
}

impl TestHub {
    fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<TestRequest>>> = Arc::default();
        let (running, stopped) = channel();
        let log = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client may hang up in the middle of an answer.
                drop(answer(stream, &answers, &log, &stopped));
            }
        });
        Self {
            port,
            requests,
            _running: running,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn requests(&self) -> Vec<TestRequest> {
        self.requests.lock().unwrap().clone()
    }
}

/// Sends the list of the model's files.
fn answer_list(stream: &mut TcpStream, answers: &Answers) -> std::io::Result<()> {
    let files = answers.files.iter();
    let siblings: Vec<_> = files
        .map(|it| serde_json::json!({"rfilename": it}))
        .collect();
    let text = serde_json::json!({"sha": answers.commit, "siblings": siblings}).to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn answer(
    mut stream: TcpStream,
    answers: &Answers,
    log: &Mutex<Vec<TestRequest>>,
    stopped: &Receiver<()>,
) -> std::io::Result<()> {
    let request = read_request(&stream)?;
    let seen = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.iter()
            .filter(|other| other.range.as_deref() != Some("0-0"))
            .count()
    };
    if request.path.starts_with("/api/") {
        return answer_list(&mut stream, answers);
    }
    let names = format!(
        "ETag: \"{}\"\r\nX-Repo-Commit: {}\r\nConnection: close\r\n",
        answers.etag, answers.commit_of_file
    );
    if let Some(elsewhere) = &answers.elsewhere {
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {elsewhere}{}\r\nContent-Length: 0\r\n{names}\r\n",
            request.path
        );
    }
    let total = answers.announced;
    if request.range.as_deref() == Some("0-0") {
        return write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\nContent-Range: bytes 0-0/{total}\r\n{names}\r\nn"
        );
    }
    let range = request
        .range
        .as_deref()
        .and_then(|range| range.strip_suffix('-'));
    let start: usize = range.map_or(0, |start| start.parse().unwrap());
    let rest = &BODY[start.min(BODY.len())..];
    let last = total.saturating_sub(1);
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{last}/{total}\r\n{names}"
    );
    match answers.body {
        Body::BrokenOnce if seen <= 2 => {
            write!(stream, "{head}Content-Length: {}\r\n\r\n", rest.len())?;
            stream.write_all(&rest[..rest.len() / 2])
        }
        Body::Whole | Body::BrokenOnce => {
            write!(stream, "{head}Content-Length: {}\r\n\r\n", rest.len())?;
            stream.write_all(rest)
        }
        Body::Short => {
            write!(stream, "{head}Content-Length: {}\r\n\r\n", rest.len() / 2)?;
            stream.write_all(&rest[..rest.len() / 2])
        }
        Body::Endless => {
            write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n")?;
            // More than any buffer between the two ends.
            (0..1 << 14).try_for_each(|_| write!(stream, "400\r\n{}\r\n", "x".repeat(0x400)))
        }
        Body::Slow(interval) => {
            write!(stream, "{head}Content-Length: {total}\r\n\r\n")?;
            while stopped
                .recv_timeout(interval)
                .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                stream.write_all(b"x")?;
            }
            Ok(())
        }
    }
}

fn read_request(stream: &TcpStream) -> std::io::Result<TestRequest> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut request = TestRequest {
        path: first.split(' ').nth(1).unwrap_or_default().to_owned(),
        range: None,
        token: None,
    };
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "range" => request.range = value.strip_prefix("bytes=").map(str::to_owned),
            "authorization" => request.token = Some(value.to_owned()),
            _ => {}
        }
    }
    Ok(request)
}

/// A folder for a cache, inside a folder that shows what a hub writes elsewhere.
struct TestCache {
    folder: TempDir,
}

impl TestCache {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn fetch(&self, hub: &TestHub) -> Result<PathBuf, String> {
        self.fetch_within(hub, &DownloadLimits::default())
    }

    fn fetch_within(&self, hub: &TestHub, limits: &DownloadLimits) -> Result<PathBuf, String> {
        let name = HubModel {
            id: "some/model".to_owned(),
            revision: "main".to_owned(),
        };
        let environment = SourceEnvironment {
            hub_cache: self.folder.path().join("outer/hub"),
            flow_cache: self.folder.path().join("flow"),
            endpoint: hub.url(),
            token: Some(Secret::new(TOKEN.to_owned())),
            token_file: PathBuf::new(),
            offline: false,
            python: PathBuf::new(),
        };
        fetch_within(&name, &environment, limits, &mut ())
            .map_err(|error| Chain(&error).to_string())
    }

    fn refuses(&self, answers: Answers, expected: &str) {
        let error = self.fetch(&TestHub::start(answers)).unwrap_err();
        assert!(error.contains(expected), "{error}");
        let repository = self.folder.path().join("outer/hub/models--some--model");
        for outside in [
            self.folder.path().join("escaped"),
            self.folder.path().join("outer/escaped"),
        ] {
            assert!(!outside.exists(), "{}", outside.display());
        }
        assert!(!repository.join("refs").exists(), "the model was accepted");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_are_stored_as_the_python_tools_store_them() {
    let (cache, hub) = (TestCache::new(), TestHub::start(Answers::default()));
    let folder = cache.fetch(&hub).unwrap();
    let repository = cache.folder.path().join("outer/hub/models--some--model");
    assert_eq!(folder, repository.join("snapshots").join(COMMIT));
    assert_eq!(
        names(&folder),
        ["config.json", "model.safetensors", "tokenizer.json"]
    );
    let link = fs::read_link(folder.join("config.json")).unwrap();
    let blob = format!("{:x}", Sha256::digest(BODY));
    assert_eq!(link, Path::new("../../blobs").join(&blob));
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), BODY);
    assert_eq!(names(&repository.join("blobs")), [blob]);
    assert_eq!(
        fs::read_to_string(repository.join("refs/main")).unwrap(),
        COMMIT
    );
    let tokens: Vec<_> = hub.requests().into_iter().map(|it| it.token).collect();
    assert!(
        tokens
            .iter()
            .all(|it| it.as_deref() == Some("Bearer hf_secret")),
        "{tokens:?}"
    );
}

#[test]
fn an_etag_that_is_a_path_is_refused() {
    for etag in [
        "../../../../escaped",
        "/tmp/escaped-from-the-cache",
        "a/b",
        "",
        "W/\"..\"",
    ] {
        let answers = Answers {
            etag: etag.to_owned(),
            ..Answers::default()
        };
        TestCache::new().refuses(answers, "etag");
    }
}

#[test]
fn a_commit_that_is_a_path_is_refused() {
    for commit in [
        "../../../../escaped",
        "/tmp/escaped-from-the-cache",
        "main",
        "",
    ] {
        let commit = commit.to_owned();
        let answers = Answers {
            commit_of_file: commit.clone(),
            ..Answers::default()
        };
        TestCache::new().refuses(answers, "commit");
        TestCache::new().refuses(
            Answers {
                commit,
                ..Answers::default()
            },
            "commit",
        );
    }
}

#[test]
fn a_name_of_a_file_that_is_no_plain_name_is_not_fetched() {
    let files = vec![
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "sentence_?x=/../_config.json",
        "1 /config.json",
        "sentence_\\_config.json",
        "1%2F../config.json",
    ];
    let (cache, hub) = (
        TestCache::new(),
        TestHub::start(Answers {
            files,
            ..Answers::default()
        }),
    );
    let folder = cache.fetch(&hub).unwrap();
    assert_eq!(
        names(&folder),
        ["config.json", "model.safetensors", "tokenizer.json"]
    );
}

#[test]
fn a_body_ends_at_the_announced_length() {
    let answers = Answers {
        body: Body::Endless,
        ..Answers::default()
    };
    TestCache::new().refuses(answers, "longer than");
}

#[test]
fn a_body_that_is_shorter_than_announced_is_refused() {
    let answers = Answers {
        body: Body::Short,
        ..Answers::default()
    };
    TestCache::new().refuses(answers, "ended after");
}

#[test]
fn an_announced_length_beyond_the_limit_is_refused() {
    let answers = Answers {
        announced: usize::MAX / 2,
        ..Answers::default()
    };
    TestCache::new().refuses(answers, "at most");
}

#[test]
fn a_file_whose_checksum_is_not_its_name_is_refused() {
    let etag = format!("{:x}", Sha256::digest(b"other"));
    let cache = TestCache::new();
    cache.refuses(
        Answers {
            etag,
            ..Answers::default()
        },
        "corrupt",
    );
    let blobs = cache
        .folder
        .path()
        .join("outer/hub/models--some--model/blobs");
    assert_eq!(names(&blobs), [""; 0]);
}

#[test]
fn a_body_that_trickles_ends_with_an_error() {
    let answers = Answers {
        body: Body::Slow(Duration::from_millis(20)),
        announced: 1 << 20,
        ..Answers::default()
    };
    let limits = DownloadLimits {
        answer_time: Duration::from_millis(500),
        bytes_per_second_min: 1 << 30,
        ..DownloadLimits::default()
    };
    let hub = TestHub::start(answers);
    let started = Instant::now();
    let error = TestCache::new().fetch_within(&hub, &limits).unwrap_err();
    assert!(error.contains("within"), "{error}");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn an_interrupted_download_is_continued() {
    let (cache, hub) = (
        TestCache::new(),
        TestHub::start(Answers {
            body: Body::BrokenOnce,
            ..Answers::default()
        }),
    );
    cache.fetch(&hub).unwrap_err();
    let folder = cache.fetch(&hub).unwrap();
    assert_eq!(fs::read(folder.join("model.safetensors")).unwrap(), BODY);
    let ranges: Vec<_> = hub
        .requests()
        .into_iter()
        .filter_map(|it| it.range)
        .collect();
    assert!(
        ranges.contains(&format!("{}-", BODY.len() / 2)),
        "{ranges:?}"
    );
}

#[test]
fn a_redirect_to_another_host_gets_no_token() {
    let other = TestHub::start(Answers::default());
    let elsewhere = Some(other.url());
    let hub = TestHub::start(Answers {
        elsewhere,
        ..Answers::default()
    });
    let cache = TestCache::new();
    let folder = cache.fetch(&hub).unwrap();
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), BODY);
    assert!(hub.requests().iter().all(|it| it.token.is_some()));
    assert!(!other.requests().is_empty());
    assert!(
        other.requests().iter().all(|it| it.token.is_none()),
        "the token left the hub"
    );
}

#[test]
fn redirects_end() {
    // Each answer leads to the same path again.
    let elsewhere = Some(String::new());
    let hub = TestHub::start(Answers {
        elsewhere,
        ..Answers::default()
    });
    let error = TestCache::new().fetch(&hub).unwrap_err();
    assert!(error.contains("redirect"), "{error}");
}

#[test]
fn only_required_files_are_fetched_and_the_weights_come_last() {
    let files = [
        "model.safetensors",
        "README.md",
        "config.json",
        "onnx/config.json",
        "1_Pooling/config.json",
        "pytorch_model.bin",
        "sentence_bert_config.json",
        "tokenizer.json",
    ];
    let expected = [
        "config.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "model.safetensors",
    ];
    assert_eq!(required_files(&files), expected);
}
