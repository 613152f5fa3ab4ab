//! The pipe of a flow's log: read continuously, except while it has to fill up.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Loud lines that are kept; more are counted.
const KEPT_MAX: usize = 200;

/// What marks a line that a human must look at.
const LOUD: [&str; 2] = [" ERROR ", "panicked"];

/// A pipe with a reader.
#[derive(Debug, Default)]
pub(crate) struct LogPipe(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_paused: Mutex<bool>,
    changed: Condvar,
    loud: Mutex<ErrorLines>,
}

/// Lines of errors.
#[derive(Debug, Default, Clone)]
pub(crate) struct ErrorLines {
    pub(crate) count: usize,
    pub(crate) first: Vec<String>,
}

impl LogPipe {
    /// Reads on a thread that ends with the pipe.
    pub(crate) fn read(&self, from: impl Read + Send + 'static) {
        let shared = self.0.clone();
        thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                shared.note(&String::from_utf8_lossy(&line));
                let paused = shared.is_paused.lock().unwrap();
                drop(shared.changed.wait_while(paused, |it| *it).unwrap());
            }
        });
    }

    pub(crate) fn pause(&self, is_paused: bool) {
        *self.0.is_paused.lock().unwrap() = is_paused;
        self.0.changed.notify_all();
    }

    pub(crate) fn loud(&self) -> ErrorLines {
        self.0.loud.lock().unwrap().clone()
    }
}

impl Shared {
    fn note(&self, line: &str) {
        if LOUD.iter().any(|it| line.contains(it)) {
            let mut loud = self.loud.lock().unwrap();
            loud.count += 1;
            if loud.first.len() < KEPT_MAX {
                loud.first.push(line.to_owned());
            }
        }
    }
}
