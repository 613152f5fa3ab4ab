//! The nodes that a request addresses: `target_executor` is a regular expression that matches from the start of a
//! node's name. Nodes that do not match pass their documents on unchanged.

use flow_core::{Code, Failure};
use regex::{Regex, RegexBuilder};

/// Memory that a compiled expression may take; clients choose the expression.
const REGEX_SIZE_MAX: usize = 64 << 10;

/// The nodes that a request addresses.
#[derive(Debug)]
pub(crate) enum TargetNodes {
    All,
    Matching(Regex),
}

impl TargetNodes {
    /// An absent or empty expression means all nodes.
    pub(crate) fn parse(expression: Option<&str>) -> Result<Self, Failure> {
        let Some(expression) = expression.filter(|text| !text.is_empty()) else {
            return Ok(Self::All);
        };
        RegexBuilder::new(&format!("^(?:{expression})"))
            .size_limit(REGEX_SIZE_MAX)
            .build()
            .map(Self::Matching)
            .map_err(|error| {
                let message =
                    format!("`target_executor` is not a valid regular expression: {error}");
                Failure::new(Code::BadRequest, message)
            })
    }

    pub(crate) fn includes(&self, node: &str) -> bool {
        match self {
            Self::All => true,
            Self::Matching(regex) => regex.is_match(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, node: &str, included: bool) {
        let target = TargetNodes::parse(Some(expression)).unwrap();
        assert_eq!(target.includes(node), included, "{expression} {node}");
    }

    #[test]
    fn a_target_matches_from_the_start_of_the_name() {
        check("enc", "enc", true);
        check("enc", "encoder", true);
        check("coder", "encoder", false);
        check("(a|b)", "b", true);
        check("a|b", "xb", false);
        check("", "anything", true);
        assert!(TargetNodes::parse(None).unwrap().includes("anything"));
    }

    #[test]
    fn an_invalid_expression_is_a_bad_request() {
        assert_eq!(
            TargetNodes::parse(Some("(")).unwrap_err().code(),
            Code::BadRequest
        );
        assert_eq!(
            TargetNodes::parse(Some("a{9999}{9999}"))
                .unwrap_err()
                .code(),
            Code::BadRequest
        );
    }
}
