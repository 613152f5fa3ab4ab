//! Limits memory: by the control group or, for each process alone, by its limit on data.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::applied::Applied;
use crate::control_group::Group;
use crate::error::SandboxError;

/// Limits the memory of this process, unless its group does.
pub(crate) fn limit(bytes: u64, group: &Group, applied: &mut Applied) -> Result<(), SandboxError> {
    let size = mebibytes(bytes);
    if group.limits_memory {
        applied
            .limits
            .push(format!("memory {size} (control group)"));
        return Ok(());
    }
    let lower = |limit: Option<u64>| Some(limit.map_or(bytes, |it| it.min(bytes)));
    let before = getrlimit(Resource::Data);
    let limit = Rlimit {
        current: lower(before.current),
        maximum: lower(before.maximum),
    };
    setrlimit(Resource::Data, limit).map_err(|source| SandboxError::Memory { bytes, source })?;
    applied
        .limits
        .push(format!("memory {size} for each process (RLIMIT_DATA)"));
    Ok(())
}

/// As people read it, rounded down.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_group_is_enough() {
        let mut applied = Applied::default();
        let group = Group {
            limits_memory: true,
            ..Group::default()
        };
        let before = getrlimit(Resource::Data);
        limit(2 << 30, &group, &mut applied).unwrap();
        assert_eq!(applied.limits, ["memory 2048 MiB (control group)"]);
        assert_eq!(getrlimit(Resource::Data), before);
    }
}
