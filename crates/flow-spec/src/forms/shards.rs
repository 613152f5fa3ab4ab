//! The keys `polling` and `workers`, which distribute requests to shards and threads.

use std::str::FromStr;

use flow_core::Endpoint;

use super::form::{Shape, ValueForm};
use super::scalar::{count, entries, mapping, scalar, word};
use crate::diagnostics::{Diagnostics, Problem};
use crate::values::{Poll, Polling, Workers};
use crate::yaml::{YamlContent, YamlEntry, YamlNode};

pub(crate) const POLLING: ValueForm<Polling> = ValueForm::new(Shape::Polling, polling);
pub(crate) const WORKERS: ValueForm<Workers> = ValueForm::new(Shape::Workers, workers);

/// All endpoints that are not named.
const OTHERS: &str = "*";

/// `ANY`, `ALL`, or endpoint → one of them, as a mapping or as JSON.
fn polling(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Polling> {
    let node = mapping(node, diagnostics)?;
    if !matches!(node.content, YamlContent::Mapping(_)) {
        return poll(&node, diagnostics).map(|default| Polling {
            default,
            ..Polling::default()
        });
    }
    let mut polling = Polling::default();
    for entry in entries(&node, diagnostics)? {
        let Some(poll) = poll(&entry.value, diagnostics) else {
            continue;
        };
        if entry.key == OTHERS {
            polling.default = poll;
        } else if is_endpoint(entry, diagnostics) {
            polling.by_endpoint.insert(entry.key.clone(), poll);
        }
    }
    Some(polling)
}

fn poll(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Poll> {
    word(node, &[("ANY", Poll::Any), ("ALL", Poll::All)], diagnostics)
}

fn is_endpoint(entry: &YamlEntry, diagnostics: &mut Diagnostics) -> bool {
    let Err(error) = Endpoint::from_str(&entry.key) else {
        return true;
    };
    let problem = Problem::new(&entry.span, error.to_string());
    diagnostics.problem(problem.suggest(Some(&format!("/{}", entry.key))));
    false
}

/// A number of threads, or `auto`.
fn workers(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Workers> {
    if scalar(node).is_some_and(|it| it.text.eq_ignore_ascii_case("auto")) {
        return Some(Workers::Auto);
    }
    count(node, diagnostics).map(Workers::Number)
}
