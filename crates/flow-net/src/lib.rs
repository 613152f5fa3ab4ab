//! Everything that touches sockets and tonic's transport, for both ends of the wire.
//!
//! Serving: [`Bound`] is a listener that already has its port, [`serve`] answers on it until a [`Drain`]
//! begins, and lets what is under way finish. Calling: a [`Pool`] holds the [`Replica`]s of a node and
//! gives the least busy one away as a [`Lease`]; [`retry`] decides whether a call may be tried again.
//! [`Client`] is the other side of a gateway. [`Exposed`] shows what a process has counted.

#![warn(missing_docs)]

mod bound;
mod budget;
mod client;
mod describe;
mod drain;
mod expose;
mod health;
mod limits;
mod pool;
mod replica;
pub mod retry;
mod serve;
mod spoken;
pub mod status;

pub use bound::{BindError, Bound};
pub use client::{Client, Compression, ConnectError, PostOptions, Replies};
pub use describe::{info, with_reflection};
pub use drain::{Drain, Draining};
pub use expose::{ExposeError, Exposed};
pub use health::Health;
pub use limits::{Limits, MESSAGE_LEN_MAX};
pub use pool::{Lease, Name, NoReplica, Pool, Traffic};
pub use replica::{BadUri, Metadata, Priority, Replica, Reply, Shards, Terms};
pub use serve::{ServeError, Stopped, serve};
