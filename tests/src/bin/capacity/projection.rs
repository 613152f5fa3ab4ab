//! Simulates clusters that are larger than anything measured, with the costs of this machine.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::cluster::{Outcome, Shape, simulate};
use crate::costs::Costs;
use crate::traffic::{Calls, Sizes, Traffic, float};

/// Nodes with one executor each.
const NODES: usize = 100;

/// Threads of a gateway, on a node of its own like that of an executor.
const GATEWAY_THREADS: usize = 2;

/// Bytes that a network of 10 Gbit/s moves in a second.
const TEN_GBIT: f64 = 1.25e9;

/// Documents that callers have under way for each executor, so that it is never idle.
const UNDER_WAY: usize = 64;

/// The part of the largest throughput at which response times are simulated.
const USED: f64 = 0.7;

const LENGTH: Duration = Duration::from_secs(4);

/// A cluster, and what it does.
#[derive(Debug)]
pub(crate) struct Projection {
    pub(crate) documents: usize,
    pub(crate) gateways: usize,
    pub(crate) network: &'static str,
    /// With as many callers as it can serve.
    pub(crate) full: Outcome,
    /// With requests that arrive by chance, at [`USED`] of what it can do.
    pub(crate) used: Outcome,
}

/// Clusters with more and more gateways, for requests of one document and of 32.
pub(crate) fn project(runtime: &Runtime, costs: &Costs) -> Vec<Projection> {
    let mut projections = Vec::new();
    for (documents, gateways) in [(1, &[1, 2, 4, 8, 16, 32][..]), (32, &[1, 2, 4])] {
        for &gateways in gateways {
            let networks = [("10 Gbit/s", TEN_GBIT), ("1 Gbit/s", TEN_GBIT / 10.0)];
            for (network, rate) in networks {
                let shape = Shape {
                    gateways,
                    gateway_threads: GATEWAY_THREADS,
                    executors: NODES,
                    gateway_bytes_per_s: Some(rate),
                };
                let of = |calls| {
                    let traffic = Traffic {
                        calls,
                        sizes: Sizes::of(documents),
                        length: LENGTH,
                    };
                    runtime.block_on(async { simulate(shape, costs, traffic, 3) })
                };
                let callers = NODES * UNDER_WAY.div_ceil(documents);
                let full = of(Calls::Callers(callers));
                let used = of(Calls::PerSecond(full.seen.requests_per_s * USED));
                projections.push(Projection {
                    documents,
                    gateways,
                    network,
                    full,
                    used,
                });
            }
        }
    }
    projections
}

impl Projection {
    /// What limits the throughput.
    pub(crate) fn bottleneck(&self) -> &'static str {
        let full = &self.full;
        let parts = [
            ("executors", full.executors_busy),
            ("CPUs of gateways", full.gateways_busy),
            ("network of gateways", full.networks_busy),
        ];
        let busiest = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        busiest.map_or("", |(name, _)| name)
    }

    /// The time of a node for a million documents, in hours: gateways count as nodes.
    pub(crate) fn node_hours(&self) -> f64 {
        let nodes = float(NODES + self.gateways);
        nodes * 1e6 / self.full.seen.documents_per_s / 3600.0
    }
}
