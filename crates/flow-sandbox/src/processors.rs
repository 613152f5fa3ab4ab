//! Limits processors: by the control group or, in whole ones, by those on which the process may run.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::applied::Applied;
use crate::control_group::Group;
use crate::error::SandboxError;

/// Limits the processors of the calling thread and of all that it starts, unless its group does.
pub(crate) fn limit(
    millicpus: u32,
    group: &Group,
    applied: &mut Applied,
) -> Result<(), SandboxError> {
    if group.limits_processors {
        let wanted = f64::from(millicpus) / 1000.0;
        applied
            .limits
            .push(format!("processors {wanted} (control group)"));
        return Ok(());
    }
    let allowed = sched_getaffinity(None).map_err(SandboxError::Processors)?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|it| allowed.is_set(*it))
        .collect();
    let whole = usize::try_from(millicpus.div_ceil(1000)).unwrap_or(usize::MAX);
    let chosen = choose(&allowed, whole, std::process::id());
    let mut set = CpuSet::new();
    chosen.iter().for_each(|it| set.set(*it));
    sched_setaffinity(None, &set).map_err(SandboxError::Processors)?;
    applied.limits.push(format!(
        "processors {} of {} (affinity)",
        chosen.len(),
        allowed.len()
    ));
    Ok(())
}

/// As many of the processors as wanted. Different processes begin at different ones, so that they share all.
fn choose(allowed: &[usize], wanted: usize, process: u32) -> Vec<usize> {
    let wanted = wanted.clamp(1, allowed.len().max(1));
    let first = usize::try_from(process).unwrap_or(0).saturating_mul(wanted);
    let turned = allowed.iter().cycle().skip(first % allowed.len().max(1));
    turned.take(wanted.min(allowed.len())).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn processes_share_all_processors() {
        let check = |wanted, process, expected: &[usize]| {
            assert_eq!(choose(&[2, 3, 5, 7], wanted, process), expected);
        };
        check(1, 0, &[2]);
        check(1, 1, &[3]);
        check(1, 7, &[7]);
        check(2, 0, &[2, 3]);
        check(2, 1, &[5, 7]);
        check(3, 1, &[7, 2, 3]);
        check(9, 1, &[2, 3, 5, 7]);
        assert!(choose(&[], 2, 1).is_empty());
    }

    #[test]
    fn a_thread_stays_on_as_many_processors_as_it_may() {
        // Of this thread only: other tests keep theirs.
        let limited = thread::spawn(|| {
            let mut applied = Applied::default();
            limit(250, &Group::default(), &mut applied).unwrap();
            (sched_getaffinity(None).unwrap().count(), applied)
        });
        let (count, applied) = limited.join().unwrap();
        assert_eq!(count, 1);
        assert!(
            applied.limits[0].starts_with("processors 1 of "),
            "{applied:?}"
        );
    }
}
