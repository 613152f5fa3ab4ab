//! Names, and who needs whom.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use flow_core::NodeName;

use crate::graph::{Graph, Parent};
use crate::problem::{Findings, Place, Problem};
use crate::section::At;
use crate::spec::{ExecutorSpec, FlowSpec, Method};
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
        None => default_name(number, &mut taken, &mut free),
    };
    entries.iter().enumerate().map(&mut name).collect()
}

/// The entry's number as in Jina, or the next that nobody has.
fn default_name(
    number: usize,
    taken: &mut HashMap<String, Place>,
    numbered: &mut impl Iterator<Item = String>,
) -> NodeName {
    let preferred = std::iter::once(format!("executor{number}"));
    let name = preferred
        .chain(numbered)
        .find(|name| !taken.contains_key(name));
    let name = name.expect("only so many names are taken");
    let nowhere = Place {
        position: crate::problem::Position::START,
        path: String::new(),
    };
    taken.insert(name.clone(), nowhere);
    name.parse().expect("`executor` and a number is a name")
}

pub(super) fn graph(spec: &FlowSpec, names: &[NodeName], findings: &mut Findings) -> Graph {
    let connector = Connector { spec, names };
    let graph = connector.graph(findings);
    connector.report_cycles(&graph, findings);
    connector.report_floating_parents(&graph, findings);
    connector.warn_of_hanging(&graph, findings);
    graph
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
        for (number, entry) in self.spec.executors.iter().enumerate() {
            let needs = entry.needs.as_ref().filter(|needs| !needs.value.is_empty());
            parents.push(match (entry.method, needs) {
                (Method::Add, None) => vec![last],
                (Method::Add, Some(needs)) => self.parents(number, &needs.value, findings),
                (Method::NeedsAll, needs) => {
                    if let Some(needs) = needs {
                        let message = "`method: needs_all` finds by itself what it needs";
                        findings
                            .problem(Problem::new(&needs.place, message).remedy("leave one out"));
                    }
                    self.unneeded(&parents, last)
                }
            });
            if !self.floats(number) {
                last = Parent::Node(number);
            }
        }
        Graph {
            parents,
            exit: vec![last],
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
        let staying = |node: &usize| !self.floats(*node);
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
            if !awaited && !self.floats(node) {
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
