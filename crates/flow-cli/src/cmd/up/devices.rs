//! How many devices this machine has, where replicas are to take them in turn.

use std::process::Command;

use anyhow::Context;
use flow_launch::rr;
use flow_spec::{Plan, Run};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// What says so where there is no `nvidia-smi`, as in Jina.
const TOTAL: &str = "CUDA_TOTAL_DEVICES";

/// Writes out every choice of devices in a plan. What the program itself was started with is the choice of
/// nodes that make none.
pub(super) fn share(plan: &mut Plan, shell: &Shell) -> anyhow::Result<()> {
    let own = shell.variable(rr::VARIABLE).filter(|it| rr::shares(it));
    let mut counted = None;
    for node in &mut plan.nodes {
        let Run::Local(run) = &mut node.run else {
            continue;
        };
        let written = run.env.get(rr::VARIABLE).or(own.as_ref());
        if let Some(written) = written.filter(|it| rr::shares(it)) {
            let count = *counted.get_or_insert_with(|| count(shell));
            let why = || format!("the replicas of `{}` cannot be given devices", node.name);
            let choice = rr::written_out(written, count).with_context(|| BadUsage(why()))?;
            run.env.insert(rr::VARIABLE.to_owned(), choice);
        }
    }
    Ok(())
}

fn count(shell: &Shell) -> Option<usize> {
    let listed = Command::new("nvidia-smi").arg("-L").output().ok();
    let listed = listed.filter(|output| output.status.success());
    let listed = listed.map(|output| listed_in(&String::from_utf8_lossy(&output.stdout)));
    let total = || shell.variable(TOTAL)?.trim().parse().ok();
    listed.filter(|count| *count > 0).or_else(total)
}

/// Parts of a device (`MIG`) stand indented under it and are not counted: their numbers are not CUDA's.
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
