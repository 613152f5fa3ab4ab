//! What is said over a control socket. One line of JSON each, and a version first, so that a program and
//! a flow of different ages tell each other so instead of guessing.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

pub use crate::seen::Stage;

/// The version of what is said here.
pub const VERSION: u32 = 1;

/// What a caller writes, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// [`VERSION`] of the caller.
    pub version: u32,
    /// What he wants.
    pub ask: Ask,
}

/// What can be asked of a running flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Which processes there are.
    Ps,
    /// New processes for a node, one after another.
    Restart {
        /// A node, or one of its processes.
        name: String,
    },
    /// Another number of replicas.
    Scale {
        /// The node.
        name: String,
        /// How many, in each of its shards.
        replicas: NonZeroU16,
    },
    /// Read the flow file again, and follow it.
    Reload,
    /// End in order. The connection ends with the flow, without a last answer.
    Down,
}

/// What a flow says to it: any number of sentences, and then how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// What happens meanwhile.
    Progress(String),
    /// It was done.
    Done(Done),
    /// It was not; the flow runs on as it was.
    Refused(String),
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// The processes there are.
    Listing(Listing),
    /// The flow is as was asked.
    Changed,
}

/// The processes of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The flow's own name.
    pub flow: Option<String>,
    /// Executors in the order of the plan, and then the gateway.
    pub processes: Vec<Process>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its name, such as `encoder/rep-0`.
    pub name: String,
    /// The node it works for; none: it is the gateway.
    pub node: Option<String>,
    /// Its process id, where it is there.
    pub pid: Option<u32>,
    /// Where it is in its life.
    pub state: Stage,
    /// Where it listens.
    pub address: Option<SocketAddr>,
    /// How often it was started again because it had died.
    pub restarts: u32,
    /// Since it was last ready.
    pub uptime_seconds: Option<f64>,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
}

impl Question {
    /// A question of this version.
    #[must_use]
    pub fn new(ask: Ask) -> Self {
        Self {
            version: VERSION,
            ask,
        }
    }

    /// What a line asks.
    ///
    /// # Errors
    /// In words, for the caller, if it is none, or one of another version.
    pub(crate) fn parse(line: &str) -> Result<Ask, String> {
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
            Err(error) => return Err(format!("this is no question: {error}")),
        }
        let question: Result<Self, _> = serde_json::from_str(line);
        question
            .map(|it| it.ask)
            .map_err(|error| format!("this is no question: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<Ask, &str>) {
        let found = Question::parse(line);
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{line}"),
            (Err(found), Err(start)) => assert!(found.starts_with(start), "{line}: {found}"),
            (_, expected) => panic!("{line}: {found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn a_question_is_a_line_with_a_version() {
        check(r#"{"version":1,"ask":"ps"}"#, Ok(Ask::Ps));
        check(
            r#"{"version":1,"ask":{"scale":{"name":"a","replicas":3}}}"#,
            Ok(Ask::Scale {
                name: "a".to_owned(),
                replicas: NonZeroU16::new(3).unwrap(),
            }),
        );
        let none = "this is no question: ";
        check("", Err(none));
        check(r#"{"ask":"ps"}"#, Err(none));
        check(r#"{"version":1,"ask":"sing"}"#, Err(none));
        check(
            r#"{"version":1,"ask":{"scale":{"name":"a","replicas":0}}}"#,
            Err(none),
        );
    }

    #[test]
    fn another_version_is_told_before_anything_is_guessed() {
        check(
            r#"{"version":2,"ask":{"new":1}}"#,
            Err("the flow speaks version 1 of its control socket, and not 2"),
        );
    }

    #[test]
    fn questions_and_answers_come_back_as_they_were() {
        let ask = Ask::Restart {
            name: "a/rep-0".to_owned(),
        };
        let line = serde_json::to_string(&Question::new(ask.clone())).unwrap();
        check(&line, Ok(ask));
        let answer = Answer::Done(Done::Listing(Listing {
            flow: None,
            processes: Vec::new(),
        }));
        let line = serde_json::to_string(&answer).unwrap();
        assert_eq!(line, r#"{"done":{"listing":{"flow":null,"processes":[]}}}"#);
        assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), answer);
    }
}
