//! Control groups (cgroup v2) for sandboxed processes: limits on the memory and the processors of a process and all that it
//! starts.
//!
//! The launcher may make groups where its own one was delegated to it, as `systemd-run --user --scope -p Delegate=yes` and
//! `Delegate=yes` of a service do. In a group with limits for those below it the kernel allows no processes, so the launcher
//! first moves itself into a group of its own. Where that is not possible, sandboxed processes are limited by other means.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flow_spec::{Millicpus, Sandbox};

/// Where the file system of control groups is.
const ROOT: &str = "/sys/fs/cgroup";

/// The group into which the launcher moves itself.
const OWN: &str = "flow-supervisor";

/// What enables limits on memory and processors for the groups below.
const CONTROLLERS: [&str; 2] = ["memory", "cpu"];

/// The time over which the kernel measures the use of processors: its default.
const PERIOD_MICROS: u64 = 100_000;

/// Tries to remove a group whose last process is just ending, and the wait between them.
const REMOVAL_TRIES: u32 = 50;
const REMOVAL_WAIT: Duration = Duration::from_millis(10);

/// Makes groups, if the launcher may.
#[derive(Debug, Default)]
pub(crate) struct ControlGroups {
    /// The folder for groups; `None` if the launcher may not make any.
    delegated: OnceLock<Option<PathBuf>>,
    created: AtomicU64,
}

impl ControlGroups {
    /// Prepares the launcher's own group. To be called before it starts processes, which would be in the way.
    pub(crate) fn prepare(&self) -> Option<&Path> {
        let delegated = self.delegated.get_or_init(|| {
            let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            let prepared = prepare(Path::new(ROOT), &own);
            prepared
                .inspect_err(|error| tracing::debug!(%error, "no control groups for sandboxes"))
                .ok()
        });
        delegated.as_deref()
    }

    /// A new group with the limits of a sandbox; `None` if the launcher may not make one, or the sandbox needs none.
    pub(crate) fn create(&self, process: &str, limits: &Sandbox) -> Option<ControlGroup> {
        if limits.memory.is_none() && limits.cpus.is_none() {
            return None;
        }
        let number = self.created.fetch_add(1, Ordering::Relaxed);
        let process = process.replace('/', ".");
        let folder = self.prepare()?.join(format!("flow-{process}.{number}"));
        let created = ControlGroup::create(folder, limits);
        created
            .inspect_err(|error| tracing::debug!(%error, "cannot create a control group"))
            .ok()
    }
}

/// Makes the group of a process with these entries of `/proc/PID/cgroup` one that may have groups below it.
fn prepare(root: &Path, own: &str) -> io::Result<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let path = path.ok_or_else(|| io::Error::other("the machine has no cgroup v2"))?;
    let folder = root.join(path);
    let has_all = |file: &str| {
        let text = fs::read_to_string(folder.join(file))?;
        let mut names = CONTROLLERS.iter();
        io::Result::Ok(names.all(|name| text.split_whitespace().any(|it| it == *name)))
    };
    if !has_all("cgroup.controllers")? {
        return Err(io::Error::other(
            "its group has no memory and cpu controllers",
        ));
    }
    if has_all("cgroup.subtree_control")? {
        return Ok(folder);
    }
    let own = folder.join(OWN);
    match fs::create_dir(&own) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // 0 is the process that writes.
    let moved = fs::write(own.join("cgroup.procs"), "0");
    let enable = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
    let enabled = moved.and_then(|()| fs::write(folder.join("cgroup.subtree_control"), enable));
    if let Err(error) = enabled {
        // Other processes are in the group, or it belongs to another user.
        drop(fs::write(folder.join("cgroup.procs"), "0"));
        drop(fs::remove_dir(&own));
        return Err(error);
    }
    Ok(folder)
}

/// The group of one process, which enters it by itself.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    fn create(folder: PathBuf, limits: &Sandbox) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        let group = Self { folder };
        if let Some(bytes) = limits.memory {
            fs::write(group.folder.join("memory.max"), bytes.to_string())?;
            // Otherwise what is beyond the limit would be swapped out. A kernel without swap has no such file.
            drop(fs::write(group.folder.join("memory.swap.max"), "0"));
            // All of the executor's processes, and not the largest alone.
            drop(fs::write(group.folder.join("memory.oom.group"), "1"));
        }
        if let Some(cpus) = limits.cpus {
            fs::write(group.folder.join("cpu.max"), cpu_max(cpus))?;
        }
        Ok(group)
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the kernel has ended a process of it because its memory was used up.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("memory.events"));
        events.is_ok_and(|it| kills(&it) > 0)
    }

    /// Ends all processes that are left in it.
    pub(crate) fn kill(&self) {
        drop(fs::write(self.folder.join("cgroup.kill"), "1"));
    }

    /// Removes it when its last process is gone.
    pub(crate) async fn remove(&self) {
        for _ in 0..REMOVAL_TRIES {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tokio::time::sleep(REMOVAL_WAIT).await;
                }
                _ => return,
            }
        }
        tracing::warn!(folder = %self.folder.display(), "cannot remove a control group");
    }
}

impl Drop for ControlGroup {
    /// Nothing is in it if its process never started.
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.folder));
    }
}

/// The time of processors in each period, as the kernel reads it.
fn cpu_max(cpus: Millicpus) -> String {
    let quota = PERIOD_MICROS * u64::from(cpus.0.get()) / u64::from(Millicpus::OF_ONE);
    format!("{quota} {PERIOD_MICROS}")
}

/// How many processes the kernel has ended, of what it counts in `memory.events`.
fn kills(events: &str) -> u64 {
    let counted = events.lines().find_map(|it| it.strip_prefix("oom_kill "));
    counted.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;

    /// A folder that looks like the group `/a` of a process.
    fn group(controllers: &str, enabled: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("cgroup.controllers"), controllers).unwrap();
        fs::write(folder.join("cgroup.subtree_control"), enabled).unwrap();
        root
    }

    #[test]
    fn the_launcher_makes_room_for_groups_below_its_own() {
        let root = group("cpuset cpu io memory pids\n", "\n");
        let folder = prepare(root.path(), "0::/a\n").unwrap();
        assert_eq!(folder, root.path().join("a"));
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(read("flow-supervisor/cgroup.procs"), "0");
        assert_eq!(read("cgroup.subtree_control"), "+memory +cpu");
    }

    #[test]
    fn a_group_that_is_prepared_stays_as_it_is() {
        let root = group("cpu memory\n", "memory cpu\n");
        let folder = prepare(root.path(), "4:cpu:/b\n0::/a\n").unwrap();
        assert!(!folder.join(OWN).exists());
    }

    #[test]
    fn a_machine_without_such_groups_has_none() {
        let check = |root: &tempfile::TempDir, own: &str, expected: &str| {
            let error = prepare(root.path(), own).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let without_memory = group("cpu\n", "\n");
        check(&without_memory, "0::/a", "no memory and cpu controllers");
        check(&without_memory, "0::/b", "No such file");
        check(&without_memory, "5:cpu,memory:/a", "no cgroup v2");
    }

    #[test]
    fn a_group_has_the_limits_of_the_sandbox() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Sandbox {
            memory: NonZeroU64::new(1 << 30),
            cpus: NonZeroU32::new(1500).map(Millicpus),
            ..Sandbox::default()
        };
        let group = ControlGroup::create(folder.path().join("g"), &limits).unwrap();
        let read = |file: &str| fs::read_to_string(group.folder().join(file)).unwrap();
        assert_eq!(read("memory.max"), "1073741824");
        assert_eq!(read("cpu.max"), "150000 100000");
        assert!(!group.ran_out_of_memory());
        let events = "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\noom_group_kill 1\n";
        fs::write(group.folder().join("memory.events"), events).unwrap();
        assert!(group.ran_out_of_memory());
    }

    #[test]
    fn a_sandbox_without_such_limits_needs_no_group() {
        let limits = Sandbox {
            read_only: true,
            ..Sandbox::default()
        };
        assert!(ControlGroups::default().create("a", &limits).is_none());
    }
}
