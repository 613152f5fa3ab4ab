//! Control groups that limit the memory of a process, of both versions.

use std::fs;
use std::path::{Path, PathBuf};

/// What a process may use beside what it has: a few requests of the load.
const MORE: &str = "524288";

/// The root of the groups, and the file with their limit.
const VERSIONS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];

/// The group with the limit.
const GROUP: &str = "flow-faults";

pub(crate) fn can_be_limited() -> bool {
    group().is_some()
}

/// Puts a process into a group in which it gets little more memory. What it has is not counted there.
pub(crate) fn limit(pid: u32) {
    let (folder, limit) = group().unwrap();
    fs::write(folder.join(limit), MORE).unwrap();
    fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap();
}

/// Takes a process out of the group.
pub(crate) fn lift_limit(pid: u32) {
    let (folder, _) = group().unwrap();
    let root = folder.parent().unwrap();
    fs::write(root.join("cgroup.procs"), pid.to_string()).unwrap();
}

/// Removes the group, whose processes have ended.
pub(crate) fn remove_group() {
    for (root, _) in VERSIONS {
        // Without a group there is nothing to remove.
        drop(fs::remove_dir(Path::new(root).join(GROUP)));
    }
}

/// The group and its limit's file; made if it is not there.
fn group() -> Option<(PathBuf, &'static str)> {
    let made = |(root, limit): (&str, &'static str)| {
        let folder = Path::new(root).join(GROUP);
        // That it is there already does no harm.
        drop(fs::create_dir(&folder));
        folder.join(limit).exists().then_some((folder, limit))
    };
    VERSIONS.into_iter().find_map(made)
}
