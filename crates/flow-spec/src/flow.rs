//! A checked flow.

mod advice;
mod calls;
mod check;
mod colocation;
mod connect;
mod container;
mod entry;
mod external;
mod gateway;
pub(crate) mod graph;
mod jwt;
mod local_run;
mod methods;
mod monitoring;
mod node;
mod options;
mod ports;
mod program;
mod sandbox;
mod telemetry;
mod tls;

pub use calls::Calls;
pub use check::Checked;
pub use container::Container;
pub use gateway::{
    ApiKeys, Gateway, GatewayLimits, GatewayPort, HttpOptions, ModelTarget, RequestLogging,
};
pub use jwt::{Jwt, JwtKeys};
pub use local_run::LocalRun;
pub use monitoring::Monitoring;
pub(crate) use node::FlowNode;
pub use node::Run;
pub use telemetry::{Collector, Telemetry};
pub use tls::{CallTls, CertificateFiles, ClientAuthorities, GatewayTls};

use std::path::PathBuf;

use self::graph::Graph;

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
    /// In the order of the file.
    pub(crate) nodes: Vec<FlowNode>,
    /// The graph of `nodes`, by their index.
    pub(crate) graph: Graph,
}
