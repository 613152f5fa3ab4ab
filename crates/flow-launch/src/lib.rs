//! A plan becomes running processes, and stays that way.
//!
//! ```text
//! Plan ──► Post         which processes there are to be   post.rs, command.rs: pure
//!      ──► Child        one process, its lines, its end   local.rs, relay.rs, ready.rs
//!      ──► Keeper       starts it again when it dies      supervise.rs, backoff.rs: pure
//!      ──► Running      all of them, from start to stop   launcher.rs, running.rs
//! ```
//!
//! The rules:
//! - Executors and gateway start at the same time, on ports of the kernel's choice; a line on their
//!   standard output tells the address. The gateway gets the [`Placement`](flow_spec::Placement)
//!   on its standard input as soon as every executor is ready.
//! - A child that ends before it was ever ready fails the start. One that ends later is started again
//!   on the port it had, so nobody needs to be told.
//! - The end goes against the stream of requests: first the gateway finishes what is under way, then
//!   the executors.
//! - No child outlives us. We end them in order where we can; the kernel does it where we cannot,
//!   because children ask for that (`--child-of`).
//!
//! Nothing in here prints, reads the environment or knows which program it is in: paths are arguments,
//! and lines of children leave as [`Event`]s.

#![warn(missing_docs)]

mod backoff;
mod command;
mod ended;
mod event;
mod launcher;
mod local;
mod post;
mod ready;
mod relay;
mod running;
mod supervise;

pub use backoff::Restarts;
pub use command::Programs;
pub use ended::{Cause, Ended};
pub use event::{Event, Facts, Member};
pub use local::StartError;
pub use post::Role;
pub use running::{Failed, Launch, Running, Started};
