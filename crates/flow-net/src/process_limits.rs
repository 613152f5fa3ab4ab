//! What the system allows a process: open files and memory.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most open files that are asked for. The kernel keeps a table of this size for each process.
const OPEN_FILES_MAX: u64 = 65_536;

/// Raises the number of files that this process may have open as far as it may, and returns it. Each connection is one.
#[must_use]
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
    let soft = limit.current.unwrap_or(OPEN_FILES_MAX);
    if soft >= hard {
        return soft;
    }
    let raised = Rlimit {
        current: Some(hard),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => hard,
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit on open files");
            soft
        }
    }
}

/// The memory that this process may use, in bytes: that of the machine, or less if one of its control groups or its own limit on
/// data says so.
#[must_use]
pub fn memory_max() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = group_files(&groups).into_iter();
    let limits = limits.filter_map(|path| read(Path::new(&path))?.trim().parse().ok());
    let own = getrlimit(Resource::Data).current;
    limits.chain(machine).chain(own).min()
}

/// `MemTotal` in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|it| it.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The files that may contain a limit: of the process's control group and of those around it.
fn group_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // In a container the path may be that of the host, and its own group is the root.
        for folder in Path::new(path).ancestors() {
            let folder = folder.to_string_lossy();
            let folder = folder.trim_end_matches('/');
            files.push(format!("{root}{folder}/{file}"));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_all_groups_around_a_process_are_read() {
        let files = group_files("0::/a/b\n");
        let expected = [
            "/sys/fs/cgroup/a/b/memory.max",
            "/sys/fs/cgroup/a/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, expected);
        let files = group_files("5:cpu,memory:/x\n4:cpuset:/y\n");
        let expected = [
            "/sys/fs/cgroup/memory/x/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ];
        assert_eq!(files, expected);
    }

    #[test]
    fn the_machine_has_memory_and_files() {
        assert_eq!(total("MemTotal:  16 kB\nMemFree: 1 kB\n"), Some(16 << 10));
        assert!(memory_max().unwrap() > 1 << 20);
        assert!(raise_open_files() > 0);
    }
}
