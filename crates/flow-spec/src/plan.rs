//! A checked flow in running order: what the gateway walks and the launcher starts.
//!
//! A plan never changes. The state of a request is a plain `Vec` indexed by [`NodeIdx`], for nodes
//! are numbered from 0 in an order in which parents come before their children.

use std::path::PathBuf;

use flow_core::NodeName;
use serde::{Deserialize, Serialize};

use crate::flow::{self, Flow};
use crate::graph::Parent;
use crate::settings::{Calls, Gateway, Run};

/// A node's place in its [`Plan`]. Dense from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIdx(u16);

impl NodeIdx {
    /// The place as an index into a `Vec` with one element for each node.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where documents come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// What the client sent.
    Gateway,
    /// What this node made of it.
    Node(NodeIdx),
}

/// The flow in running order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The flow's own name.
    pub name: Option<String>,
    /// Folder for what the flow keeps.
    pub workspace: Option<PathBuf>,
    /// The process clients talk to.
    pub gateway: Gateway,
    /// Nodes, parents before their children; otherwise as written.
    pub nodes: Vec<NodePlan>,
    /// Nodes that read what the client sent.
    pub entry: Vec<NodeIdx>,
    /// What the reply is made of; several are joined in this order. Never empty.
    pub exit: Vec<Source>,
    /// The running flow follows changes of its file.
    pub reload: bool,
}

/// A node of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlan {
    /// Its name in the flow file.
    pub name: NodeName,
    /// Where its documents come from; several are joined in this order, the one written in `needs`.
    pub parents: Vec<Source>,
    /// Nodes that read what it makes.
    pub children: Vec<NodeIdx>,
    /// Its result is dropped, as the file asks.
    pub floating: bool,
    /// The reply depends on it.
    pub awaited: bool,
    /// How it is called.
    pub calls: Calls,
    /// Who runs it.
    pub run: Run,
}

impl From<Flow> for Plan {
    fn from(flow: Flow) -> Self {
        let order = flow.graph.order();
        let places = places(&order);
        let awaited = flow.graph.awaited();
        let mut nodes: Vec<NodePlan> = Vec::with_capacity(order.len());
        for &node in &order {
            let parents = flow.graph.parents[node]
                .iter()
                .map(|it| source(*it, &places))
                .collect();
            nodes.push(NodePlan::new(&flow.nodes[node], parents, awaited[node]));
        }
        let readers = |of| readers(&nodes, of);
        let children: Vec<_> = (0..)
            .map(NodeIdx)
            .take(nodes.len())
            .map(|at| readers(Source::Node(at)))
            .collect();
        let entry = readers(Source::Gateway);
        for (node, children) in nodes.iter_mut().zip(children) {
            node.children = children;
        }
        let exit = flow.graph.exit.iter();
        let exit = exit.map(|it| source(*it, &places)).collect();
        let Flow {
            name,
            workspace,
            gateway,
            reload,
            ..
        } = flow;
        Self {
            name,
            workspace,
            gateway,
            nodes,
            entry,
            exit,
            reload,
        }
    }
}

fn source(parent: Parent, places: &[NodeIdx]) -> Source {
    match parent {
        Parent::Gateway => Source::Gateway,
        Parent::Node(node) => Source::Node(places[node]),
    }
}

fn readers(nodes: &[NodePlan], of: Source) -> Vec<NodeIdx> {
    let read = |(at, node): (NodeIdx, &NodePlan)| node.parents.contains(&of).then_some(at);
    (0..).map(NodeIdx).zip(nodes).filter_map(read).collect()
}

/// Of each node by its place in the file, its place in the plan.
fn places(order: &[usize]) -> Vec<NodeIdx> {
    let mut places = vec![NodeIdx(0); order.len()];
    for (node, at) in order.iter().zip((0..).map(NodeIdx)) {
        places[*node] = at;
    }
    places
}

impl NodePlan {
    fn new(node: &flow::Node, parents: Vec<Source>, awaited: bool) -> Self {
        let flow::Node {
            name,
            floating,
            calls,
            run,
        } = node.clone();
        Self {
            name,
            parents,
            children: Vec::new(),
            floating,
            awaited,
            calls,
            run,
        }
    }
}

impl Plan {
    /// The node at a place of this plan.
    ///
    /// # Panics
    /// If the place is one of another, longer plan.
    #[must_use]
    pub fn node(&self, at: NodeIdx) -> &NodePlan {
        &self.nodes[at.index()]
    }

    /// All nodes with their places, parents before children.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIdx, &NodePlan)> {
        (0..)
            .map(NodeIdx)
            .zip(&self.nodes)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Who reads what comes from there.
    #[must_use]
    pub fn children_of(&self, source: Source) -> &[NodeIdx] {
        match source {
            Source::Gateway => &self.entry,
            Source::Node(at) => &self.node(at).children,
        }
    }

    /// The place of the node of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeIdx> {
        self.nodes()
            .find(|(_, node)| node.name.as_str() == name)
            .map(|(at, _)| at)
    }
}
