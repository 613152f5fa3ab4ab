//! A gateway and executors as tasks of one process, over real sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

mod accepts;
mod fake;
mod house;
mod monitoring;
mod overload;
mod placements;
mod retries;
mod shards;
mod topology;
