//! Replaces a process that cannot run beside its successor: the old process ends before the new one starts.

use std::path::{Path, PathBuf};

use flow_process::KeepsState;

use super::{ChangeError, FlowChange};
use crate::spec::ports::{ListenAt, Ports};
use crate::spec::process_spec::ProcessSpec;
use crate::supervisor::handle::ProcessHandle;
use crate::supervisor::placement::placed;

/// What a process and its successor cannot both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conflict {
    /// A port that the file assigns.
    Port(u16),
    /// The folder of the executor's files.
    Workspace,
}

/// A process that has to end before its successor starts.
pub(super) struct Predecessor {
    process: ProcessHandle,
    conflict: Conflict,
}

impl FlowChange<'_> {
    /// The process that has to end before one with this spec starts.
    pub(super) fn predecessor(&self, spec: &ProcessSpec) -> Option<Predecessor> {
        let executors = self.supervisor.executors().into_iter();
        let supervised: Vec<ProcessHandle> =
            executors.filter(ProcessHandle::is_supervised).collect();
        let on_port = supervised.iter().find_map(|process| {
            let conflict = Conflict::Port(shared_port(process, spec)?);
            Some((process, conflict))
        });
        let in_workspace = || {
            let mut same_role = supervised.iter().filter(|it| it.spec.role == spec.role);
            let holder = same_role.find(|it| holds_workspace(it))?;
            Some((holder, Conflict::Workspace))
        };
        let (process, conflict) = on_port.or_else(in_workspace)?;
        Some(Predecessor {
            process: process.clone(),
            conflict,
        })
    }

    /// Ends a process, and then starts its successor. If that fails, the old process is started again.
    pub(super) async fn replace_in_place(
        &self,
        predecessor: Predecessor,
        spec: ProcessSpec,
    ) -> Result<(), ChangeError> {
        let Predecessor {
            process: old,
            conflict,
        } = predecessor;
        if let (Conflict::Port(port), false) = (conflict, old.spec.role == spec.role) {
            return Err(ChangeError::PortMoves { port });
        }
        let plan = self.supervisor.plan();
        self.take_out(&old, conflict).await;
        let used = self.used_by(&old);
        self.stop(&old).await;
        // Requests that are tried again find it where the old one was.
        let at = ListenAt {
            ports: spec.ports.or(used.ports),
            socket: self.socket_after(&old, &used, &spec),
        };
        let new = self.supervisor.start_at(spec, at);
        let outcome = self.ready(&new).await.map(drop);
        let successor = match &outcome {
            Ok(()) => new,
            Err(_) => {
                // Its end removes its socket, which is that of the old one.
                new.stop().await;
                self.supervisor.start_at((*old.spec).clone(), used)
            }
        };
        let executors = self.supervisor.executors().into_iter();
        let executors = executors.map(|it| match it.is_same(&old) {
            true => successor.clone(),
            false => it,
        });
        self.supervisor.set_executors(plan, executors.collect());
        if outcome.is_err() {
            drop(successor.ready().await);
        }
        self.supervisor.place();
        outcome
    }

    /// The socket of a successor: that of the old process, unless only one of them is in a sandbox, which has its socket in a
    /// folder of its own.
    fn socket_after(
        &self,
        old: &ProcessHandle,
        used: &ListenAt,
        spec: &ProcessSpec,
    ) -> Option<PathBuf> {
        let is_sandboxed = |it: &ProcessSpec| it.invocation.sandbox.is_some();
        match is_sandboxed(&old.spec) == is_sandboxed(spec) {
            true => used.socket.clone().filter(|_| spec.at_socket),
            false => self.supervisor.free_place(spec).socket,
        }
    }

    /// Where a process listens, or did when it last was ready.
    fn used_by(&self, process: &ProcessHandle) -> ListenAt {
        match process.status().process {
            None => self.supervisor.free_place(&process.spec),
            Some(ready) => ListenAt {
                ports: Ports {
                    serving: ready.address.port().unwrap_or(0),
                    metrics: ready.metrics.map(|it| it.port()),
                },
                socket: ready.address.unix().map(Path::to_owned),
            },
        }
    }

    /// Takes a process out of the placement, where its shard has others.
    async fn take_out(&self, old: &ProcessHandle, conflict: Conflict) {
        let address = old.address().map(|it| placed(&it));
        let (version, placement) = self.supervisor.place_without(Some(&old.spec.role));
        let is_still_placed = placement.addresses.iter().any(|places| {
            let mut all = places.all();
            all.any(|it| Some(it) == address.as_ref())
        });
        if is_still_placed {
            let why = match conflict {
                Conflict::Port(port) => format!("is alone at its port {port}"),
                Conflict::Workspace => "has to end before another may use its workspace".to_owned(),
            };
            let name = &old.spec.name;
            self.progress.report(format!(
                "`{name}` {why}: its requests are tried again, or fail, until it is back"
            ));
        }
        self.wait_until_settled(version).await;
    }
}

/// The port of a process that a spec has too.
fn shared_port(process: &ProcessHandle, spec: &ProcessSpec) -> Option<u16> {
    let wanted = [Some(spec.ports.serving), spec.ports.metrics];
    let wanted: Vec<u16> = wanted.into_iter().flatten().filter(|it| *it > 0).collect();
    let ready = process.status().process?;
    let metrics = ready.metrics.map(|it| it.port());
    let mut used = [ready.address.port(), metrics].into_iter().flatten();
    used.find(|port| wanted.contains(port))
}

/// Whether no other process may use the workspace of a process. One that does not say, such as an executor in Python,
/// may write there.
fn holds_workspace(process: &ProcessHandle) -> bool {
    match process.keeps_state() {
        Some(state) => state == KeepsState::InWorkspace,
        None => process.spec.invocation.has_workspace(),
    }
}
