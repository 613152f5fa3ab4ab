//! Identifiers that are allowed only in some places, or forbidden in others.

use crate::tidy::finding::Finding;
use crate::tidy::source::lines_with;
use crate::tidy::tree::{File, Tree};

/// Sequences of tokens, and where they are allowed.
struct Rule {
    rows: &'static [&'static str],
    place: Place,
    why: &'static str,
}

enum Place {
    /// Beginnings of the paths where the sequences are allowed.
    OnlyIn(&'static [&'static str]),
    /// Not where decisions are made.
    NotInPure,
}

/// Where the environment is read; in the tests of an executor's author, `testing.rs` plays `run`'s part, and cargo
/// tells a build script by variables where it is.
const ENVIRONMENT: &[&str] = &[
    "crates/flow-cli/",
    "crates/flow-cuda/build.rs",
    "crates/flow-gateway/build.rs",
    "crates/flow-executor/src/run",
    "crates/flow-py/src/executor/",
    "crates/flow-executor/src/testing.rs",
    "crates/flow-py/src/encoder.rs",
    "xtask/",
];

/// Where words go to a terminal, or to cargo; `flow-process` writes the log and the events of every process.
const PROGRAMS: &[&str] = &[
    "crates/flow-cli/",
    "crates/flow-cuda/build.rs",
    "crates/flow-gateway/build.rs",
    "crates/flow-executor/src/run",
    "crates/flow-py/src/executor/",
    "crates/flow-process/",
    "xtask/",
];

const RULES: &[Rule] = &[
    Rule {
        rows: &[
            "axum",
            "tonic",
            "tonic_health",
            "tonic_reflection",
            "tonic_prost",
        ],
        place: Place::OnlyIn(&[
            "crates/flow-net/",
            // A module of `opentelemetry-proto` has this name.
            "crates/flow-otlp/",
            "crates/flow-gateway/src/grpc",
            "crates/flow-gateway/src/http",
            "crates/flow-gateway/src/ports.rs",
            "crates/flow-executor/src/server/",
            "crates/flow-cli/src/cmd/",
            "xtask/",
        ]),
        why: "only flow-net and the protocol adapters name tonic and axum",
    },
    Rule {
        rows: &[
            "tokio",
            "tonic",
            "Instant :: now",
            "SystemTime",
            ". elapsed (",
            "thread",
            "rand ::",
            "env ::",
        ],
        place: Place::NotInPure,
        why: "this file decides; time, chance and environment are its arguments",
    },
    Rule {
        rows: &[
            "env :: var",
            "env :: var_os",
            "env :: vars",
            "env :: vars_os",
            "env :: set_var",
            "env :: remove_var",
        ],
        place: Place::OnlyIn(ENVIRONMENT),
        why: "the environment is read once, in flow-cli, flow_executor::run or flow-py",
    },
    Rule {
        rows: &[
            "println !",
            "print !",
            "eprintln !",
            "eprint !",
            "dbg !",
            "process :: exit",
            "io :: stdout",
            "io :: stderr",
        ],
        place: Place::OnlyIn(PROGRAMS),
        why: "only programs print and exit",
    },
    Rule {
        rows: &["unbounded_channel", "unbounded (", "mpsc :: channel ( )"],
        place: Place::OnlyIn(&[]),
        why: "every queue has a limit",
    },
    Rule {
        rows: &["tokio :: spawn", "task :: spawn ("],
        place: Place::OnlyIn(&[]),
        why: "a task has an owner that awaits it: use a JoinSet or a TaskTracker",
    },
];

/// Modules that decide, besides those of flow-spec.
const PURE: &[&str] = &[
    "balance",
    "batcher",
    "hedge",
    "response_times",
    "retry",
    "merge",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources()
        .flat_map(|file| RULES.iter().flat_map(|rule| rule.check(file)))
        .collect()
}

impl Rule {
    fn check(&self, file: &File) -> Vec<Finding> {
        if self.place.allows(&file.path) {
            return Vec::new();
        }
        let lines = |row| lines_with(file.code(), row);
        let found = self
            .rows
            .iter()
            .flat_map(|row| lines(row).into_iter().map(move |line| (line, row)));
        found
            .map(|(line, row)| file.finding(line, &self.message(row)))
            .collect()
    }

    fn message(&self, row: &str) -> String {
        format!("`{}` here, but {}", row.replace(' ', ""), self.why)
    }
}

impl Place {
    fn allows(&self, path: &str) -> bool {
        match self {
            Self::OnlyIn(places) => places.iter().any(|place| path.starts_with(place)),
            Self::NotInPure => !is_pure(path),
        }
    }
}

fn is_pure(path: &str) -> bool {
    let mut parts = path.trim_end_matches(".rs").split('/');
    path.starts_with("crates/flow-spec/")
        || (path.starts_with("crates/") && parts.any(|part| PURE.contains(&part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(path: &str, code: &str, findings: usize) {
        let found = check(&Tree::of(&[(path, code)]));
        assert_eq!(found.len(), findings, "{path}: {code}\n{found:?}");
    }

    #[test]
    fn tonic_stays_in_the_adapters() {
        let code = "use tonic::Status;";
        expect("crates/flow-net/src/pool.rs", code, 0);
        expect("crates/flow-gateway/src/grpc.rs", code, 0);
        expect("crates/flow-gateway/src/grpc/server.rs", code, 0);
        expect("crates/flow-gateway/src/stream.rs", code, 1);
        expect("crates/flow-gateway/src/stream/tests.rs", code, 0);
        expect("executors/echo/src/lib.rs", code, 1);
    }

    #[test]
    fn pure_modules_use_no_clock_no_task_and_no_environment() {
        let code = "fn f() -> Instant { Instant::now() }";
        expect("crates/flow-executor/src/queue/batcher.rs", code, 1);
        expect("crates/flow-executor/src/queue/batcher/split.rs", code, 1);
        expect("crates/flow-spec/src/check.rs", code, 1);
        expect("crates/flow-executor/src/worker/threads.rs", code, 0);
        expect(
            "crates/flow-executor/src/queue/batcher.rs",
            "fn f(now: Instant) {}",
            0,
        );
        expect("crates/flow-net/src/retry.rs", "use tokio::time::sleep;", 1);
        expect(
            "crates/flow-gateway/src/merge.rs",
            "fn f() { since.elapsed() }",
            1,
        );
    }

    #[test]
    fn the_environment_is_read_in_two_places() {
        let code = "fn f() { let _ = std::env::var(\"A\"); }";
        expect("crates/flow-launch/src/local.rs", code, 1);
        expect("executors/sentence-encoder/src/lib.rs", code, 1);
        expect("crates/flow-cli/src/main.rs", code, 0);
        expect("crates/flow-executor/src/run.rs", code, 0);
        expect(
            "crates/flow-launch/src/local.rs",
            "const V: &str = env!(\"CARGO_PKG_VERSION\");",
            0,
        );
    }

    #[test]
    fn only_programs_print() {
        let code = "fn f() { eprintln!(\"no\"); std::process::exit(1) }";
        expect("crates/flow-net/src/pool.rs", code, 2);
        expect("crates/flow-cli/src/main.rs", code, 0);
        expect("tests/tests/post.rs", code, 0);
    }

    #[test]
    fn queues_are_bounded_and_tasks_have_owners() {
        expect(
            "crates/a/src/b.rs",
            "fn f() { mpsc::unbounded_channel() }",
            1,
        );
        expect(
            "crates/a/src/b.rs",
            "fn f() { std::sync::mpsc::channel() }",
            1,
        );
        expect("crates/a/src/b.rs", "fn f() { mpsc::channel(8) }", 0);
        expect("crates/a/src/b.rs", "fn f() { tokio::spawn(g()) }", 1);
        expect("crates/a/src/b.rs", "fn f() { tokio::task::spawn(g()) }", 1);
        expect("crates/a/src/b.rs", "fn f() { tasks.spawn(g()) }", 0);
    }
}
