//! The protocol of the control socket. Requests and responses are lines of JSON. A request has a version, so that a
//! program and a flow of different releases notice it.

use std::num::NonZeroU16;

use flow_process::ListenAddress;
use serde::{Deserialize, Serialize};

pub use crate::change::source::FlowFileState;
pub use crate::supervisor::status::ProcessState;

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// What a caller writes, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// [`VERSION`] of the caller.
    pub version: u32,
    /// What the flow is to do.
    #[serde(rename = "ask")]
    pub command: ControlCommand,
}

/// A command for a running flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlCommand {
    /// List the processes.
    Ps,
    /// Replace the processes of a node, one after another.
    Restart {
        /// A node, or one of its processes.
        name: String,
    },
    /// Change the number of replicas.
    Scale {
        /// The node.
        name: String,
        /// The number, in each of its shards.
        replicas: NonZeroU16,
    },
    /// Change which events processes log.
    LogLevel {
        /// A node, or one of its processes; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// A level or a filter; `None` for what each process started with.
        filter: Option<String>,
    },
    /// Compare the flow file with what the flow follows.
    CheckFile,
    /// Read the flow file again and follow it.
    Reload,
    /// Drain and stop. The connection ends with the flow, without a last response.
    Down,
}

/// A response: any number of reports of progress, and then the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlResponse {
    /// What happens meanwhile.
    Progress(String),
    /// The command was executed.
    Done(ControlResult),
    /// It was not, for this reason; the flow is unchanged.
    Refused(String),
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlResult {
    /// The processes.
    Listing(FlowStatus),
    /// How the flow file differs from what the flow follows.
    File(FlowFileState),
    /// The flow was changed.
    Changed,
}

/// The processes of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// The flow's name.
    pub flow: Option<String>,
    /// Executors in the order of the plan, and then the gateway.
    pub processes: Vec<ProcessInfo>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its name, such as `encoder/rep-0`.
    pub name: String,
    /// The node that it works for; `None` for the gateway.
    pub node: Option<String>,
    /// Its process id, if it is alive.
    pub pid: Option<u32>,
    /// Its state.
    pub state: ProcessState,
    /// Where it listens.
    pub address: Option<ListenAddress>,
    /// How often it was restarted because it had exited.
    pub restarts: u32,
    /// Time since it last became ready.
    pub uptime_seconds: Option<f64>,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
}

impl ControlRequest {
    /// A request of this version.
    #[must_use]
    pub fn new(command: ControlCommand) -> Self {
        Self {
            version: VERSION,
            command,
        }
    }

    /// Parses a request.
    ///
    /// # Errors
    /// A message for the caller, if the line is no request, or one of another version.
    pub(crate) fn parse(line: &str) -> Result<ControlCommand, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let parsed = serde_json::from_str(line).map(|it: Versioned| it.version);
        match parsed {
            Ok(VERSION) => {}
            Ok(other) => {
                return Err(format!(
                    "the flow speaks version {VERSION} of its control socket, and not {other}: \
                     use the program `flow` that started it"
                ));
            }
            Err(error) => return Err(format!("invalid request: {error}")),
        }
        let request: Result<Self, _> = serde_json::from_str(line);
        request
            .map(|it| it.command)
            .map_err(|error| format!("invalid request: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<ControlCommand, &str>) {
        let found = ControlRequest::parse(line);
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{line}"),
            (Err(found), Err(start)) => assert!(found.starts_with(start), "{line}: {found}"),
            (_, expected) => panic!("{line}: {found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn a_request_is_a_line_with_a_version() {
        check(r#"{"version":1,"ask":"ps"}"#, Ok(ControlCommand::Ps));
        check(
            r#"{"version":1,"ask":{"scale":{"name":"a","replicas":3}}}"#,
            Ok(ControlCommand::Scale {
                name: "a".to_owned(),
                replicas: NonZeroU16::new(3).unwrap(),
            }),
        );
        let none = "invalid request: ";
        check("", Err(none));
        check(r#"{"ask":"ps"}"#, Err(none));
        check(r#"{"version":1,"ask":"sing"}"#, Err(none));
        check(
            r#"{"version":1,"ask":{"scale":{"name":"a","replicas":0}}}"#,
            Err(none),
        );
    }

    #[test]
    fn another_version_is_refused_before_anything_else_is_parsed() {
        check(
            r#"{"version":2,"ask":{"new":1}}"#,
            Err("the flow speaks version 1 of its control socket, and not 2"),
        );
    }

    #[test]
    fn requests_and_responses_survive_a_round_trip() {
        let command = ControlCommand::Restart {
            name: "a/rep-0".to_owned(),
        };
        let line = serde_json::to_string(&ControlRequest::new(command.clone())).unwrap();
        check(&line, Ok(command));
        let response = ControlResponse::Done(ControlResult::Listing(FlowStatus {
            flow: None,
            processes: Vec::new(),
        }));
        let line = serde_json::to_string(&response).unwrap();
        assert_eq!(line, r#"{"done":{"listing":{"flow":null,"processes":[]}}}"#);
        assert_eq!(
            serde_json::from_str::<ControlResponse>(&line).unwrap(),
            response
        );
    }
}
