//! The program `flow`: the only crate that reads files and the environment, prints, and exits.
//!
//! `args.rs` defines the command line, and `cmd/` has a file for each command. The files beside this one are shared by
//! commands:
//!
//! | files | subject |
//! |---|---|
//! | `shell.rs`, `log.rs`, `exit.rs`, `runtime.rs` | environment, logging, exit codes, asynchronous commands |
//! | `output.rs`, `escape.rs`, `layout.rs`, `table.rs`, `progress.rs` | everything that is printed |
//! | `flow_file.rs`, `builtin.rs`, `executors.rs`, `folder.rs` | flow files and the executors that they name |
//! | `resolve.rs`, `paths.rs` | programs and folders of a plan on this machine |
//! | `connect.rs`, `docker_config.rs` | connections and credentials |
//! | `timing.rs` | where the time of requests went |
//! | `port_owner.rs` | who listens on a port |
//! | `count.rs` | values of options that count something |
//!
//! Cargo features leave out commands whose dependencies are heavy: see `Cargo.toml`.
#![cfg_attr(
    not(feature = "launch"),
    allow(
        dead_code,
        reason = "some shared functions serve only commands such as `flow up`"
    )
)]

mod args;
mod builtin;
mod cmd;
mod connect;
mod count;
mod credentials;
#[cfg(feature = "launch")]
mod docker_config;
mod error_report;
mod escape;
mod executors;
mod exit;
mod flow_file;
mod folder;
mod layout;
mod log;
mod output;
mod paths;
#[cfg(feature = "launch")]
mod port_owner;
mod progress;
mod resolve;
mod runtime;
mod shell;
mod table;
mod timing;
mod version;

use std::process::ExitCode;

use crate::shell::Shell;

// Requests are many small allocations on many threads, and idle memory goes back to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::parse();
    let shell = Shell::new(args.log);
    let outcome = shell.and_then(|shell| cmd::run(args.command, args::command(), &shell));
    flow_process::flush_log();
    outcome.unwrap_or_else(|error| error_report::report(&error).into())
}
