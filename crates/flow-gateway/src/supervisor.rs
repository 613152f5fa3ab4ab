//! What the console asks the flow's supervisor: the processes, their logs, and changes of the flow.
//!
//! The gateway starts no processes and keeps no logs, and this crate does not know who does. The program that links both
//! sides connects them by an implementation of [`SupervisorClient`]; a gateway that runs alone has none.
//!
//! ```text
//! log.rs       what is looked for in the logs, and what is found
//! log_text.rs  the text of a line for people, and its level          pure
//! ```

mod log;
mod log_text;

use std::fmt::{self, Debug};
use std::num::NonZeroU16;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use log::{LogEntry, LogExcerpt, LogQuery};
pub use log_text::LogLevel;

/// Asks the supervisor of the flow that the gateway belongs to.
///
/// Answers may take as long as a process takes to start. What was asked for goes on when the future is dropped.
pub trait SupervisorClient: Debug + Send + Sync {
    /// Lists the processes of the flow.
    fn processes(&self) -> BoxFuture<'_, Result<Vec<FlowProcess>, SupervisorError>>;

    /// Compares the flow file with what the flow follows.
    fn flow_file(&self) -> BoxFuture<'_, Result<FlowFileReport, SupervisorError>>;

    /// Changes the flow, and returns what happened in sentences.
    fn change(&self, action: Action) -> BoxFuture<'_, Result<Vec<String>, SupervisorError>>;

    /// Searches the logs of all processes, within a limited amount of memory and time.
    fn search_logs(&self, query: LogQuery) -> BoxFuture<'_, Result<LogExcerpt, SupervisorError>>;
}

/// A change of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Replace the processes of an executor, or one of them.
    Restart {
        /// The executor or the process.
        name: String,
    },
    /// Change the number of an executor's replicas.
    Scale {
        /// The executor.
        name: String,
        /// The number, in each of its shards.
        replicas: NonZeroU16,
    },
    /// Read the flow file again and follow it.
    Reload {},
}

/// As the command line of `flow` names it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart { name } => write!(f, "restart {name}"),
            Self::Scale { name, replicas } => write!(f, "scale {name}={replicas}"),
            Self::Reload {} => f.write_str("reload"),
        }
    }
}

/// The supervisor did not do what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SupervisorError {
    /// It refused, and the flow is as it was.
    #[error("{0}")]
    Refused(String),
    /// Too many others ask at the moment.
    #[error("too many requests of this kind are in progress; try again")]
    Busy,
    /// It could not be asked, or did not answer.
    #[error("{0}")]
    Unreachable(String),
}

/// How the flow file differs from what the flow follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FlowFileReport {
    /// The flow follows the file.
    Followed,
    /// A file was written after the flow read it, and reading it again finds no problem. Building its executors may still fail.
    Changed,
    /// The flow does not follow the file, because it cannot.
    Invalid {
        /// Everything that is wrong with it, or why the flow could not follow it.
        problem: String,
    },
}

/// A process of the flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowProcess {
    /// Its name, such as `encoder/rep-0`.
    pub name: String,
    /// The executor that it works for; `None` for the gateway.
    pub node: Option<String>,
    /// Its process id, if it is alive.
    pub pid: Option<u32>,
    /// Its state in a word, such as `ready`.
    pub state: String,
    /// How often it was restarted because it had exited.
    pub restarts: u32,
    /// Time since it last became ready.
    pub uptime_seconds: Option<f64>,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_action_is_written_with_its_name() {
        let check = |written: serde_json::Value, expected: Option<&str>| {
            let action = serde_json::from_value::<Action>(written.clone()).ok();
            let found = action.map(|it| it.to_string());
            assert_eq!(found.as_deref(), expected, "{written}");
        };
        check(json!({"action": "restart", "name": "a"}), Some("restart a"));
        check(
            json!({"action": "scale", "name": "a", "replicas": 2}),
            Some("scale a=2"),
        );
        check(json!({"action": "reload"}), Some("reload"));
        check(json!({"action": "reload", "name": "a"}), None);
        check(json!({"action": "scale", "name": "a", "replicas": 0}), None);
        check(json!({"action": "down"}), None);
        check(json!({"name": "a"}), None);
    }
}
