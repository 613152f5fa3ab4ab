//! Changes a running flow without losing a request.
//!
//! ```text
//! change.rs     scale, restart, reload
//! in_place.rs   replaces a process that cannot run beside its successor
//! state.rs      what executors keep, which a change must not part from them
//! source.rs     the files that the plan comes from
//! watch.rs      reloads when they change
//! ```
//!
//! A change is a new plan, or a request that some processes of the present plan be replaced. Processes that still fit
//! stay. For the others the order is always the same: new processes start and become ready; the gateway gets the new
//! placement; it reports when no request follows the old one; the old processes drain and exit. If a new process never
//! becomes ready, everything stays as it was.
//!
//! A process on a port that the file assigns cannot run beside its successor, nor can one that keeps its state in a
//! workspace. It is taken out of the placement and stopped first, while others of its shard do its work.

mod in_place;
pub(crate) mod source;
mod state;
pub(crate) mod watch;

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

use flow_spec::{Gateway, LocalRun, Plan, Run};
use tokio::sync::mpsc;

use crate::event::ReadyProcess;
use crate::process::error::ProcessStartError;
use crate::spec::process_spec::{self, GATEWAY, NodeDevicesError, ProcessSpec};
use crate::spec::role::Role;
use crate::supervisor::Supervisor;
use crate::supervisor::handle::ProcessHandle;

/// Sentences about a change that may wait for the caller who asked for it; more are left out.
const SENTENCES_MAX: usize = 256;

/// Why a flow was not changed. It runs on as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("the flow has no `{name}`; it has {known}")]
    Unknown { name: String, known: String },
    #[error("`{0}` is external: the flow did not start it, and cannot change it")]
    External(String),
    #[error(
        "the gateway holds the streams of clients and runs as long as the flow: use `flow down` and `flow up`"
    )]
    Gateway,
    #[error(
        "`{0}` runs in the process of the gateway, which holds the streams of clients and runs as long as the flow: use \
         `flow down` and `flow up`, or leave out `colocate`"
    )]
    Colocated(String),
    #[error(transparent)]
    Devices(NodeDevicesError),
    #[error("a new process was not ready, so the flow is unchanged")]
    NotReady(#[source] Arc<ProcessStartError>),
    #[error("the flow is shutting down")]
    Ending,
    #[error(
        "the processes of `{node}` keep what was indexed, each its own part, so their number cannot change while the \
         flow runs: a new one would be empty, and one that ends would take its part along; to divide an index, write \
         `shards` in the flow file before anything is indexed"
    )]
    State { node: String },
    #[error("port {port} moves from one executor to another: use `flow down` and `flow up`")]
    PortMoves { port: u16 },
}

/// Reports the progress of a change.
#[derive(Debug, Clone)]
pub(crate) struct ChangeProgress(mpsc::Sender<String>);

impl ChangeProgress {
    /// Progress for a caller, who must not delay the change by not reading it.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(SENTENCES_MAX);
        (Self(sender), receiver)
    }

    /// Progress for the log alone.
    pub(crate) fn to_log() -> Self {
        Self::channel().0
    }

    /// Reports to the caller and to the log.
    fn report(&self, sentence: String) {
        tracing::info!("{sentence}");
        self.report_to_caller(sentence);
    }

    pub(crate) fn report_to_caller(&self, sentence: String) {
        drop(self.0.try_send(sentence));
    }
}

/// A change of a flow. No other one is in progress.
pub(crate) struct FlowChange<'s> {
    supervisor: &'s Supervisor,
    progress: ChangeProgress,
    _lock: tokio::sync::MutexGuard<'s, ()>,
}

/// The process of a spec after the change.
enum Successor {
    Stays(ProcessHandle),
    New(Box<ProcessSpec>),
}

impl<'s> FlowChange<'s> {
    /// Waits until no other change is in progress, and says what it waits for. `name` is what others then wait for.
    pub(crate) async fn begin(
        supervisor: &'s Supervisor,
        name: &str,
        progress: ChangeProgress,
    ) -> Self {
        let waits = |other: &str| progress.report_to_caller(format!("waits for {other} to finish"));
        let lock = supervisor.change_lock.acquire(name, waits).await;
        Self {
            supervisor,
            progress,
            _lock: lock,
        }
    }

    /// Replaces the processes of a node, or one process of it, one after another.
    pub(crate) async fn restart(&self, name: &str) -> Result<(), ChangeError> {
        if name == GATEWAY {
            return Err(ChangeError::Gateway);
        }
        let plan = self.supervisor.plan();
        let specs = self.specs(&plan)?;
        let roles: Vec<Role> = specs
            .into_iter()
            .filter(|spec| self.is_named(spec, name))
            .map(|spec| spec.role)
            .collect();
        if roles.is_empty() {
            return Err(self.unknown(&plan, name));
        }
        for role in roles {
            self.warn_of_lost_state(&role);
            self.apply(plan.clone(), &BTreeSet::from([role])).await?;
        }
        Ok(())
    }

    /// Whether a name means this spec: the name of its node, its own, or the one that its process still has.
    fn is_named(&self, spec: &ProcessSpec, name: &str) -> bool {
        let executors = self.supervisor.executors();
        let mut same_role = executors.iter().filter(|it| it.spec.role == spec.role);
        let is_node = matches!(&spec.role, Role::Executor { node, .. } if node.as_str() == name);
        is_node || &*spec.name == name || same_role.any(|it| &*it.spec.name == name)
    }

    fn unknown(&self, plan: &Plan, name: &str) -> ChangeError {
        if let Some(at) = plan.find(name) {
            let name = name.to_owned();
            return match plan.node(at).colocated() {
                Some(_) => ChangeError::Colocated(name),
                None => ChangeError::External(name),
            };
        }
        let executors = self.supervisor.executors();
        let names: Vec<String> = executors
            .iter()
            .map(|process| format!("`{}`", process.spec.name))
            .collect();
        ChangeError::Unknown {
            name: name.to_owned(),
            known: names.join(", "),
        }
    }

    /// Gives a node this number of replicas, in each of its shards.
    pub(crate) async fn scale(&self, name: &str, replicas: NonZeroU16) -> Result<(), ChangeError> {
        if name == GATEWAY {
            return Err(ChangeError::Gateway);
        }
        let mut plan = self.supervisor.plan();
        match local_run(&mut plan, name) {
            Some(run) if !run.colocate => run.replicas = replicas,
            _ => return Err(self.unknown(&plan, name)),
        }
        self.check_state(&plan)?;
        self.apply(plan, &BTreeSet::new()).await
    }

    /// Follows a new plan. Options of the gateway that cannot change while it runs are reported, and stay.
    pub(crate) async fn reload(&self, mut plan: Plan) -> Result<(), ChangeError> {
        let present = self.supervisor.plan().gateway;
        for what in keep_fixed_options(&present, &mut plan.gateway) {
            self.progress.report(format!(
                "the gateway's {what} cannot change while the flow runs: use `flow down` and `flow up`"
            ));
        }
        if plan == self.supervisor.plan() {
            self.progress.report("nothing differs".to_owned());
            return Ok(());
        }
        check_colocated(&self.supervisor.plan(), &plan)?;
        self.check_state(&plan)?;
        self.apply(plan, &BTreeSet::new()).await
    }

    fn specs(&self, plan: &Plan) -> Result<Vec<ProcessSpec>, ChangeError> {
        process_spec::executors(plan, &self.supervisor.shared).map_err(ChangeError::Devices)
    }

    /// Makes the processes match a plan. Processes with the roles `replaced` are replaced in any case.
    async fn apply(&self, plan: Plan, replaced: &BTreeSet<Role>) -> Result<(), ChangeError> {
        let specs = self.specs(&plan)?;
        let mut replaced = replaced.clone();
        for spec in &specs {
            if self.fitting(spec, &replaced).is_none()
                && let Some(predecessor) = self.predecessor(spec)
            {
                self.replace_in_place(predecessor, spec.clone()).await?;
                replaced.remove(&spec.role);
            }
        }
        let successors: Vec<Successor> = specs
            .into_iter()
            .map(|spec| match self.fitting(&spec, &replaced) {
                Some(process) => Successor::Stays(process),
                None => Successor::New(Box::new(spec)),
            })
            .collect();
        let executors = self.start(successors).await?;
        self.hand_over(plan, executors).await;
        Ok(())
    }

    /// The process that fits a spec and may stay.
    fn fitting(&self, spec: &ProcessSpec, replaced: &BTreeSet<Role>) -> Option<ProcessHandle> {
        if replaced.contains(&spec.role) {
            return None;
        }
        let mut executors = self.supervisor.executors().into_iter();
        executors.find(|process| process.is_supervised() && spec.is_met_by(&process.spec))
    }

    /// Starts all new processes at once, and waits until every process is ready.
    async fn start(&self, successors: Vec<Successor>) -> Result<Vec<ProcessHandle>, ChangeError> {
        let mut started = Vec::new();
        let executors: Vec<ProcessHandle> = successors
            .into_iter()
            .map(|successor| match successor {
                Successor::Stays(process) => process,
                Successor::New(spec) => {
                    let process = self.supervisor.start(*spec);
                    started.push(process.clone());
                    process
                }
            })
            .collect();
        for process in &started {
            if let Err(error) = self.ready(process).await {
                for process in &started {
                    process.stop().await;
                }
                return Err(error);
            }
        }
        Ok(executors)
    }

    async fn ready(&self, handle: &ProcessHandle) -> Result<ReadyProcess, ChangeError> {
        let ready = handle.ready().await;
        let process =
            ready.map_err(|error| error.map_or(ChangeError::Ending, ChangeError::NotReady))?;
        // The log has it from the event.
        self.progress.report_to_caller(process.to_string());
        Ok(process)
    }

    /// Makes these the executors of the flow. Others stop when no request needs them.
    async fn hand_over(&self, plan: Plan, executors: Vec<ProcessHandle>) {
        let before = self.supervisor.executors();
        let stays = |old: &ProcessHandle| executors.iter().any(|it| it.is_same(old));
        let leaving: Vec<ProcessHandle> = before.into_iter().filter(|old| !stays(old)).collect();
        self.supervisor.set_executors(plan, executors);
        let (version, _) = self.supervisor.place();
        if leaving.is_empty() {
            return;
        }
        self.wait_until_settled(version).await;
        for old in &leaving {
            self.stop(old).await;
        }
    }

    async fn wait_until_settled(&self, version: u64) {
        let limit = self.supervisor.shared.grace;
        if !self.supervisor.settled(version, limit).await {
            tracing::warn!(
                ?limit,
                "requests still use the old placement and are ended now"
            );
        }
    }

    async fn stop(&self, old: &ProcessHandle) {
        let pid = old.status().process.map(|process| process.pid);
        old.stop().await;
        let pid = pid.map(|pid| format!("@{pid}")).unwrap_or_default();
        let sentence = format!("{}{pid} has ended", old.spec.name);
        self.progress.report(sentence);
    }
}

/// Refuses a plan whose colocated executors differ from those of the present one.
fn check_colocated(present: &Plan, new: &Plan) -> Result<(), ChangeError> {
    let run = |plan: &Plan, name: &str| {
        let node = plan.nodes.iter().find(|it| it.name.as_str() == name);
        node.and_then(|it| it.colocated().cloned())
    };
    let mut nodes = present.nodes.iter().chain(&new.nodes);
    let differs = |name: &str| run(present, name) != run(new, name);
    match nodes.find(|node| differs(node.name.as_str())) {
        Some(node) => Err(ChangeError::Colocated(node.name.to_string())),
        None => Ok(()),
    }
}

fn local_run<'p>(plan: &'p mut Plan, name: &str) -> Option<&'p mut LocalRun> {
    let node = plan
        .nodes
        .iter_mut()
        .find(|node| node.name.as_str() == name)?;
    match &mut node.run {
        Run::Local(run) => Some(run),
        Run::External { .. } => None,
    }
}

/// Restores the options of a gateway that cannot change while it runs, and names those that differed.
fn keep_fixed_options(present: &Gateway, new: &mut Gateway) -> Vec<&'static str> {
    let differ = [
        ("host", present.host != new.host),
        ("port", present.port != new.port),
        ("protocol", present.protocols != new.protocols),
        ("ports", present.more_ports != new.more_ports),
        (
            "`only_protocols`",
            present.only_protocols != new.only_protocols,
        ),
        ("HTTP routes", present.http != new.http),
        ("`env`", present.env != new.env),
        ("log", present.log != new.log),
        ("`monitoring`", present.monitoring != new.monitoring),
        (
            "`tracing` and `metrics`",
            present.telemetry != new.telemetry,
        ),
        ("TLS", present.tls != new.tls),
        ("`api_keys`", present.api_keys != new.api_keys),
        ("tokens (`jwt_keys`)", present.jwt != new.jwt),
    ];
    new.host.clone_from(&present.host);
    new.port = present.port;
    new.protocols.clone_from(&present.protocols);
    new.more_ports.clone_from(&present.more_ports);
    new.only_protocols = present.only_protocols;
    new.http.clone_from(&present.http);
    new.env.clone_from(&present.env);
    new.log = present.log;
    new.monitoring.clone_from(&present.monitoring);
    new.telemetry.clone_from(&present.telemetry);
    new.tls.clone_from(&present.tls);
    new.api_keys.clone_from(&present.api_keys);
    new.jwt.clone_from(&present.jwt);
    let named = differ.into_iter().filter(|(_, differs)| *differs);
    named.map(|(what, _)| what).collect()
}

#[cfg(test)]
mod tests;
