//! A plan becomes running processes, and stays that way.
//!
//! ```text
//! Plan ──► Post         which processes there are to be   post.rs, command.rs, rr.rs: pure
//!      ──► Child        one process, its lines, its end   child.rs, ear.rs, relay.rs, ready.rs
//!                       and its log file               journal.rs, log_line.rs
//!                       of this machine                   local.rs
//!                       or in a container                 image.rs: pure, dock.rs, volumes.rs, contained.rs
//!      ──► Keeper       starts it again when it dies      supervise.rs, backoff.rs: pure, liveness.rs
//!      ──► Crew         all of them, and where they are   crew.rs, feed.rs
//!      ──► Running      from start to stop                launcher.rs, running.rs, preparation.rs
//!
//! and while it runs: questions and orders (control.rs, home.rs, registry.rs), changes (change.rs), and a
//! look at its file (follow.rs).
//! ```
//!
//! The rules:
//! - Executors and gateway start at the same time, on ports of the kernel's choice; a line on their
//!   standard output tells the address. The gateway gets the [`Placement`](flow_spec::Placement)
//!   on its standard input as soon as every executor is ready, and another one whenever it changes.
//! - A child that ends before it was ever ready fails the start. One that ends later, or answers no more,
//!   is started again on the port it had, so nobody needs to be told.
//! - A change starts what is new before it ends what is old, and ends what is old only when the gateway
//!   says that no request follows the old placement.
//! - The end goes against the stream of requests: first the gateway finishes what is under way, then
//!   the executors.
//! - No child outlives us. We end them in order where we can; the kernel does it where we cannot,
//!   because children ask for that (`--child-of`).
//!
//! A plan also becomes files, for those who let Compose or Kubernetes run it: [`render`], pure.
//!
//! Nothing in here prints, reads the environment or knows which program it is in: paths are arguments,
//! and lines of children leave as [`Event`]s.

#![warn(missing_docs)]

mod backoff;
mod change;
mod child;
mod command;
mod contained;
mod control;
mod crew;
mod dock;
mod ear;
mod ended;
mod event;
mod feed;
mod follow;
mod home;
mod image;
mod journal;
mod launcher;
mod liveness;
mod local;
mod log_line;
mod post;
mod preparation;
mod ready;
pub mod registry;
mod relay;
pub mod render;
pub mod rr;
mod running;
mod seen;
mod supervise;
mod volumes;

pub use backoff::Restarts;
pub use child::StartError;
pub use command::Programs;
pub use control::wire;
pub use dock::Docker;
pub use ended::{Cause, Ended};
pub use event::{Event, Facts, Member};
pub use follow::{Reading, Source, Stamp};
pub use home::{Home, connect};
pub use image::BadImage;
pub use journal::{log_file, older};
pub use liveness::Liveness;
pub use log_line::{LogLine, LogSource};
pub use post::{NodeDevices, Part, Role};
pub use preparation::Preparation;
pub use running::{Failed, Launch, Running, Started};
pub use volumes::BadVolume;
