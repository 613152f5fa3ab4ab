//! What the files for Docker Compose and for Docker Swarm write in the same way. Pure.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::render::parts::{PROGRAM, Workload};

/// Time that Docker waits beyond a program's own grace period before it kills the program.
const GRACE_BEYOND: Duration = Duration::from_secs(5);
/// In place of no limit, which Docker does not have.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Docker's health check of a container.
#[derive(Debug, Serialize)]
pub(super) struct Healthcheck {
    test: Vec<String>,
    interval: &'static str,
    timeout: &'static str,
    retries: u32,
    start_period: String,
}

impl Healthcheck {
    /// A check with `flow ping` and these arguments, for a container that has the program.
    pub(super) fn ping(unit: &Workload, arguments: &[&str]) -> Self {
        let words = ["CMD", PROGRAM, "ping"].iter().chain(arguments);
        Self {
            test: words.map(|it| (*it).to_owned()).collect(),
            interval: "5s",
            timeout: "5s",
            retries: 3,
            start_period: seconds(unit.timeout_ready.unwrap_or(FOR_EVER)),
        }
    }
}

/// The entry point of a unit's containers; `None` for the image's own.
pub(super) fn entrypoint(unit: &Workload) -> Option<Vec<String>> {
    match unit.is_flow {
        true => Some(vec![PROGRAM.to_owned()]),
        false => unit.entrypoint.as_ref().map(|words| escaped(words)),
    }
}

/// The path of a secret with this name as its target.
pub(super) fn secret_path(name: &str) -> PathBuf {
    format!("/run/secrets/{name}").into()
}

/// How long Docker waits for the end of a container.
pub(super) fn stop_grace_period(unit: &Workload) -> String {
    seconds(unit.grace + GRACE_BEYOND)
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs().max(1))
}

pub(super) fn escaped(words: &[String]) -> Vec<String> {
    words.iter().map(|it| as_it_is(it)).collect()
}

/// Escapes dollar signs, where Docker would substitute variables.
pub(super) fn as_it_is(text: &str) -> String {
    text.replace('$', "$$")
}
