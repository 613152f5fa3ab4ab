//! A flow of which everything is true that a plan needs.

use std::path::PathBuf;

use flow_core::NodeName;

use crate::graph::Graph;
use crate::settings::{Calls, Gateway, Run};

/// A checked flow: it can only be made by [`Flow::check`], and always becomes a
/// [`Plan`](crate::Plan).
///
/// Names are unique, every need is met, there is no cycle, and every option has its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub(crate) name: Option<String>,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) gateway: Gateway,
    pub(crate) reload: bool,
    /// As written.
    pub(crate) nodes: Vec<Node>,
    /// Over `nodes`, by their place in it.
    pub(crate) graph: Graph,
}

/// An executor's place in a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) floating: bool,
    pub(crate) calls: Calls,
    pub(crate) run: Run,
}
