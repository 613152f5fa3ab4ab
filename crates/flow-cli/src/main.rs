//! The program `flow`: the only crate that reads files and the environment, prints, and exits.
//!
//! `args.rs` says what can be typed, `cmd/` holds one file for each command. What they share stands
//! beside this file: `shell.rs` (what the process was started with), `output.rs` (every byte that is
//! printed), `layout.rs`, `table.rs` and `progress.rs` (text that fits the terminal), `exit.rs` (the exit
//! codes), `log.rs`, `flow_file.rs`, `connect.rs`, `builtin.rs`, `executors.rs` (the executors that a flow file
//! can name), `folder.rs` (what an executor's path points at), `login.rs` (credentials of registries), `places.rs`
//! and `control.rs` (running flows: where, and how to talk to them).

mod args;
mod banner;
mod builtin;
mod cmd;
mod connect;
mod control;
mod executors;
mod exit;
mod flow_file;
mod folder;
mod layout;
mod log;
mod login;
mod output;
mod places;
mod progress;
mod shell;
mod table;

use std::process::ExitCode;

use crate::shell::Shell;

// Requests are many small allocations on many threads, and memory that is given back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::parse();
    let shell = Shell::new(args.log);
    match cmd::run(args.command, &shell) {
        Ok(code) => code,
        Err(error) => exit::tell(&error).into(),
    }
}
