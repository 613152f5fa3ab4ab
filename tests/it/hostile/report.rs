//! Records the cost of attacks, of which `cargo xtask attacks` makes a table.

use std::fs::OpenOptions;
use std::io::Write;
use std::thread;
use std::time::Duration;

use serde_json::json;

/// Names the file to which each attack adds a line of JSON.
const FILE_VARIABLE: &str = "FLOW_ATTACKS_OUT";

/// What an attack cost.
pub(super) struct Attack {
    /// Bytes that it sent.
    pub(super) sent: usize,
    /// How long an ordinary client waited for its connection and its reply.
    pub(super) waited: Duration,
    pub(super) taken: Vec<Taken>,
}

/// Memory that a process has taken at most, above what it had before.
pub(super) struct Taken {
    pub(super) process: String,
    pub(super) bytes: u64,
}

/// Whether the test runs for the report, and no other test at the same time.
pub(super) fn is_alone() -> bool {
    std::env::var_os(FILE_VARIABLE).is_some()
}

/// Adds an attack, which has the name of its test, to the report.
pub(super) fn add(attack: &Attack) {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else {
        return;
    };
    let name = thread::current().name().unwrap_or_default().to_owned();
    let taken = attack
        .taken
        .iter()
        .map(|it| (it.process.clone(), json!(it.bytes)));
    let line = json!({
        "test": name,
        "sent": attack.sent,
        "waited_ms": attack.waited.as_secs_f64() * 1e3,
        "taken": taken.collect::<serde_json::Map<_, _>>(),
    });
    let file = OpenOptions::new().create(true).append(true).open(path);
    writeln!(file.unwrap(), "{line}").unwrap();
}
