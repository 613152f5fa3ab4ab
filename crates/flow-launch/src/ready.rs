//! The lines in which a child talks to us: that it is ready, and that nobody follows an old placement any
//! more. How they are told from others, and what they say.

use std::net::SocketAddr;

use serde::Deserialize;

use crate::event::Facts;

/// What a ready child says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Ready {
    pub(crate) address: SocketAddr,
    /// Where it shows its metrics, if it does.
    #[serde(default)]
    pub(crate) metrics: Option<SocketAddr>,
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

/// The number of the placement, of those written to it from 1, before which a gateway knows no request
/// under way any more; none: the line speaks of something else.
pub(crate) fn placed(line: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Line {
        placed: u64,
    }
    let is_meant = line.starts_with("{\"placed\":");
    let parsed = is_meant.then(|| serde_json::from_str(line).ok()).flatten();
    parsed.map(|line: Line| line.placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placed_line_tells_a_number() {
        assert_eq!(placed(r#"{"placed":3}"#), Some(3));
        assert_eq!(placed(r#"{"placed": 12}"#), Some(12));
        for other in [
            "",
            r#"{"placed":"x"}"#,
            r#"{"ready":{"address":"1.2.3.4:5"}}"#,
        ] {
            assert_eq!(placed(other), None, "{other}");
        }
    }

    fn check(line: &str, expected: Option<&str>) {
        let said = parse(line).map(|ready| match ready {
            Ok(Ready {
                address,
                metrics,
                facts,
            }) => {
                let metrics = metrics.map(|at| format!(" {at}")).unwrap_or_default();
                format!("{address}{metrics} {facts:?}")
            }
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
        check(
            r#"{"ready":{"address":"[::1]:9","facts":{},"metrics":"[::1]:8"}}"#,
            Some("[::1]:9 [::1]:8 {}"),
        );
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
