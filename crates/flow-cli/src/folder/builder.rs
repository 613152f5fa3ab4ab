//! Runs the programs that make an executor ready to start, such as Cargo and pip.

use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// Runs programs, one at a time, until another thread stops it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Builder(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    running: Option<Pid>,
}

impl Builder {
    /// Stops the running program, and prevents further ones.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        if let Some(running) = state.running
            && let Err(error) = kill_process(running, Signal::TERM)
        {
            tracing::warn!(%error, "cannot stop the build of an executor");
        }
    }

    /// Runs a program to its end, without standard input.
    pub(super) fn output(&self, command: &mut Command) -> io::Result<Output> {
        let started = {
            let mut state = self.state();
            if state.is_stopped {
                return Err(io::Error::other("the build was stopped"));
            }
            let started = command.stdin(Stdio::null()).spawn()?;
            state.running = Some(Pid::from_child(&started));
            started
        };
        let output = started.wait_with_output();
        self.state().running = None;
        output
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
