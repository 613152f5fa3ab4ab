//! `when`: a condition on documents, which `flow_core::query` understands.

use flow_core::query::{BadQuery, Query};

use super::form::{Shape, ValueForm};
use super::scalar::{entries, mapping};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};
use crate::yaml::{YamlContent, YamlNode, entries_to_json};

pub(crate) const WHEN: ValueForm<Option<Query>> = ValueForm::new(Shape::Query, when);

/// `Some(None)`: the condition asks nothing, so every document fulfils it.
fn when(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Option<Query>> {
    let node = mapping(node, diagnostics)?;
    let entries = entries(&node, diagnostics)?;
    if entries.is_empty() {
        return Some(None);
    }
    let json = match entries_to_json(entries) {
        Ok(object) => object.into(),
        Err(problem) => {
            diagnostics.problem(problem);
            return None;
        }
    };
    match Query::parse(&json) {
        Ok(query) => Some(Some(query)),
        Err(bad) => {
            diagnostics.problem(problem(&node, &bad));
            None
        }
    }
}

/// A problem at the part of the query that is wrong.
fn problem(node: &YamlNode, bad: &BadQuery) -> Problem {
    let span = span_of(node, &bad.path);
    Problem::new(&span, &*bad.message).suggest(bad.suggestion.as_deref())
}

fn span_of(node: &YamlNode, path: &str) -> SourceSpan {
    let mut span = node.span.clone();
    let mut at = Some(node);
    for step in path
        .split('.')
        .flat_map(|it| it.split('['))
        .filter(|it| !it.is_empty())
    {
        at = at.and_then(|node| child(node, step.trim_end_matches(']')));
        if let Some(node) = at {
            span.clone_from(&node.span);
        }
    }
    if !path.is_empty() {
        span.path = format!("{}.{path}", node.span.path);
    }
    span
}

fn child<'n>(node: &'n YamlNode, step: &str) -> Option<&'n YamlNode> {
    match &node.content {
        YamlContent::List(items) => items.get(step.parse::<usize>().ok()?),
        YamlContent::Scalar(_) | YamlContent::Mapping(_) => node.get(step),
    }
}
