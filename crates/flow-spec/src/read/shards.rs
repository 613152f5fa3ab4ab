//! Who gets a request: shards by `polling`, threads by `workers`.

use std::str::FromStr;

use flow_core::Endpoint;

use super::{count, entries, mapping, scalar, word};
use crate::problem::{Findings, Problem};
use crate::settings::{Poll, Polling, Workers};
use crate::yaml::{Content, Entry, Node};

/// Endpoints of which nothing is said.
const OTHERS: &str = "*";

/// `ANY`, `ALL`, or endpoint → one of them, as a mapping or as JSON.
pub(crate) fn polling(node: &Node, findings: &mut Findings) -> Option<Polling> {
    let node = mapping(node, findings)?;
    if !matches!(node.content, Content::Mapping(_)) {
        return poll(&node, findings).map(|default| Polling {
            default,
            ..Polling::default()
        });
    }
    let mut polling = Polling::default();
    for entry in entries(&node, findings)? {
        let Some(poll) = poll(&entry.value, findings) else {
            continue;
        };
        if entry.key == OTHERS {
            polling.default = poll;
        } else if is_endpoint(entry, findings) {
            polling.by_endpoint.insert(entry.key.clone(), poll);
        }
    }
    Some(polling)
}

fn poll(node: &Node, findings: &mut Findings) -> Option<Poll> {
    word(node, &[("ANY", Poll::Any), ("ALL", Poll::All)], findings)
}

fn is_endpoint(entry: &Entry, findings: &mut Findings) -> bool {
    let Err(error) = Endpoint::from_str(&entry.key) else {
        return true;
    };
    let problem = Problem::new(&entry.place, error.to_string());
    findings.problem(problem.suggest(Some(&format!("/{}", entry.key))));
    false
}

/// A number of threads, or `auto`.
pub(crate) fn workers(node: &Node, findings: &mut Findings) -> Option<Workers> {
    if scalar(node).is_some_and(|it| it.text.eq_ignore_ascii_case("auto")) {
        return Some(Workers::Auto);
    }
    count(node, findings).map(Workers::Number)
}
