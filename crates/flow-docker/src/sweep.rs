//! Whose a container is, and which containers are nobody's any more.
//!
//! A launcher that is killed cannot remove its containers, so the next one does. Each container says on a
//! label who started it: the machine's boot, the namespace of process numbers, the process, and when it
//! began. Who is in another namespace cannot be seen from here, and so is left alone.

use std::collections::HashMap;
use std::fmt;
use std::fs;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum as State};
use bollard::query_parameters::ListContainersOptionsBuilder;

use crate::container::Container;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::labels;

/// The process that started a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    boot: String,
    namespace: String,
    pid: u32,
    /// Since the boot, in the kernel's ticks: numbers of processes are used again.
    began: u64,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            boot,
            namespace,
            pid,
            began,
        } = self;
        write!(f, "{boot}/{namespace}/{pid}/{began}")
    }
}

impl Launcher {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        let pid = std::process::id();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = fs::read_link("/proc/self/ns/pid");
        let namespace = namespace.map(|link| link.to_string_lossy().into_owned());
        Self {
            boot: boot.unwrap_or_default().trim().to_owned(),
            namespace: namespace.unwrap_or_default(),
            pid,
            began: began(pid).unwrap_or(0),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [boot, namespace, pid, began] = parts.as_slice() else {
            return None;
        };
        Some(Self {
            boot: (*boot).to_owned(),
            namespace: (*namespace).to_owned(),
            pid: pid.parse().ok()?,
            began: began.parse().ok()?,
        })
    }

    /// Whether it is certain that this launcher has ended, as `self` sees it.
    fn outlives(&self, other: &Self, alive: impl Fn(u32) -> Option<u64>) -> bool {
        let is_seen = self.boot == other.boot && self.namespace == other.namespace;
        is_seen && alive(other.pid) != Some(other.began)
    }
}

/// When a process began; none: there is none.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, and may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    // Fields are counted from 1, and the third is the first of these.
    after.split_whitespace().nth(22 - 3)?.parse().ok()
}

impl Engine {
    /// Removes the containers of launchers that have ended; gives the names of their processes.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub async fn sweep(&self) -> Result<Vec<String>, EngineError> {
        let this = Launcher::this();
        let filters = HashMap::from([("label".to_owned(), vec![labels::RUN.to_owned()])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let listed = self.raw().list_containers(Some(options)).await;
        let listed = listed.map_err(|answer| self.met("list containers", answer))?;
        let mut removed = Vec::new();
        for found in listed {
            let Some((id, name)) = left_behind(&found, &this) else {
                continue;
            };
            Container::known(self, id).remove().await?;
            removed.push(name);
        }
        Ok(removed)
    }
}

/// The id of a container whose launcher has ended, and its process's name.
///
/// No launcher is left from before the machine's last start. What ran then has ended; what runs is of
/// another machine that has the same engine.
fn left_behind(found: &ContainerSummary, this: &Launcher) -> Option<(String, String)> {
    let labels = found.labels.as_ref()?;
    let launcher = Launcher::parse(labels.get(labels::RUN)?)?;
    let id = found.id.clone()?;
    let name = labels.get(labels::REPLICA).unwrap_or(&id).clone();
    let is_over = matches!(found.state, Some(State::EXITED | State::DEAD));
    let is_old = is_over && launcher.boot != this.boot;
    (is_old || this.outlives(&launcher, began)).then_some((id, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_found_again_by_its_label() {
        let this = Launcher::this();
        assert_eq!(Launcher::parse(&this.to_string()), Some(this.clone()));
        assert!(this.began > 0, "{this}");
        assert_eq!(Launcher::parse("something else"), None);
    }

    #[test]
    fn only_who_can_be_seen_to_have_ended_has_ended() {
        let this = Launcher::this();
        let of = |text: &str| Launcher::parse(text).unwrap();
        let here = format!("{}/{}", this.boot, this.namespace);
        let check = |other: &str, alive: Option<u64>, expected: bool| {
            assert_eq!(this.outlives(&of(other), |_| alive), expected, "{other}");
        };
        check(&format!("{here}/7/100"), None, true);
        check(&format!("{here}/7/100"), Some(100), false);
        check(&format!("{here}/7/100"), Some(200), true);
        check(&format!("{}/pid:[1]/7/100", this.boot), None, false);
        check(&format!("other/{}/7/100", this.namespace), None, false);
    }
}
