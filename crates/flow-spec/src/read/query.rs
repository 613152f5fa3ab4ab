//! `when`: a condition on documents, which `flow_core::query` understands.

use flow_core::query::{BadQuery, Query};

use super::{entries, mapping};
use crate::problem::{Findings, Place, Problem};
use crate::yaml::{Content, Node, entries_to_json};

/// `Some(None)`: the condition asks nothing, so every document fulfils it.
pub(crate) fn when(node: &Node, findings: &mut Findings) -> Option<Option<Query>> {
    let node = mapping(node, findings)?;
    let entries = entries(&node, findings)?;
    if entries.is_empty() {
        return Some(None);
    }
    let json = match entries_to_json(entries) {
        Ok(object) => object.into(),
        Err(problem) => {
            findings.problem(problem);
            return None;
        }
    };
    match Query::parse(&json) {
        Ok(query) => Some(Some(query)),
        Err(bad) => {
            findings.problem(problem(&node, &bad));
            None
        }
    }
}

/// Stands where the part of the query stands that is wrong.
fn problem(node: &Node, bad: &BadQuery) -> Problem {
    let place = place_of(node, &bad.path);
    Problem::new(&place, &*bad.message).suggest(bad.suggestion.as_deref())
}

fn place_of(node: &Node, path: &str) -> Place {
    let mut place = node.place.clone();
    let mut at = Some(node);
    for step in path
        .split('.')
        .flat_map(|it| it.split('['))
        .filter(|it| !it.is_empty())
    {
        at = at.and_then(|node| child(node, step.trim_end_matches(']')));
        if let Some(node) = at {
            place.clone_from(&node.place);
        }
    }
    if !path.is_empty() {
        place.path = format!("{}.{path}", node.place.path);
    }
    place
}

fn child<'n>(node: &'n Node, step: &str) -> Option<&'n Node> {
    match &node.content {
        Content::List(items) => items.get(step.parse::<usize>().ok()?),
        Content::Scalar(_) | Content::Mapping(_) => node.get(step),
    }
}
