//! Waiting times: milliseconds as in Jina, or with a unit, such as `5s`.

use std::time::Duration;

use super::{integer, reject, scalar};
use crate::problem::{Findings, Problem};
use crate::yaml::{Node, Resolved, Scalar};

/// Longest waiting time; more could not be added to a clock everywhere, and nobody means it.
const DAYS_MAX: u64 = 365;
const WANTED: &str = "a time, as milliseconds or with a unit (`5s`, `2min`), or -1 for no limit";

/// How long a replica may take to be ready. `Some(None)`: for ever.
pub(crate) fn timeout_ready(node: &Node, findings: &mut Findings) -> Option<Option<Duration>> {
    let time = time(node, findings)?;
    if time == Some(Duration::ZERO) {
        let problem = Problem::new(&node.place, "must be more than 0");
        findings.problem(problem.remedy("-1 waits for ever"));
        return None;
    }
    Some(time)
}

/// How long a call may take. `Some(None)`: for ever, which 0 means too, as in Jina.
pub(crate) fn timeout_send(node: &Node, findings: &mut Findings) -> Option<Option<Duration>> {
    Some(time(node, findings)?.filter(|time| !time.is_zero()))
}

/// Any of them; none: no limit.
pub(super) fn time(node: &Node, findings: &mut Findings) -> Option<Option<Duration>> {
    let time = match scalar(node).map(Scalar::resolve) {
        Some(Resolved::Integer(-1)) => return Some(None),
        Some(Resolved::Integer(_)) => integer(node)
            .and_then(|number| u64::try_from(number).ok())
            .map(Duration::from_millis),
        Some(Resolved::Text(text)) => humantime::parse_duration(text).ok(),
        _ => None,
    };
    let Some(time) = time else {
        return reject(node, WANTED, findings);
    };
    if time > Duration::from_secs(DAYS_MAX * 24 * 60 * 60) {
        return reject(node, &format!("at most {DAYS_MAX} days"), findings);
    }
    Some(Some(time))
}
