//! Placements on standard input: the first one, and those that replace it while the gateway runs.
//!
//! Each line is a placement, numbered from 1. When no request is in progress that began before number `n`, the gateway writes
//! the event `placed` to its standard output. Then the launcher may stop replicas that number `n` does not name.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_gateway::Placements;
use flow_net::Stopped;
use flow_process::ProcessEvent;
use flow_spec::Placement;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::sync::mpsc;

use crate::exit::BadUsage;
use crate::shell::Shell;

/// Maximum number of lines that wait. The launcher waits for answers.
const LINES_MAX: usize = 4;

/// The source of placements.
pub(super) enum PlacementSource {
    /// A file with one placement.
    File(PathBuf),
    /// A placement on the command line.
    Given(String),
    /// Standard input, which a thread reads.
    Lines(mpsc::Receiver<std::io::Result<String>>),
}

impl PlacementSource {
    /// The source of an argument: `-` is standard input, and a text that begins with `{` is the placement itself.
    pub(super) fn of(path: Option<&Path>) -> Self {
        match path {
            Some(path) if path == Path::new("-") => Self::Lines(lines()),
            Some(path) if is_json(path) => Self::Given(path.to_string_lossy().into_owned()),
            path => Self::File(path.map(Path::to_owned).unwrap_or_default()),
        }
    }

    /// The first placement. Standard input may stay empty while executors load their models.
    /// Those of exports name variables in place of secrets.
    pub(super) async fn first(&mut self, shell: &Shell) -> anyhow::Result<Placement> {
        let text = match self {
            Self::Given(text) => std::mem::take(text),
            Self::File(path) => std::fs::read_to_string(&path)
                .with_context(|| BadUsage(format!("cannot read placement `{}`", path.display())))?,
            Self::Lines(lines) => lines
                .recv()
                .await
                .context("standard input ended without a placement")?
                .context("cannot read standard input")?,
        };
        let mut placement = parse(&text)?;
        placement
            .resolve_metadata(|name| shell.variable(name))
            .map_err(|error| BadUsage(error.to_string()))?;
        Ok(placement)
    }

    /// Gives the gateway each further placement, and reports when those before it are no longer in use. Never ends.
    pub(super) async fn follow(self, placements: &Placements) -> Stopped {
        let Self::Lines(mut lines) = self else {
            return std::future::pending().await;
        };
        report_placed(1);
        let mut reading = true;
        let mut number = 1_u64;
        let mut placed = FuturesOrdered::new();
        loop {
            tokio::select! {
                Some(number) = placed.next(), if !placed.is_empty() => report_placed(number),
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
                            tracing::error!(error = format!("{error:#}"), number, "invalid placement; keeping the current one");
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
    let mut placement = parse(line)?;
    // They run already, and nothing else needs the values of their options.
    drop(placement.take_colocated());
    Ok(placements.place(placement)?.everywhere())
}

fn parse(text: &str) -> anyhow::Result<Placement> {
    serde_json::from_str(text).with_context(|| BadUsage("the placement is not valid".to_owned()))
}

fn report_placed(number: u64) {
    let placed = ProcessEvent::Placed { placement: number };
    if let Err(error) = placed.write() {
        tracing::debug!(%error, "cannot write to standard output");
    }
}

/// The lines of standard input. They have a thread of their own: at its end, the runtime would wait for a thread of its own
/// that reads, and standard input may stay open.
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
