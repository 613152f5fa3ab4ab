//! Where the time of requests went, from the routes of their replies: `flow trace` draws it for one request, and
//! `flow post --timing` sums it up over many.
//!
//! ```text
//! hops.rs       routes → hops                    pure
//! waterfall.rs  hops of one request → text       pure
//! summary.rs    hops of many requests → table    pure
//! ```
//!
//! Gateways and executors of flow add a route for each stage of their time to a reply if the metadata of the request asks for
//! it ([`asking`]). Others ignore that, and their replies have the times of the nodes only.

mod histogram;
mod hops;
mod summary;
mod waterfall;

use flow_net::Metadata;
use flow_net::grpc::metadata::TIMING;

pub(crate) use self::hops::{Hop, Sent, hops};
pub(crate) use self::summary::HopSummary;
pub(crate) use self::waterfall::waterfall;

/// The metadata that asks for times.
pub(crate) fn asking() -> Metadata {
    let entry = [(TIMING.as_str().to_owned(), "1".to_owned())];
    Metadata::parse(&entry).unwrap_or_default()
}
