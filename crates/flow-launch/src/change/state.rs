//! Refuses changes that would separate an executor from its stored state.

use std::num::NonZeroU16;

use flow_process::KeepsState;
use flow_spec::{LocalRun, Plan, Run};

use super::{ChangeError, FlowChange};
use crate::spec::role::Role;

impl FlowChange<'_> {
    /// Fails if a plan changes the number of processes of an executor with state. Each process has its own part of it.
    pub(super) fn check_state(&self, plan: &Plan) -> Result<(), ChangeError> {
        let present = self.supervisor.plan();
        for (name, run) in local_runs(plan) {
            let mut before = local_runs(&present).filter(|(node, _)| *node == name);
            let differs = |it: &LocalRun| it.uses == run.uses && numbers(it) != numbers(run);
            if before.any(|(_, before)| differs(before)) && self.has_state(name) {
                return Err(ChangeError::State {
                    node: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Says that the restart of a process loses what it keeps in memory.
    pub(super) fn warn_of_lost_state(&self, role: &Role) {
        let executors = self.supervisor.executors();
        let mut same_role = executors.iter().filter(|it| it.spec.role == *role);
        if let Some(lost) = same_role.find(|it| it.keeps_state() == Some(KeepsState::InMemory)) {
            self.progress.report(format!(
                "`{}` has no `workspace`: what it keeps ends with its process",
                lost.spec.name
            ));
        }
    }

    fn has_state(&self, node: &str) -> bool {
        let executors = self.supervisor.executors();
        executors.iter().any(|it| {
            let is_of_node =
                matches!(&it.spec.role, Role::Executor { node: of, .. } if of.as_str() == node);
            let state = it.keeps_state().unwrap_or_default();
            is_of_node && state != KeepsState::Nowhere
        })
    }
}

/// The nodes that the flow starts.
fn local_runs(plan: &Plan) -> impl Iterator<Item = (&str, &LocalRun)> {
    plan.nodes.iter().filter_map(|node| match &node.run {
        Run::Local(run) => Some((node.name.as_str(), &**run)),
        Run::External { .. } => None,
    })
}

fn numbers(run: &LocalRun) -> (NonZeroU16, NonZeroU16) {
    (run.shards, run.replicas)
}
