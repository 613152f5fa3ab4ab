//! Removes the containers that killed flows have left behind.
//!
//! A process that is killed cannot remove its containers, so the next one that uses the engine does. A label on each
//! container names the process that started it: the machine's boot, the namespace of process ids, the process id, and
//! its start time. A process in another namespace is not visible here, so its containers stay.

use std::collections::HashMap;
use std::fmt;
use std::fs;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum as State};
use bollard::query_parameters::ListContainersOptionsBuilder;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::container::Container;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::labels;

/// Identifies the process that started a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherId {
    boot: String,
    namespace: String,
    pid: u32,
    /// In the kernel's ticks since the boot: process ids are used again.
    start_time: u64,
}

/// What this process can find out about another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessLiveness {
    /// It started at this time.
    StartedAt(u64),
    /// It exists, and its entry in `/proc` cannot be read.
    Exists,
    /// The kernel knows no process with this id.
    Gone,
}

impl fmt::Display for LauncherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            boot,
            namespace,
            pid,
            start_time,
        } = self;
        write!(f, "{boot}/{namespace}/{pid}/{start_time}")
    }
}

impl LauncherId {
    /// This process.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = fs::read_link("/proc/self/ns/pid");
        let namespace = namespace.map(|link| link.to_string_lossy().into_owned());
        Self {
            boot: boot.unwrap_or_default().trim().to_owned(),
            namespace: namespace.unwrap_or_default(),
            pid,
            start_time: start_time(pid).unwrap_or(0),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [boot, namespace, pid, start_time] = parts.as_slice() else {
            return None;
        };
        Some(Self {
            boot: (*boot).to_owned(),
            namespace: (*namespace).to_owned(),
            pid: pid.parse().ok()?,
            start_time: start_time.parse().ok()?,
        })
    }

    /// Whether it is certain that the other process has exited.
    fn outlives(&self, other: &Self, look: impl Fn(u32) -> ProcessLiveness) -> bool {
        let is_visible = self.boot == other.boot && self.namespace == other.namespace;
        is_visible
            && match look(other.pid) {
                // Without a start time on the label, the process may be the one.
                ProcessLiveness::StartedAt(start_time) => {
                    other.start_time != 0 && start_time != other.start_time
                }
                ProcessLiveness::Exists => false,
                ProcessLiveness::Gone => true,
            }
    }
}

/// Looks at a process. One whose entry in `/proc` cannot be read, as with `hidepid`, is alive unless the kernel denies
/// that it exists.
fn look(pid: u32) -> ProcessLiveness {
    if let Some(start_time) = start_time(pid) {
        return ProcessLiveness::StartedAt(start_time);
    }
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match id.map(test_kill_process) {
        None | Some(Err(Errno::SRCH)) => ProcessLiveness::Gone,
        Some(Ok(()) | Err(_)) => ProcessLiveness::Exists,
    }
}

/// When a process started; `None` if its entry in `/proc` cannot be read.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, and may contain anything.
    let (_, after) = stat.rsplit_once(')')?;
    // Fields are counted from 1, and the third is the first of these.
    after.split_whitespace().nth(22 - 3)?.parse().ok()
}

impl Engine {
    /// Removes the containers of processes that have exited. Returns the names of the containers' processes.
    ///
    /// # Errors
    /// If the engine does not respond.
    pub async fn sweep(&self) -> Result<Vec<String>, EngineError> {
        let current = LauncherId::current();
        let filters = HashMap::from([("label".to_owned(), vec![labels::RUN.to_owned()])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let listed = self.raw().list_containers(Some(options)).await;
        let listed = listed.map_err(|error| self.api_error("list containers", error))?;
        let mut removed = Vec::new();
        for found in listed {
            let Some((id, name)) = left_behind(&found, &current) else {
                continue;
            };
            Container::known(self, id).remove().await?;
            removed.push(name);
        }
        Ok(removed)
    }
}

/// The id of a container whose launcher has exited, and the name of its process.
///
/// No process is left from before the machine's last boot. A container of an earlier boot that has exited was left
/// behind; one that runs belongs to another machine with the same engine.
fn left_behind(found: &ContainerSummary, current: &LauncherId) -> Option<(String, String)> {
    let labels = found.labels.as_ref()?;
    let launcher = LauncherId::parse(labels.get(labels::RUN)?)?;
    let id = found.id.clone()?;
    let name = labels.get(labels::REPLICA).unwrap_or(&id).clone();
    let has_exited = matches!(found.state, Some(State::EXITED | State::DEAD));
    let is_old = has_exited && launcher.boot != current.boot;
    (is_old || current.outlives(&launcher, look)).then_some((id, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_parsed_from_its_label() {
        let current = LauncherId::current();
        assert_eq!(
            LauncherId::parse(&current.to_string()),
            Some(current.clone())
        );
        assert!(current.start_time > 0, "{current}");
        assert_eq!(LauncherId::parse("something else"), None);
    }

    #[test]
    fn only_a_launcher_that_has_certainly_exited_loses_its_containers() {
        let current = LauncherId::current();
        let of = |text: &str| LauncherId::parse(text).unwrap();
        let here = format!("{}/{}", current.boot, current.namespace);
        let check = |other: &str, seen: ProcessLiveness, expected: bool| {
            assert_eq!(current.outlives(&of(other), |_| seen), expected, "{other}");
        };
        check(&format!("{here}/7/100"), ProcessLiveness::Gone, true);
        check(&format!("{here}/7/100"), ProcessLiveness::Exists, false);
        check(
            &format!("{here}/7/100"),
            ProcessLiveness::StartedAt(100),
            false,
        );
        check(
            &format!("{here}/7/100"),
            ProcessLiveness::StartedAt(200),
            true,
        );
        check(
            &format!("{here}/7/0"),
            ProcessLiveness::StartedAt(200),
            false,
        );
        let other_namespace = format!("{}/pid:[1]/7/100", current.boot);
        check(&other_namespace, ProcessLiveness::Gone, false);
        let other_boot = format!("other/{}/7/100", current.namespace);
        check(&other_boot, ProcessLiveness::Gone, false);
    }

    #[test]
    fn a_process_is_gone_only_if_the_kernel_says_so() {
        let own = std::process::id();
        assert_eq!(
            look(own),
            ProcessLiveness::StartedAt(start_time(own).unwrap())
        );
        assert_eq!(look(u32::MAX), ProcessLiveness::Gone);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(look(child.id()), ProcessLiveness::Gone);
    }
}
