//! An entry of `executors` with everything that decides about its options.

use super::options::is_set;
use crate::context::Context;
use crate::spec::{ExecutorSpec, FlowSpec, InheritedSpec};

/// Turns an entry of `executors` into a node. The parts of a node are in modules of their own: `calls.rs`,
/// `local_run.rs`, `sandbox.rs`, `container.rs`, `monitoring.rs`, `external.rs` and `program.rs`.
#[derive(Clone)]
pub(super) struct EntryChecker<'s> {
    pub(super) entry: &'s ExecutorSpec,
    /// The options of the entry and, where it has none, of `with`.
    pub(super) effective: InheritedSpec,
    pub(super) context: &'s Context<'s>,
    pub(super) spec: &'s FlowSpec,
}

impl<'s> EntryChecker<'s> {
    pub(super) fn new(
        entry: &'s ExecutorSpec,
        spec: &'s FlowSpec,
        context: &'s Context<'s>,
    ) -> Self {
        Self {
            entry,
            effective: entry.inherited.or(&spec.executors_with),
            context,
            spec,
        }
    }

    pub(super) fn is_external(&self) -> bool {
        is_set(&self.effective.options.external)
    }
}
