//! Assigns the devices of this machine to replicas in turn.

use std::process::Command;

use anyhow::Context;
use flow_launch::round_robin;
use flow_spec::{Plan, Run, Secret};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// The number of devices if `nvidia-smi` is missing, as in Jina.
const TOTAL: &str = "CUDA_TOTAL_DEVICES";

/// Resolves the devices of every node in a plan. The environment of this program applies to nodes that set none.
pub(super) fn share(plan: &mut Plan, shell: &Shell) -> anyhow::Result<()> {
    let own = shell
        .variable(round_robin::VARIABLE)
        .filter(|it| round_robin::is_round_robin(it));
    let mut counted = None;
    for node in &mut plan.nodes {
        let Run::Local(run) = &mut node.run else {
            continue;
        };
        let written = run.env.reveal(round_robin::VARIABLE).or(own.as_deref());
        if let Some(written) = written.filter(|it| round_robin::is_round_robin(it)) {
            let count = *counted.get_or_insert_with(|| count(shell));
            let why = || format!("the replicas of `{}` cannot be given devices", node.name);
            let choice = round_robin::expanded(written, count).with_context(|| BadUsage(why()))?;
            run.env
                .insert(round_robin::VARIABLE.to_owned(), Secret::new(choice));
        }
    }
    Ok(())
}

fn count(shell: &Shell) -> Option<usize> {
    let output = Command::new("nvidia-smi").arg("-L").output().ok();
    let listed = output.filter(|output| output.status.success());
    let listed = listed.map(|output| listed_in(&String::from_utf8_lossy(&output.stdout)));
    let total = || shell.variable(TOTAL)?.trim().parse().ok();
    listed.filter(|count| *count > 0).or_else(total)
}

/// The number of devices in a listing. Parts of a device (`MIG`), which are indented, are not counted: CUDA does not number
/// them.
fn listed_in(listing: &str) -> usize {
    let lines = listing.lines();
    lines.filter(|line| line.starts_with("GPU ")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_in_the_listing() {
        let listing = "\
GPU 0: NVIDIA H200 (UUID: GPU-1)
  MIG 1g.18gb     Device  0: (UUID: MIG-1)
GPU 1: NVIDIA H200 (UUID: GPU-2)
";
        assert_eq!(listed_in(listing), 2);
        assert_eq!(listed_in("No devices found.\n"), 0);
    }
}
