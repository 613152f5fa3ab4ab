//! What users can do about failures of `flow post`.

use flow_client::{UnknownEndpoint, UnknownExecutor};
use flow_core::{Code, DocArrayVersion, Failure};

use crate::exit::BadUsage;

/// The error for an endpoint that no executor names.
pub(super) fn unknown_endpoint(error: &UnknownEndpoint) -> BadUsage {
    let hint = match error.has_default {
        true => " `--any-endpoint` sends it to executors that answer any endpoint",
        false => "",
    };
    BadUsage(format!("{error}{hint}"))
}

/// The error for an executor that the flow does not have.
pub(super) fn unknown_executor(error: &UnknownExecutor) -> BadUsage {
    BadUsage(match error {
        UnknownExecutor::Target { .. } => format!("`--target-executor`: {error}"),
        UnknownExecutor::Parameter { .. } => error.to_string(),
    })
}

/// A failure as text with a hint, if there is one. `sent` is the version of the documents that were sent.
pub(crate) fn with_hint(failure: &Failure, sent: DocArrayVersion) -> String {
    if failure.code() == Code::TooLarge {
        return format!("{failure}; use a smaller `--request-size`");
    }
    // Stock executors only say that protobuf could not be decoded.
    if failure.message().contains("DecodeError") {
        let other = match sent {
            DocArrayVersion::V1 => DocArrayVersion::V2,
            DocArrayVersion::V2 => DocArrayVersion::V1,
        };
        let other = releases(other);
        return format!("{failure}; this looks like an executor with {other}");
    }
    failure.to_string()
}

/// The releases of DocArray that have a version, and the option for it.
pub(super) fn releases(version: DocArrayVersion) -> &'static str {
    match version {
        DocArrayVersion::V1 => "DocArray up to 0.21: try `--docarray v1`",
        DocArrayVersion::V2 => "DocArray 0.30 or newer: try `--docarray v2`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: Code, message: &str, sent: DocArrayVersion, expected: &str) {
        assert_eq!(with_hint(&Failure::new(code, message), sent), expected);
    }

    #[test]
    fn documents_that_executors_cannot_decode_suggest_the_other_version() {
        check(
            Code::ExecutorFailed,
            "DecodeError()",
            DocArrayVersion::V1,
            "DecodeError(); this looks like an executor with DocArray 0.30 or newer: try `--docarray v2`",
        );
        check(
            Code::ExecutorFailed,
            "DecodeError()",
            DocArrayVersion::V2,
            "DecodeError(); this looks like an executor with DocArray up to 0.21: try `--docarray v1`",
        );
        check(Code::ExecutorFailed, "no", DocArrayVersion::V1, "no");
    }

    #[test]
    fn a_large_request_suggests_a_smaller_one() {
        let expected = "65 MiB; use a smaller `--request-size`";
        check(Code::TooLarge, "65 MiB", DocArrayVersion::V1, expected);
    }

    #[test]
    fn an_unknown_endpoint_names_the_option_that_sends_it_anyway() {
        let error = |has_default| UnknownEndpoint {
            endpoint: "/serach".to_owned(),
            similar: Some("/search".to_owned()),
            has_default,
            known: Vec::new(),
        };
        let similar = "no executor has an endpoint `/serach`; did you mean `/search`?";
        assert_eq!(unknown_endpoint(&error(false)).0, similar);
        let hint = "`--any-endpoint` sends it to executors that answer any endpoint";
        assert_eq!(
            unknown_endpoint(&error(true)).0,
            format!("{similar} {hint}")
        );
    }
}
