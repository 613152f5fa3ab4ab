//! Warnings about valid settings that are probably mistakes, for the whole flow.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::container;
use super::graph::{Graph, Parent};
use super::node::{FlowNode, Run};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};
use crate::spec::{ExecutorSpec, FlowSpec};
use crate::values::{Polling, Uses};

pub(super) fn give(
    spec: &FlowSpec,
    nodes: &[FlowNode],
    graph: &Graph,
    diagnostics: &mut Diagnostics,
) {
    for (at, (entry, node)) in spec.executors.iter().zip(nodes).enumerate() {
        let inputs = graph.parents[at].len();
        warn_of_idle_options(entry, node, inputs, diagnostics);
        if let Run::Local(run) = &node.run {
            let around = run.before.iter().chain(&run.after);
            let programs = std::iter::once(&run.uses).chain(around);
            container::warn_of_no_effect(entry, programs, diagnostics);
        }
        warn_of_impossible(entry, node, diagnostics);
        if inputs > 1 && node.calls.reduce {
            warn_of_two_writers(at, spec, nodes, graph, diagnostics);
        }
    }
}

/// Options that mean something only where there are several shards or inputs.
fn warn_of_idle_options(
    entry: &ExecutorSpec,
    node: &FlowNode,
    inputs: usize,
    diagnostics: &mut Diagnostics,
) {
    let Run::Local(run) = &node.run else { return };
    if run.shards.get() > 1 {
        return;
    }
    let polling = entry.inherited.options.polling.as_ref();
    if let Some(polling) = polling.filter(|it| it.value != Polling::default()) {
        let message = "`polling` has no effect: there is one shard only";
        diagnostics.warn(Problem::new(&polling.span, message));
    }
    let no_reduce = entry.inherited.options.no_reduce.as_ref();
    if let Some(no_reduce) = no_reduce.filter(|it| it.value && inputs < 2) {
        let message = "`no_reduce` has no effect: there is one input and one shard only";
        diagnostics.warn(Problem::new(&no_reduce.span, message));
    }
}

fn warn_of_impossible(entry: &ExecutorSpec, node: &FlowNode, diagnostics: &mut Diagnostics) {
    let (Some(written), Some(when)) = (&entry.inherited.options.when, &node.calls.when) else {
        return;
    };
    if is_impossible(when.json()) {
        let message = format!(
            "no document can fulfil this, so none goes to `{}`",
            node.name
        );
        diagnostics.warn(Problem::new(&written.span, message));
    }
}

/// Whether a query contradicts itself: as far as its form shows it.
fn is_impossible(query: &Value) -> bool {
    let mut equal = HashMap::new();
    contradicts(query, &mut equal)
}

/// `equal` holds what fields must be for all conditions so far to be true.
fn contradicts<'q>(query: &'q Value, equal: &mut HashMap<&'q str, &'q Value>) -> bool {
    let mut conditions = query.as_object().into_iter().flatten();
    let contradicts_one = |(key, value): (&'q String, &'q Value)| match key.as_str() {
        "$and" => array(value).any(|part| contradicts(part, equal)),
        "$or" => array(value).next().is_some() && array(value).all(is_impossible),
        "$not" => false,
        field => value
            .as_object()
            .is_some_and(|compare| field_contradicts(field, compare, equal)),
    };
    conditions.any(contradicts_one)
}

fn field_contradicts<'q>(
    field: &'q str,
    compare: &'q Map<String, Value>,
    equal: &mut HashMap<&'q str, &'q Value>,
) -> bool {
    let is_empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
    if compare.get("$in").is_some_and(is_empty) {
        return true;
    }
    // A text in braces is another field, of which nothing is known.
    let is_known = |it: &&Value| !it.as_str().is_some_and(|text| text.starts_with('{'));
    let Some(wanted) = compare.get("$eq").filter(is_known) else {
        return false;
    };
    equal.insert(field, wanted).is_some_and(|it| it != wanted)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Branches that run the same executor set the same fields, and at the join only one of them counts.
fn warn_of_two_writers(
    join: usize,
    spec: &FlowSpec,
    nodes: &[FlowNode],
    graph: &Graph,
    diagnostics: &mut Diagnostics,
) {
    let branch = branches(join, graph);
    let mut first: HashMap<Work<'_>, usize> = HashMap::new();
    // A condition parts the documents, so that such branches need not meet in one.
    let conditional = |of: Option<usize>| {
        let mut nodes = branch.iter().zip(nodes);
        nodes.any(|(branch, node)| *branch == of && node.calls.when.is_some())
    };
    let mut members: Vec<_> = (0..nodes.len())
        .filter(|node| branch[*node].is_some() && !conditional(branch[*node]))
        .collect();
    members.sort_by_key(|node| (branch[*node], *node));
    for node in members {
        let Some(work) = work(&nodes[node]) else {
            continue;
        };
        let other = *first.entry(work).or_insert(node);
        if branch[other] != branch[node] {
            let span = needs_span(&spec.executors[join]);
            let (first, second) = (&nodes[other].name, &nodes[node].name);
            let message = format!(
                "`{first}` and `{second}` run the same: where both set a field, what `{first}` set counts"
            );
            let remedy = "the branch that `needs` names first wins";
            diagnostics.warn(Problem::new(span, message).remedy(remedy));
            return;
        }
    }
}

/// For each node, by which one of the join's inputs alone it is reached.
fn branches(join: usize, graph: &Graph) -> Vec<Option<usize>> {
    let mut reached: Vec<Vec<usize>> = vec![Vec::new(); graph.parents.len()];
    for (branch, parent) in graph.parents[join].iter().enumerate() {
        let mut open = vec![*parent];
        while let Some(parent) = open.pop() {
            let Parent::Node(node) = parent else { continue };
            if !reached[node].contains(&branch) {
                reached[node].push(branch);
                open.extend(&graph.parents[node]);
            }
        }
    }
    let alone = |by: Vec<usize>| match by.as_slice() {
        [branch] => Some(*branch),
        _ => None,
    };
    reached.into_iter().map(alone).collect()
}

/// What a node writes, as far as two nodes of the same kind write the same.
type Work<'n> = (&'n Uses, Option<String>);

fn work(node: &FlowNode) -> Option<Work<'_>> {
    let Run::Local(run) = &node.run else {
        return None;
    };
    let passes = matches!(&run.uses, Uses::Named(name) if name == "echo");
    // A condition parts the documents, so that branches need not meet in one.
    if passes || node.calls.when.is_some() {
        return None;
    }
    Some((
        &run.uses,
        run.with.reveal().get("access_paths").map(Value::to_string),
    ))
}

fn needs_span(entry: &ExecutorSpec) -> &SourceSpan {
    let needs = entry.entry.needs.as_ref();
    needs.map_or(&entry.span, |needs| &needs.span)
}

#[cfg(test)]
mod tests;
