//! Simulates clusters that are larger than anything measured, with the costs of this machine.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::cluster::{Outcome, Shape, simulate};
use crate::costs::Costs;
use crate::traffic::{Calls, Sizes, Traffic, float};

/// Nodes with one executor each.
const NODES: usize = 100;

/// Bytes that a network of 10 Gbit/s moves in a second.
const TEN_GBIT: f64 = 1.25e9;

/// Documents and requests that callers have under way for each executor, at least, so that it is rarely idle.
const DOCUMENTS: usize = 64;
const REQUESTS: usize = 16;

/// The part of the largest throughput at which response times are simulated.
const PART: f64 = 0.7;

const LENGTH: Duration = Duration::from_secs(4);

/// A cluster, and what it does.
#[derive(Debug)]
pub(crate) struct Projection {
    pub(crate) documents: usize,
    pub(crate) gateways: usize,
    pub(crate) network: &'static str,
    /// With as many callers as it can serve.
    pub(crate) full: Outcome,
    /// With Poisson arrivals, at [`PART`] of what it can do.
    pub(crate) at_part: Outcome,
}

/// Clusters with more and more gateways, for requests of one document and of 32.
/// A gateway has a node of its own, with as many threads.
pub(crate) fn project(runtime: &Runtime, costs: &Costs, threads: usize) -> Vec<Projection> {
    let mut projections = Vec::new();
    for (documents, gateways) in [(1, &[1, 2, 4, 8, 16, 32][..]), (32, &[1, 2, 4])] {
        for &gateways in gateways {
            let networks = [("10 Gbit/s", TEN_GBIT), ("1 Gbit/s", TEN_GBIT / 10.0)];
            for (network, rate) in networks {
                let shape = Shape {
                    gateways,
                    gateway_threads: threads,
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
                let callers = NODES * DOCUMENTS.div_ceil(documents).max(REQUESTS);
                let full = of(Calls::Callers(callers));
                let at_part = of(Calls::PerSecond(full.seen.requests_per_s * PART));
                projections.push(Projection {
                    documents,
                    gateways,
                    network,
                    full,
                    at_part,
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
