//! Executors in the process of the gateway: what they cannot have there.

use std::num::NonZeroU16;

use super::entry::EntryChecker;
use super::local_run::LocalRun;
use super::options::is_set;
use crate::diagnostics::{Diagnostics, Problem};
use crate::values::Uses;

impl EntryChecker<'_> {
    /// Refuses options of a colocated executor that only a process of its own can have, and executors that are not built in.
    pub(super) fn check_colocation(&self, run: &LocalRun, diagnostics: &mut Diagnostics) {
        if !run.colocate {
            return;
        }
        let is_built_in = match &run.uses {
            Uses::Named(name) => self.context.executors.may_be_built_in(name, &run.env),
            Uses::Path(_) | Uses::Image(_) => false,
        };
        if !is_built_in {
            let message =
                "`colocate` is for built-in executors, whose code is part of the gateway's program";
            self.refuse_with_colocate(message, "leave out `colocate`", diagnostics);
        }
        let own = &self.entry.inherited.options;
        let found = [
            (run.replicas > NonZeroU16::MIN, "replicas"),
            (run.shards > NonZeroU16::MIN, "shards"),
            (own.env.is_some(), "env"),
            (own.inherit_env.is_some(), "inherit_env"),
            (run.sandbox.is_some(), "sandbox"),
            (run.host.is_some(), "host"),
            (!run.ports.is_empty(), "port"),
        ];
        for (_, option) in found.into_iter().filter(|(is_there, _)| *is_there) {
            let message = format!("a colocated executor has no process of its own for `{option}`");
            let remedy = format!("leave out `colocate` or `{option}`");
            self.refuse_with_colocate(message, &remedy, diagnostics);
        }
    }

    /// Refuses to colocate an external executor.
    pub(super) fn refuse_colocation(&self, diagnostics: &mut Diagnostics) {
        if is_set(&self.entry.options.colocate) {
            let message =
                "`colocate` is for executors that the flow starts, and this one is external";
            self.refuse_with_colocate(message, "leave out `colocate`", diagnostics);
        }
    }

    fn refuse_with_colocate(
        &self,
        message: impl Into<String>,
        remedy: &str,
        diagnostics: &mut Diagnostics,
    ) {
        let written = self.entry.options.colocate.as_ref();
        let span = written.map_or(&self.entry.span, |written| &written.span);
        diagnostics.problem(Problem::new(span, message).remedy(remedy));
    }
}
