//! The one line in which a child says that it is ready: how it is told from others, and what it says.

use std::net::SocketAddr;

use serde::Deserialize;

use crate::event::Facts;

/// What a ready child says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Ready {
    pub(crate) address: SocketAddr,
    #[serde(default)]
    pub(crate) facts: Facts,
}

/// A line that was meant to be a ready line.
#[derive(Debug, thiserror::Error)]
#[error("wrote the ready line `{line}`, which has no meaning")]
pub(crate) struct BadReady {
    line: String,
    source: serde_json::Error,
}

/// What a line says of being ready; none: it speaks of something else.
pub(crate) fn parse(line: &str) -> Option<Result<Ready, BadReady>> {
    #[derive(Deserialize)]
    struct Line {
        ready: Ready,
    }
    let is_meant = line.starts_with("{\"ready\":");
    is_meant.then(|| {
        let parsed = serde_json::from_str(line).map(|line: Line| line.ready);
        parsed.map_err(|source| BadReady {
            line: line.to_owned(),
            source,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&str>) {
        let said = parse(line).map(|ready| match ready {
            Ok(ready) => format!("{} {:?}", ready.address, ready.facts),
            Err(error) => error.to_string(),
        });
        assert_eq!(said.as_deref(), expected, "{line}");
    }

    #[test]
    fn a_ready_line_tells_address_and_facts() {
        check(
            r#"{"ready":{"address":"127.0.0.1:41233","facts":{"device":"cpu","a":"b"}}}"#,
            Some(r#"127.0.0.1:41233 {"device": "cpu", "a": "b"}"#),
        );
        check(r#"{"ready":{"address":"[::1]:9"}}"#, Some("[::1]:9 {}"));
    }

    #[test]
    fn other_lines_are_not_ready_lines() {
        check("", None);
        check("ready", None);
        check(r#"{"level":"INFO","message":"ready"}"#, None);
    }

    #[test]
    fn a_ready_line_without_an_address_is_told_apart() {
        check(
            r#"{"ready":{"address":"here"}}"#,
            Some(r#"wrote the ready line `{"ready":{"address":"here"}}`, which has no meaning"#),
        );
    }
}
