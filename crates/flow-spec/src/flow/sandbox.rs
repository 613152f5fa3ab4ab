//! The sandbox of a node's processes: which processes can have one, and what it excludes.

use super::entry::EntryChecker;
use super::local_run::LocalRun;
use super::options::value;
use crate::diagnostics::{Diagnostics, Problem};
use crate::values::{Sandbox, Uses};

impl EntryChecker<'_> {
    /// The sandbox of the node's processes; `None` if it limits nothing.
    pub(super) fn sandbox(&self) -> Option<Sandbox> {
        value(&self.effective.options.sandbox).filter(|it| !it.is_empty())
    }

    /// Refuses a sandbox that the processes cannot have, or could not serve in. What was ignored would look like
    /// protection.
    pub(super) fn check_sandbox(&self, run: &LocalRun, diagnostics: &mut Diagnostics) {
        let (Some(sandbox), Some(written)) = (run.sandbox, &self.effective.options.sandbox) else {
            return;
        };
        let mut programs = [Some(&run.uses), run.before.as_ref(), run.after.as_ref()]
            .into_iter()
            .flatten();
        let found = if programs.any(|uses| matches!(uses, Uses::Image(_))) {
            Some((
                "`sandbox` is for processes of this machine, and this executor runs in a container"
                    .to_owned(),
                "limit the container with `docker_kwargs`, such as `{mem_limit: 2g, nano_cpus: 1500000000, read_only: \
                 true}`, and write `sandbox: {}` here if `with` has a sandbox",
            ))
        } else {
            port_of(run)
                .filter(|_| sandbox.no_network)
                .map(|(what, remedy)| {
                    let message = format!("`no_network` allows Unix sockets only, and {what}");
                    (message, remedy)
                })
        };
        if let Some((message, remedy)) = found {
            diagnostics.problem(Problem::new(&written.span, message).remedy(remedy));
        }
        let has_own = self.entry.inherited.options.workspace.is_some();
        if sandbox.read_only && run.workspace.is_some() && !has_own {
            let message = "`read_only` leaves the `workspace` writable, and this is that of the whole flow, with the flow's own \
                state and the files of other executors";
            let problem = Problem::new(&written.span, message);
            diagnostics.warn(problem.remedy("give the executor a `workspace` of its own"));
        }
    }

    /// Refuses a sandbox of an external executor. One that is inherited from `with` is for the others.
    pub(super) fn refuse_sandbox(&self, diagnostics: &mut Diagnostics) {
        let own = self.entry.inherited.options.sandbox.as_ref();
        if let Some(own) = own.filter(|it| !it.value.is_empty()) {
            let message =
                "`sandbox` is for processes that the flow starts, and this executor is external";
            let remedy = "limit it where it is started";
            diagnostics.problem(Problem::new(&own.span, message).remedy(remedy));
        }
    }
}

/// Why the processes need the network for their own work in the flow, and what to do about it.
fn port_of(run: &LocalRun) -> Option<(&'static str, &'static str)> {
    if !run.ports.is_empty() || run.host.is_some() {
        let remedy = "leave out `port` and `host`: the gateway then reaches the executor through a Unix socket";
        return Some(("this executor listens at a port", remedy));
    }
    if run.monitoring.is_some() {
        let remedy =
            "write `monitoring: false` for this executor; the gateway's metrics count its calls";
        return Some(("its metrics are served at a port", remedy));
    }
    if !run.telemetry.is_none() {
        let remedy = "write `tracing: false` and `metrics: false` for this executor";
        return Some(("it exports to a collector of OpenTelemetry", remedy));
    }
    None
}
