//! Names, and who needs whom.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use flow_core::NodeName;

use crate::graph::{Graph, Parent};
use crate::problem::{Findings, Place, Problem};
use crate::section::At;
use crate::spec::{ExecutorSpec, FlowSpec, Inspect, Method};
use crate::suggest::closest;

/// What `needs` calls the client's own documents.
const GATEWAY: &str = "gateway";

/// The name of each entry, its own or `executorN`.
pub(super) fn names(entries: &[ExecutorSpec], findings: &mut Findings) -> Vec<NodeName> {
    let mut taken: HashMap<String, Place> = HashMap::new();
    for name in entries.iter().filter_map(|entry| entry.name.as_ref()) {
        if name.value.as_str() == GATEWAY {
            let message = "`gateway` is the name of the gateway; an executor needs another";
            findings.problem(Problem::new(&name.place, message));
        }
        if let Some(first) = taken.get(name.value.as_str()) {
            let line = first.position.line;
            let message = format!(
                "`{}` is the name of the executor at line {line} too",
                name.value
            );
            findings.problem(Problem::new(&name.place, message).remedy("give it another name"));
        } else {
            taken.insert(name.value.to_string(), name.place.clone());
        }
    }
    let mut free = (0..).map(|number: usize| format!("executor{number}"));
    let mut name = |(number, entry): (usize, &ExecutorSpec)| match &entry.name {
        Some(name) => name.value.clone(),
        None => default_name(entry.method, number, &mut taken, &mut free),
    };
    entries.iter().enumerate().map(&mut name).collect()
}

/// The method's name for it, the entry's number, or the next that nobody has; all as in Jina.
fn default_name(
    method: Method,
    number: usize,
    taken: &mut HashMap<String, Place>,
    numbered: &mut impl Iterator<Item = String>,
) -> NodeName {
    let by_method = match method {
        Method::Add => None,
        Method::NeedsAll => Some("joiner".to_owned()),
        Method::Inspect => Some("inspect".to_owned()),
        Method::GatherInspect => Some("gather_inspect".to_owned()),
    };
    let preferred = std::iter::once(format!("executor{number}"));
    let name = by_method
        .into_iter()
        .chain(preferred)
        .chain(numbered)
        .find(|name| !taken.contains_key(name));
    let name = name.expect("only so many names are taken");
    let nowhere = Place::new(crate::problem::Position::START, "");
    taken.insert(name.clone(), nowhere);
    name.parse().expect("a word and a number is a name")
}

/// Takes inspections out of the flow, if the file says that it wants none.
pub(super) fn leave_out_inspections(spec: &mut FlowSpec, findings: &mut Findings) {
    if mode(spec) != Inspect::Remove {
        return;
    }
    let (left_out, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut spec.executors)
        .into_iter()
        .partition(|entry| entry.method.inspects());
    spec.executors = kept;
    let names: HashSet<&str> = left_out
        .iter()
        .filter_map(|entry| Some(entry.name.as_ref()?.value.as_str()))
        .collect();
    for need in spec.executors.iter_mut().flat_map(|it| &mut it.needs) {
        for gone in need
            .value
            .extract_if(.., |need| names.contains(need.value.as_str()))
        {
            let message = format!("`{}` is left out, as `inspect: REMOVE` asks", gone.value);
            findings.problem(Problem::new(&gone.place, message).remedy("do not need it"));
        }
    }
}

/// What becomes of inspections.
fn mode(spec: &FlowSpec) -> Inspect {
    spec.inspect
        .as_ref()
        .map_or(Inspect::default(), |it| it.value)
}

pub(super) fn graph(spec: &FlowSpec, names: &[NodeName], findings: &mut Findings) -> Graph {
    let connector = Connector { spec, names };
    let graph = connector.graph(findings);
    connector.report_cycles(&graph, findings);
    connector.report_floating_parents(&graph, findings);
    connector.warn_of_hanging(&graph, findings);
    graph
}

fn finds_by_itself(method: Method, needs: &Place) -> Problem {
    let method = match method {
        Method::GatherInspect => "gather_inspect",
        Method::Add | Method::NeedsAll | Method::Inspect => "needs_all",
    };
    let message = format!("`method: {method}` finds by itself what it needs");
    Problem::new(needs, message).remedy("leave one out")
}

struct Connector<'s> {
    spec: &'s FlowSpec,
    names: &'s [NodeName],
}

impl Connector<'_> {
    fn graph(&self, findings: &mut Findings) -> Graph {
        let mut parents: Vec<Vec<Parent>> = Vec::new();
        // What the next entry follows if it does not say: the last one that does not float.
        let mut last = Parent::Gateway;
        // Inspections that nobody has gathered so far.
        let mut inspected = Vec::new();
        for (number, entry) in self.spec.executors.iter().enumerate() {
            let needs = entry.needs.as_ref().filter(|needs| !needs.value.is_empty());
            let method = entry.method;
            if let (Method::NeedsAll | Method::GatherInspect, Some(needs)) = (method, needs) {
                findings.problem(finds_by_itself(method, &needs.place));
            }
            parents.push(match (method, needs) {
                (Method::Add | Method::Inspect, Some(needs)) => {
                    self.parents(number, &needs.value, findings)
                }
                (Method::Add | Method::Inspect, None) => vec![last],
                (Method::NeedsAll, _) => self.unneeded(&parents, last),
                (Method::GatherInspect, _) => {
                    if inspected.is_empty() {
                        let message = "there is no `method: inspect` before it to gather";
                        findings.warn(Problem::new(&entry.place, message));
                    }
                    [last].into_iter().chain(inspected.drain(..)).collect()
                }
            });
            match method {
                _ if self.floats(number) => {}
                Method::Inspect => inspected.push(Parent::Node(number)),
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
    fn parents(&self, of: usize, needs: &[At<String>], findings: &mut Findings) -> Vec<Parent> {
        let mut parents = Vec::new();
        for need in needs {
            let Some(parent) = self.find(&need.value) else {
                findings.problem(self.unknown(need));
                continue;
            };
            if parent == Parent::Node(of) {
                findings.problem(Problem::new(&need.place, "an executor cannot need itself"));
            } else if parents.contains(&parent) {
                let message = format!("`{}` is needed already; once is enough", need.value);
                findings.warn(Problem::new(&need.place, message));
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

    fn unknown(&self, need: &At<String>) -> Problem {
        let message = format!("no executor is named `{}`", need.value);
        let known = self.names.iter().map(NodeName::as_str).chain([GATEWAY]);
        Problem::new(&need.place, message).suggest(closest(&need.value, known))
    }

    /// Nodes so far that do not float and that no such node reads from.
    fn unneeded(&self, parents: &[Vec<Parent>], last: Parent) -> Vec<Parent> {
        let inspects = |node: usize| self.spec.executors[node].method == Method::Inspect;
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
        let (own, with) = (&self.spec.executors[node].options, &self.spec.for_executors);
        super::own_or(own, with, |it| it.floating.as_ref()) == Some(true)
    }

    fn report_cycles(&self, graph: &Graph, findings: &mut Findings) {
        for cycle in graph.cycles() {
            let mut message = "executors need each other in a circle: ".to_owned();
            for node in &cycle {
                // Writing to a text cannot fail.
                write!(message, "`{}` → ", self.names[*node]).expect("a text takes all");
            }
            message += &format!("`{}`", self.names[cycle[0]]);
            findings.problem(Problem::new(self.needs_place(cycle[0]), message));
        }
    }

    /// A floating node's result is dropped, so only a node that floats too may want it.
    fn report_floating_parents(&self, graph: &Graph, findings: &mut Findings) {
        for (node, parents) in graph.parents.iter().enumerate() {
            let mut parents = parents.iter().filter_map(|parent| parent.node());
            let floating = parents.find(|parent| self.floats(*parent));
            if let Some(parent) = floating.filter(|_| !self.floats(node)) {
                let message = format!(
                    "`{}` is floating, so its result is dropped",
                    self.names[parent]
                );
                let problem = Problem::new(self.needs_place(node), message);
                findings.problem(problem.remedy("do not need it, or take `floating` away"));
            }
        }
    }

    fn warn_of_hanging(&self, graph: &Graph, findings: &mut Findings) {
        for (node, awaited) in graph.awaited().into_iter().enumerate() {
            let inspects = self.spec.executors[node].method == Method::Inspect;
            if !awaited && !self.floats(node) && !inspects {
                let message = format!(
                    "nobody waits for `{}`: it runs, and its result is dropped",
                    self.names[node]
                );
                let warning = Problem::new(&self.spec.executors[node].place, message);
                findings
                    .warn(warning.remedy("let a later executor need it, or say `floating: true`"));
            }
        }
    }

    fn needs_place(&self, node: usize) -> &Place {
        let entry = &self.spec.executors[node];
        entry
            .needs
            .as_ref()
            .map_or(&entry.place, |needs| &needs.place)
    }
}
