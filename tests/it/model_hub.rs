//! A hub of models for tests, where Hugging Face's cannot be reached: it serves a folder, and counts requests.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The one commit of the one model.
const COMMIT: &str = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41";

/// Serves until the tests end.
pub(crate) struct ModelHub {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl ModelHub {
    /// Serves the files of `folder` as a model, whatever its name.
    pub(crate) fn start(folder: &Path) -> Self {
        // Containers come over a network of their own.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<AtomicUsize> = Arc::default();
        let (folder, counted) = (folder.to_owned(), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::Relaxed);
                let folder = folder.clone();
                // A client that goes away is its own business.
                thread::spawn(move || drop(answer(&stream, &folder)));
            }
        });
        Self { port, asked }
    }

    /// For HF_ENDPOINT in a container.
    pub(crate) fn url(&self) -> String {
        format!("http://host.docker.internal:{}", self.port)
    }

    /// How many questions there were.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Answers one question, and hangs up.
fn answer(mut stream: &TcpStream, folder: &Path) -> std::io::Result<()> {
    let (path, range) = question(stream)?;
    let body = match path.split_once(&format!("/resolve/{COMMIT}/")) {
        Some((_, file)) => fs::read(folder.join(file)).ok(),
        None => path.starts_with("/api/models/").then(|| about(folder)),
    };
    let Some(body) = body else {
        return stream.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    let (first, last) = bounds(&range, body.len());
    let (status, part) = match range.is_empty() {
        true => ("200 OK", &body[..]),
        false => ("206 Partial Content", &body[first..last]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {first}-{}/{}\r\n\
         ETag: \"{:x}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        part.len(),
        last.saturating_sub(1),
        body.len(),
        // The etag names a file in the cache. It only has to differ from those of other files.
        body.len(),
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(part)
}

/// The path that is asked for, and its range; an empty range means all of it.
fn question(stream: &TcpStream) -> std::io::Result<(String, String)> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut range = String::new();
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if let Some(bytes) = line.strip_prefix("range: bytes=") {
            bytes.clone_into(&mut range);
        }
        if line.is_empty() {
            break;
        }
    }
    Ok((path, range))
}

/// The first byte of a range, and the one after its last.
fn bounds(range: &str, length: usize) -> (usize, usize) {
    let (first, last) = range.split_once('-').unwrap_or(("0", ""));
    let first = first.parse().unwrap_or(0).min(length);
    let last = last
        .parse::<usize>()
        .map_or(length, |last| (last + 1).min(length));
    (first, last)
}

/// The hub's description of its model: its commit and its files.
fn about(folder: &Path) -> Vec<u8> {
    let mut files = Vec::new();
    list(folder, folder, &mut files);
    let siblings: Vec<_> = files
        .iter()
        .map(|file| serde_json::json!({"rfilename": file}))
        .collect();
    let about = serde_json::json!({"sha": COMMIT, "siblings": siblings});
    about.to_string().into_bytes()
}

fn list(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => list(root, &path, files),
            false => files.push(path.strip_prefix(root).unwrap().to_owned()),
        }
    }
}
