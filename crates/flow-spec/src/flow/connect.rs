//! The names of nodes, and the graph that they form.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use flow_core::{NodeName, closest};

use super::entry::EntryChecker;
use super::graph::{Graph, Parent};
use super::options::{is_set, or_default};
use crate::diagnostics::{Diagnostics, Position, Problem, SourceSpan, Spanned};
use crate::spec::{ExecutorSpec, FlowSpec};
use crate::values::{ConnectMethod, Inspect};

/// The name of the client's documents in `needs`.
const GATEWAY: &str = "gateway";

/// The name of each entry: its own, made unique, or `executorN`.
pub(super) fn names(entries: &[ExecutorSpec], diagnostics: &mut Diagnostics) -> Vec<NodeName> {
    let mut taken: HashMap<String, SourceSpan> = HashMap::new();
    let own: Vec<Option<NodeName>> = entries
        .iter()
        .enumerate()
        .map(|(number, entry)| {
            let name = entry.entry.name.as_ref()?;
            Some(own_name(name, number, &mut taken, diagnostics))
        })
        .collect();
    let mut free = (0..).map(|number: usize| format!("executor{number}"));
    let entries = entries.iter().zip(own).enumerate();
    let name = |(number, (entry, own)): (usize, (&ExecutorSpec, Option<NodeName>))| match own {
        Some(name) => name,
        None => default_name(entry.method(), number, &mut taken, &mut free),
    };
    entries.map(name).collect()
}

/// The name as written or, if an earlier entry has it, with the number of entries before this one, as in Jina.
fn own_name(
    name: &Spanned<NodeName>,
    number: usize,
    taken: &mut HashMap<String, SourceSpan>,
    diagnostics: &mut Diagnostics,
) -> NodeName {
    let written = name.value.as_str();
    if written == GATEWAY {
        let message = "`gateway` is the name of the gateway; an executor needs another";
        diagnostics.problem(Problem::new(&name.span, message));
    }
    let Some(first) = taken.get(written) else {
        taken.insert(written.to_owned(), name.span.clone());
        return name.value.clone();
    };
    let line = first.position.line;
    let numbered = (number..).map(|number| format!("{written}{number}"));
    let unique = numbered.filter_map(|it| it.parse().ok());
    let mut free = unique.filter(|it: &NodeName| !taken.contains_key(it.as_str()));
    let Some(unique) = free.next() else {
        return name.value.clone();
    };
    let message = format!(
        "`{written}` is the name of the executor at line {line} too, so this one is called `{unique}`"
    );
    diagnostics.warn(Problem::new(&name.span, message).remedy("give it another name"));
    taken.insert(unique.to_string(), name.span.clone());
    unique
}

/// A name after the method, or `executor` with the entry's number or the next free one, as in Jina.
fn default_name(
    method: ConnectMethod,
    number: usize,
    taken: &mut HashMap<String, SourceSpan>,
    numbered: &mut impl Iterator<Item = String>,
) -> NodeName {
    let by_method = match method {
        ConnectMethod::Add => None,
        ConnectMethod::NeedsAll => Some("joiner".to_owned()),
        ConnectMethod::Inspect => Some("inspect".to_owned()),
        ConnectMethod::GatherInspect => Some("gather_inspect".to_owned()),
    };
    let preferred = std::iter::once(format!("executor{number}"));
    let name = by_method
        .into_iter()
        .chain(preferred)
        .chain(numbered)
        .find(|name| !taken.contains_key(name));
    let name = name.expect("there are more names than executors");
    let nowhere = SourceSpan::new(Position::START, "");
    taken.insert(name.clone(), nowhere);
    name.parse().expect("a word and a number is a name")
}

/// Takes inspections out of the flow, if the file says that it wants none.
pub(super) fn leave_out_inspections(spec: &mut FlowSpec, diagnostics: &mut Diagnostics) {
    if mode(spec) != Inspect::Remove {
        return;
    }
    let (left_out, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut spec.executors)
        .into_iter()
        .partition(|entry| entry.method().inspects());
    spec.executors = kept;
    let names: HashSet<&str> = left_out
        .iter()
        .filter_map(|entry| Some(entry.entry.name.as_ref()?.value.as_str()))
        .collect();
    for need in spec.executors.iter_mut().flat_map(|it| &mut it.entry.needs) {
        for gone in need
            .value
            .extract_if(.., |need| names.contains(need.value.as_str()))
        {
            let message = format!("`{}` is left out, as `inspect: REMOVE` asks", gone.value);
            diagnostics.problem(Problem::new(&gone.span, message).remedy("do not need it"));
        }
    }
}

/// How inspections are handled.
fn mode(spec: &FlowSpec) -> Inspect {
    or_default(&spec.options.inspect)
}

pub(super) fn graph(
    entries: &[EntryChecker<'_>],
    spec: &FlowSpec,
    names: &[NodeName],
    diagnostics: &mut Diagnostics,
) -> Graph {
    let connector = Connector {
        entries,
        spec,
        names,
    };
    let graph = connector.graph(diagnostics);
    connector.report_cycles(&graph, diagnostics);
    connector.report_floating_parents(&graph, diagnostics);
    connector.warn_of_hanging(&graph, diagnostics);
    graph
}

fn finds_by_itself(method: ConnectMethod, needs: &SourceSpan) -> Problem {
    let method = match method {
        ConnectMethod::GatherInspect => "gather_inspect",
        ConnectMethod::Add | ConnectMethod::NeedsAll | ConnectMethod::Inspect => "needs_all",
    };
    let message = format!("`method: {method}` finds by itself what it needs");
    Problem::new(needs, message).remedy("leave one out")
}

struct Connector<'s> {
    entries: &'s [EntryChecker<'s>],
    spec: &'s FlowSpec,
    names: &'s [NodeName],
}

impl Connector<'_> {
    fn graph(&self, diagnostics: &mut Diagnostics) -> Graph {
        let mut parents: Vec<Vec<Parent>> = Vec::new();
        // What the next entry follows if it does not say: the last one that does not float.
        let mut last = Parent::Gateway;
        // Inspections that were not gathered so far.
        let mut inspected = Vec::new();
        for (number, entry) in self.spec.executors.iter().enumerate() {
            let needs = entry
                .entry
                .needs
                .as_ref()
                .filter(|needs| !needs.value.is_empty());
            let method = entry.method();
            if let (ConnectMethod::NeedsAll | ConnectMethod::GatherInspect, Some(needs)) =
                (method, needs)
            {
                diagnostics.problem(finds_by_itself(method, &needs.span));
            }
            parents.push(match (method, needs) {
                (ConnectMethod::Add | ConnectMethod::Inspect, Some(needs)) => {
                    self.parents(number, &needs.value, diagnostics)
                }
                (ConnectMethod::Add | ConnectMethod::Inspect, None) => vec![last],
                (ConnectMethod::NeedsAll, _) => self.unneeded(&parents, last),
                (ConnectMethod::GatherInspect, _) => {
                    if inspected.is_empty() {
                        let message = "there is no `method: inspect` before it to gather";
                        diagnostics.warn(Problem::new(&entry.span, message));
                    }
                    [last].into_iter().chain(inspected.drain(..)).collect()
                }
            });
            match method {
                _ if self.floats(number) => {}
                ConnectMethod::Inspect => inspected.push(Parent::Node(number)),
                _ => last = Parent::Node(number),
            }
        }
        let gathered = if mode(self.spec) == Inspect::Collect {
            inspected
        } else {
            Vec::new()
        };
        Graph {
            parents,
            exit: [last].into_iter().chain(gathered).collect(),
        }
    }

    /// What is written in `needs`, as far as it can be met.
    fn parents(
        &self,
        of: usize,
        needs: &[Spanned<String>],
        diagnostics: &mut Diagnostics,
    ) -> Vec<Parent> {
        let mut parents = Vec::new();
        for need in needs {
            let Some(parent) = self.find(&need.value) else {
                diagnostics.problem(self.unknown(need));
                continue;
            };
            if parent == Parent::Node(of) {
                diagnostics.problem(Problem::new(&need.span, "an executor cannot need itself"));
            } else if parents.contains(&parent) {
                let message = format!("`{}` is needed already; once is enough", need.value);
                diagnostics.warn(Problem::new(&need.span, message));
            } else {
                parents.push(parent);
            }
        }
        parents
    }

    fn find(&self, name: &str) -> Option<Parent> {
        if name == GATEWAY {
            return Some(Parent::Gateway);
        }
        self.names
            .iter()
            .position(|it| it.as_str() == name)
            .map(Parent::Node)
    }

    fn unknown(&self, need: &Spanned<String>) -> Problem {
        let message = format!("no executor is named `{}`", need.value);
        let known = self.names.iter().map(NodeName::as_str).chain([GATEWAY]);
        Problem::new(&need.span, message).suggest(closest(&need.value, known))
    }

    /// Nodes so far that do not float and that no such node reads from.
    fn unneeded(&self, parents: &[Vec<Parent>], last: Parent) -> Vec<Parent> {
        let inspects = |node: usize| self.spec.executors[node].method() == ConnectMethod::Inspect;
        let staying = |node: &usize| !self.floats(*node) && !inspects(*node);
        let needed: HashSet<usize> = (0..parents.len())
            .filter(staying)
            .flat_map(|node| &parents[node])
            .filter_map(|parent| parent.node())
            .collect();
        let unneeded = (0..parents.len())
            .filter(staying)
            .filter(|node| !needed.contains(node));
        let unneeded: Vec<_> = unneeded.map(Parent::Node).collect();
        if unneeded.is_empty() {
            vec![last]
        } else {
            unneeded
        }
    }

    fn floats(&self, node: usize) -> bool {
        is_set(&self.entries[node].effective.options.floating)
    }

    fn report_cycles(&self, graph: &Graph, diagnostics: &mut Diagnostics) {
        for cycle in graph.cycles() {
            let mut message = "executors need each other in a cycle: ".to_owned();
            for node in &cycle {
                // Writing to a text cannot fail.
                write!(message, "`{}` → ", self.names[*node])
                    .expect("writing to a String cannot fail");
            }
            message += &format!("`{}`", self.names[cycle[0]]);
            diagnostics.problem(Problem::new(self.needs_span(cycle[0]), message));
        }
    }

    /// A floating node's result is dropped, so only a node that floats too may want it.
    fn report_floating_parents(&self, graph: &Graph, diagnostics: &mut Diagnostics) {
        for (node, parents) in graph.parents.iter().enumerate() {
            let mut parents = parents.iter().filter_map(|parent| parent.node());
            let floating = parents.find(|parent| self.floats(*parent));
            if let Some(parent) = floating.filter(|_| !self.floats(node)) {
                let message = format!(
                    "`{}` is floating, so its result is dropped",
                    self.names[parent]
                );
                let problem = Problem::new(self.needs_span(node), message);
                diagnostics.problem(problem.remedy("do not need it, or take `floating` away"));
            }
        }
    }

    fn warn_of_hanging(&self, graph: &Graph, diagnostics: &mut Diagnostics) {
        for (node, awaited) in graph.awaited().into_iter().enumerate() {
            let inspects = self.spec.executors[node].method() == ConnectMethod::Inspect;
            if !awaited && !self.floats(node) && !inspects {
                let message = format!(
                    "no node needs `{}`: it runs, and its result is dropped",
                    self.names[node]
                );
                let warning = Problem::new(&self.spec.executors[node].span, message);
                diagnostics
                    .warn(warning.remedy("let a later executor need it, or say `floating: true`"));
            }
        }
    }

    fn needs_span(&self, node: usize) -> &SourceSpan {
        let entry = &self.spec.executors[node];
        let needs = entry.entry.needs.as_ref();
        needs.map_or(&entry.span, |needs| &needs.span)
    }
}
