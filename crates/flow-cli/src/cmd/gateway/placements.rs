//! Placements on standard input: the first one, and those that take its place while the gateway runs.
//!
//! Each line is a placement, numbered from 1. When no request is under way any more that began before
//! number `n`, the gateway writes `{"placed": n}` to its standard output: whoever placed the nodes may end
//! replicas then that number `n` does not name.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_gateway::Placements;
use flow_net::Stopped;
use flow_spec::Placement;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::sync::mpsc;

use crate::exit::BadUsage;

/// Lines that were read and not taken yet. Whoever writes them waits for our answers.
const LINES_MAX: usize = 4;

/// Where placements come from.
pub(super) enum Source {
    /// A file has one.
    File(PathBuf),
    /// It stood in the command, where there is no file beside the program.
    Given(String),
    /// Standard input, read by a thread that ends with the process.
    Lines(mpsc::Receiver<std::io::Result<String>>),
}

impl Source {
    /// `-` is standard input, and what begins with `{` is the placement itself. Without a path there is nothing to read.
    pub(super) fn of(path: Option<&Path>) -> Self {
        match path {
            Some(path) if path == Path::new("-") => Self::Lines(lines()),
            Some(path) if is_json(path) => Self::Given(path.to_string_lossy().into_owned()),
            path => Self::File(path.map(Path::to_owned).unwrap_or_default()),
        }
    }

    /// The first placement. Standard input may stay empty for as long as executors load their models.
    pub(super) async fn first(&mut self) -> anyhow::Result<Placement> {
        let text = match self {
            Self::Given(text) => std::mem::take(text),
            Self::File(path) => std::fs::read_to_string(&path)
                .with_context(|| BadUsage(format!("cannot read placement `{}`", path.display())))?,
            Self::Lines(lines) => lines
                .recv()
                .await
                .context("standard input ended before there was a placement")?
                .context("cannot read standard input")?,
        };
        parse(&text)
    }

    /// Gives the gateway each further placement, and says when those before it are over. Never ends.
    pub(super) async fn follow(self, placements: &Placements) -> Stopped {
        let Self::Lines(mut lines) = self else {
            return std::future::pending().await;
        };
        say_placed(1);
        let mut reading = true;
        let mut number = 1_u64;
        let mut placed = FuturesOrdered::new();
        loop {
            tokio::select! {
                Some(number) = placed.next(), if !placed.is_empty() => say_placed(number),
                line = lines.recv(), if reading => {
                    let Some(Ok(line)) = line else {
                        reading = false;
                        continue;
                    };
                    number += 1;
                    match place(&line, placements) {
                        Ok(everywhere) => placed.push_back(async move {
                            everywhere.await;
                            number
                        }),
                        Err(error) => {
                            tracing::error!(error = format!("{error:#}"), number, "placement is not followed");
                        }
                    }
                }
                else => return std::future::pending().await,
            }
        }
    }
}

fn is_json(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"{")
}

fn place(line: &str, placements: &Placements) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    Ok(placements.place(parse(line)?)?.everywhere())
}

fn parse(text: &str) -> anyhow::Result<Placement> {
    serde_json::from_str(text).with_context(|| BadUsage("the placement is not valid".to_owned()))
}

fn say_placed(number: u64) {
    let line = serde_json::json!({ "placed": number });
    let mut out = std::io::stdout().lock();
    // A launcher that does not listen has gone; the kernel ends this process too.
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// The lines of standard input. A thread of its own reads them: a runtime that ends would wait for one of
/// its threads that reads, and standard input may stay open for as long as the launcher lives.
fn lines() -> mpsc::Receiver<std::io::Result<String>> {
    let (lines, taken) = mpsc::channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let failed = line.is_err();
            if lines.blocking_send(line).is_err() || failed {
                return;
            }
        }
    });
    taken
}
