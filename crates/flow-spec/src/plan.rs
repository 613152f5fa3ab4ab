//! A checked flow in running order: what the gateway executes and the launcher starts.
//!
//! A plan never changes. Nodes are numbered from 0, parents before their children, so that the state of a request can
//! be a plain `Vec` indexed by [`NodeIdx`].

mod address;
mod placement;

pub use address::{Address, TcpAddress};
pub use placement::{NodeAddresses, Placement, UnsetVariable, metadata_reference};

use std::path::PathBuf;

use flow_core::NodeName;
use serde::{Deserialize, Serialize};

use crate::flow::graph::Parent;
use crate::flow::{Calls, Flow, FlowNode, Gateway, LocalRun, Run};

/// The index of a node in its [`Plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIdx(u16);

impl NodeIdx {
    /// The index of a `Vec` with one element for each node.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where documents come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentSource {
    /// The client.
    Gateway,
    /// This node.
    Node(NodeIdx),
}

/// The flow in running order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The flow's own name.
    pub name: Option<String>,
    /// Folder for files of the flow.
    pub workspace: Option<PathBuf>,
    /// The process that clients connect to.
    pub gateway: Gateway,
    /// Nodes, parents before their children; otherwise as written.
    pub nodes: Vec<NodePlan>,
    /// Nodes that receive the documents of the client.
    pub entry: Vec<NodeIdx>,
    /// The sources of the reply; several are joined in this order. Never empty.
    pub exit: Vec<DocumentSource>,
    /// The running flow follows changes of its file.
    pub reload: bool,
}

/// A node of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlan {
    /// Its name in the flow file.
    pub name: NodeName,
    /// Where its documents come from; several are joined in this order, the one written in `needs`.
    pub parents: Vec<DocumentSource>,
    /// Nodes that receive its documents.
    pub children: Vec<NodeIdx>,
    /// The file asks for its result to be dropped.
    pub floating: bool,
    /// The reply depends on it.
    pub awaited: bool,
    /// How it is called.
    pub calls: Calls,
    /// Who starts it.
    pub run: Run,
}

impl From<Flow> for Plan {
    fn from(flow: Flow) -> Self {
        let order = flow.graph.order();
        let indices = indices(&order);
        let awaited = flow.graph.awaited();
        let mut nodes: Vec<NodePlan> = Vec::with_capacity(order.len());
        for &node in &order {
            let parents = flow.graph.parents[node]
                .iter()
                .map(|it| source(*it, &indices))
                .collect();
            nodes.push(NodePlan::new(&flow.nodes[node], parents, awaited[node]));
        }
        let readers = |of| readers(&nodes, of);
        let children: Vec<_> = (0..)
            .map(NodeIdx)
            .take(nodes.len())
            .map(|at| readers(DocumentSource::Node(at)))
            .collect();
        let entry = readers(DocumentSource::Gateway);
        for (node, children) in nodes.iter_mut().zip(children) {
            node.children = children;
        }
        let exit = flow.graph.exit.iter();
        let exit = exit.map(|it| source(*it, &indices)).collect();
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

fn source(parent: Parent, indices: &[NodeIdx]) -> DocumentSource {
    match parent {
        Parent::Gateway => DocumentSource::Gateway,
        Parent::Node(node) => DocumentSource::Node(indices[node]),
    }
}

fn readers(nodes: &[NodePlan], of: DocumentSource) -> Vec<NodeIdx> {
    let read = |(at, node): (NodeIdx, &NodePlan)| node.parents.contains(&of).then_some(at);
    (0..).map(NodeIdx).zip(nodes).filter_map(read).collect()
}

/// The index in the plan of each node of the file.
fn indices(order: &[usize]) -> Vec<NodeIdx> {
    let mut indices = vec![NodeIdx(0); order.len()];
    for (node, index) in order.iter().zip((0..).map(NodeIdx)) {
        indices[*node] = index;
    }
    indices
}

impl NodePlan {
    fn new(node: &FlowNode, parents: Vec<DocumentSource>, awaited: bool) -> Self {
        let FlowNode {
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

    /// The executor, if it runs in the process of the gateway.
    #[must_use]
    pub fn colocated(&self) -> Option<&LocalRun> {
        match &self.run {
            Run::Local(run) => Some(&**run).filter(|run| run.colocate),
            Run::External { .. } => None,
        }
    }

    /// The executor, if the flow starts processes for it.
    #[must_use]
    pub fn with_processes(&self) -> Option<&LocalRun> {
        match &self.run {
            Run::Local(run) => Some(&**run).filter(|run| !run.colocate),
            Run::External { .. } => None,
        }
    }
}

impl Plan {
    /// The node of this index.
    ///
    /// # Panics
    /// If the index is one of another, longer plan.
    #[must_use]
    pub fn node(&self, at: NodeIdx) -> &NodePlan {
        &self.nodes[at.index()]
    }

    /// All nodes with their indices, parents before children.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIdx, &NodePlan)> {
        (0..)
            .map(NodeIdx)
            .zip(&self.nodes)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The nodes that receive documents from there.
    #[must_use]
    pub fn children_of(&self, source: DocumentSource) -> &[NodeIdx] {
        match source {
            DocumentSource::Gateway => &self.entry,
            DocumentSource::Node(at) => &self.node(at).children,
        }
    }

    /// The index of the node of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeIdx> {
        self.nodes()
            .find(|(_, node)| node.name.as_str() == name)
            .map(|(at, _)| at)
    }
}
