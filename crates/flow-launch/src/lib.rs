//! Turns a plan into running processes, and keeps them running.
//!
//! Read the folders in this order:
//!
//! ```text
//! spec/        which processes a plan needs, and how each is started: pure
//! process/     one child: its start, its ready line, its output, its exit
//!              backend.rs is the seam: processes, containers, or fakes in tests
//! docker/      the children that are containers
//! logs/        lines of children: to the event channel and to the log files, never waiting
//! supervisor/  restarts, health checks, placements, start-up and shutdown of a flow
//! change/      scale, restart and reload of a running flow
//! state/       the state directory of a running flow, and the list of running flows
//! control/     the control socket: `flow ps`, `flow scale`, `flow down`, …
//! launch.rs    the API: `Launch` starts all of it on a thread of its own
//! render/      a plan as files for Docker Compose, Docker Swarm and Kubernetes: pure
//! ```
//!
//! The rules:
//! - Executors and the gateway start at the same time, at Unix sockets or on ports that the kernel chooses. Each reports its
//!   address in a line on its standard output. The gateway reads the [`Placement`](flow_spec::Placement) from its standard input
//!   as soon as every executor is ready, and another one after every change.
//! - A child that exits before it was ever ready fails the start. A child that exits later, or stops answering health
//!   checks, is restarted at the address that it had, so no other process needs to know.
//! - A change starts new processes before it stops old ones. It stops old ones when the gateway reports that no
//!   request uses the old placement any more.
//! - Shutdown runs against the direction of requests: the gateway drains first, then the executors.
//! - No child outlives this process. The supervisor stops children where it can; otherwise the kernel does, because
//!   children ask for that (`--parent-pid`).
//! - The supervisor's thread never blocks: what may block runs on other threads, and every wait for a Docker engine
//!   has a time limit or ends with the shutdown.
//! - Lines of children never make a child wait. Where they cannot be written fast enough, they are dropped and counted.
//!
//! Nothing in this crate prints, reads the environment or knows which program it runs in. Paths are arguments, and
//! lines of children leave as [`FlowEvent`]s.

#![warn(missing_docs)]

mod change;
mod control;
mod docker;
mod event;
mod launch;
mod logs;
mod process;
pub mod render;
mod spec;
mod state;
mod supervisor;

pub use change::source::{FileStamp, PlanReading, PlanSource};
pub use control::protocol;
pub use docker::context::DockerOptions;
pub use docker::volumes::VolumeError;
pub use event::{
    EventReceiver, EventSender, Facts, FlowEvent, ReadyProcess, event_channel, send_log_line,
};
pub use launch::{Launch, RunningFlow, StartedFlow};
pub use logs::lines::{LastLines, Lines};
pub use logs::log_files::{log_file, rotated_log_file};
pub use logs::log_line::{LogLine, LogSource};
pub use process::error::ProcessStartError;
pub use process::exit_status::{ExitCause, ProcessExit};
pub use spec::container::ImageError;
pub use spec::environment::Environment;
pub use spec::invocation::{BuiltIn, Programs};
pub use spec::process_spec::NodeDevicesError;
pub use spec::role::{NodePart, Role};
pub use spec::round_robin;
pub use state::directory::{StateDirectory, connect};
pub use state::registry;
pub use state::status_sockets::status_socket;
pub use supervisor::backoff::RestartPolicy;
pub use supervisor::error::LaunchError;
pub use supervisor::liveness::LivenessProbe;
pub use supervisor::preparation::Preparation;
