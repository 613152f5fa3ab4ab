//! Waiting times: milliseconds as in Jina, or with a unit, such as `5s`.

use std::time::Duration;

use super::form::{Shape, ValueForm};
use super::scalar::{integer, reject, scalar};
use crate::diagnostics::{Diagnostics, Problem};
use crate::yaml::{Resolved, Scalar, YamlNode};

pub(crate) const TIMEOUT_READY: ValueForm<Option<Duration>> =
    ValueForm::new(Shape::Time, timeout_ready);
pub(crate) const TIMEOUT_SEND: ValueForm<Option<Duration>> =
    ValueForm::new(Shape::Time, timeout_send);

/// The longest time that is accepted; longer ones could overflow a clock.
const DAYS_MAX: u64 = 365;
const WANTED: &str = "a time, as milliseconds or with a unit (`5s`, `2min`), or -1 for no limit";

/// How long a replica may take to be ready. `Some(None)`: forever.
fn timeout_ready(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Option<Duration>> {
    let time = time(node, diagnostics)?;
    if time == Some(Duration::ZERO) {
        let problem = Problem::new(&node.span, "must be more than 0");
        diagnostics.problem(problem.remedy("-1 waits forever"));
        return None;
    }
    Some(time)
}

/// How long a call may take. `Some(None)`: without a limit, which is also what 0 means, as in Jina.
fn timeout_send(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Option<Duration>> {
    Some(time(node, diagnostics)?.filter(|time| !time.is_zero()))
}

/// A time in milliseconds or with a unit. `Some(None)` is no limit.
pub(super) fn time(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Option<Duration>> {
    let time = match (integer(node), scalar(node).map(Scalar::resolve)) {
        (Some(-1), _) => return Some(None),
        (Some(number), _) => u64::try_from(number).ok().map(Duration::from_millis),
        (None, Some(Resolved::Text(text))) => humantime::parse_duration(text).ok(),
        _ => None,
    };
    let Some(time) = time else {
        return reject(node, WANTED, diagnostics);
    };
    if time > Duration::from_secs(DAYS_MAX * 24 * 60 * 60) {
        return reject(node, &format!("at most {DAYS_MAX} days"), diagnostics);
    }
    Some(Some(time))
}
