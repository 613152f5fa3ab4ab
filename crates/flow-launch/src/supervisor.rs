//! Keeps the processes of a flow running, and sends their addresses to the gateway.
//!
//! ```text
//! lifecycle.rs       a flow from its start to its shutdown
//!   preparation.rs     what comes before the start, such as building executors
//! supervisor.rs      all processes: started, listed, placed, stopped
//!   task.rs            one process: started, watched, restarted
//!     backoff.rs         when is it restarted? pure
//!     liveness.rs        does it still answer?
//!     placement_feed.rs  placements for the gateway
//!   handle.rs, status.rs, shutdown.rs   how others see a process, and stop it
//!   change_lock.rs     one change at a time
//!   placement.rs       the addresses of a node's processes: pure
//! ```
//!
//! Many parts read the supervisor's table of processes: the control socket, the lifecycle, changes. One change at a time
//! replaces entries of it.

pub(crate) mod backoff;
pub(crate) mod change_lock;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod handle;
pub(crate) mod lifecycle;
pub(crate) mod liveness;
pub(crate) mod placement;
mod placement_feed;
pub(crate) mod preparation;
pub(crate) mod shutdown;
pub(crate) mod status;
mod task;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow_process::ListenAddress;
use flow_spec::{NodeAddresses, Placement, Plan};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::event::FlowEvent;
use crate::logs::relay::LogSinks;
use crate::process::backend::ProcessBackend;
use crate::spec::invocation::SharedOptions;
use crate::spec::ports::ListenAt;
use crate::spec::process_spec::ProcessSpec;
use crate::spec::role::Role;
use crate::state::listen_sockets::{ListenSocket, ListenSockets};
use crate::state::log_filters::LogFilters;
use crate::state::sandbox_folders::{SandboxFolders, socket_in};
use crate::state::status_sockets::StatusSockets;
use crate::supervisor::change_lock::ChangeLock;
use crate::supervisor::handle::ProcessHandle;
use crate::supervisor::liveness::LivenessProbe;
use crate::supervisor::placement_feed::{PlacementFeed, VersionedPlacement};
use crate::supervisor::shutdown::{Shutdown, ShutdownSignals, wait_for};
use crate::supervisor::status::ProcessStatus;
use crate::supervisor::task::ProcessTask;

/// Supervises all processes of a flow.
pub(crate) struct Supervisor {
    pub(crate) shared: SharedOptions,
    table: Mutex<ProcessTable>,
    gateways: ProcessGroup,
    executors: ProcessGroup,
    sinks: LogSinks,
    liveness: LivenessProbe,
    backend: Arc<dyn ProcessBackend>,
    /// The log filters of processes; `None` for a flow without a state directory.
    pub(crate) log_filters: Option<LogFilters>,
    /// The sockets at which processes report their status; `None` for a flow without a state directory.
    status_sockets: Option<StatusSockets>,
    /// Where executors listen; `None` for a flow without a state directory, whose executors listen at ports.
    listen_sockets: Option<ListenSockets>,
    /// The folders of sandboxed processes; `None` for a flow without a state directory.
    sandbox_folders: Option<SandboxFolders>,
    placements: watch::Sender<Option<VersionedPlacement>>,
    settled: watch::Sender<u64>,
    pub(crate) change_lock: ChangeLock,
}

/// What a supervisor needs besides a plan.
pub(crate) struct SupervisorOptions {
    pub(crate) shared: SharedOptions,
    pub(crate) sinks: LogSinks,
    pub(crate) liveness: LivenessProbe,
    pub(crate) backend: Arc<dyn ProcessBackend>,
    pub(crate) log_filters: Option<LogFilters>,
    pub(crate) status_sockets: Option<StatusSockets>,
    pub(crate) listen_sockets: Option<ListenSockets>,
    pub(crate) sandbox_folders: Option<SandboxFolders>,
}

/// The plan, and the processes that run it.
#[derive(Debug)]
struct ProcessTable {
    plan: Plan,
    gateway: Option<ProcessHandle>,
    /// In the plan's order.
    executors: Vec<ProcessHandle>,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").finish_non_exhaustive()
    }
}

impl Supervisor {
    pub(crate) fn new(plan: Plan, options: SupervisorOptions) -> Self {
        Self {
            shared: options.shared,
            table: Mutex::new(ProcessTable {
                plan,
                gateway: None,
                executors: Vec::new(),
            }),
            gateways: ProcessGroup::new(),
            executors: ProcessGroup::new(),
            sinks: options.sinks,
            liveness: options.liveness,
            backend: options.backend,
            log_filters: options.log_filters,
            status_sockets: options.status_sockets,
            listen_sockets: options.listen_sockets,
            sandbox_folders: options.sandbox_folders,
            placements: watch::Sender::new(None),
            settled: watch::Sender::new(0),
            change_lock: ChangeLock::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, ProcessTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn plan(&self) -> Plan {
        self.table().plan.clone()
    }

    /// The executor processes, in the plan's order.
    pub(crate) fn executors(&self) -> Vec<ProcessHandle> {
        self.table().executors.clone()
    }

    /// The gateway, once it was started.
    pub(crate) fn gateway(&self) -> Option<ProcessHandle> {
        self.table().gateway.clone()
    }

    /// Starts a process. It is not part of the flow until it is in the table.
    pub(crate) fn start(&self, spec: ProcessSpec) -> ProcessHandle {
        let at = self.free_place(&spec);
        self.start_at(spec, at)
    }

    /// Where a process with this spec may listen beside all others.
    pub(crate) fn free_place(&self, spec: &ProcessSpec) -> ListenAt {
        let sockets = self.listen_sockets.as_ref().filter(|_| spec.at_socket);
        let folders = self.folders_for(spec);
        ListenAt {
            ports: spec.ports,
            socket: sockets.map(|it| match folders {
                Some(folders) => socket_in(&folders.path(&spec.name)),
                None => it.path(&spec.name),
            }),
        }
    }

    /// Where a process with this spec gets a folder of its own; `None` if it gets none.
    fn folders_for(&self, spec: &ProcessSpec) -> Option<&SandboxFolders> {
        let folders = self.sandbox_folders.as_ref();
        folders.filter(|_| spec.invocation.sandbox.is_some())
    }

    /// Starts a process that is to listen there.
    pub(crate) fn start_at(&self, spec: ProcessSpec, at: ListenAt) -> ProcessHandle {
        let (group, feed) = match spec.role {
            Role::Gateway => {
                let feed = PlacementFeed::new(self.placements.subscribe(), self.settled.clone());
                (&self.gateways, Some(feed))
            }
            Role::Executor { .. } => (&self.executors, None),
        };
        let (shutdown, own) = watch::channel(Shutdown::None);
        let (status_sender, status) = watch::channel(ProcessStatus::starting());
        let (log_filter_sender, log_filter) = watch::channel(None);
        let filter_file = self.log_filters.as_ref().map(|it| it.file(&spec.name));
        let status_socket = self.status_sockets.as_ref().map(|it| it.of(&spec.name));
        let sandbox_folder = self.folders_for(&spec).map(|folders| {
            let of_socket = at.socket.as_deref().and_then(Path::parent);
            of_socket.map_or_else(|| folders.path(&spec.name), Path::to_owned)
        });
        let mut sinks = self.sinks.clone();
        if spec.quiet {
            sinks.events = None;
        }
        let task = ProcessTask {
            ports: at.ports,
            listen_socket: at.socket.map(ListenSocket),
            sandbox_folder,
            shutdown: ShutdownSignals {
                own,
                group: group.shutdown.subscribe(),
            },
            status: status_sender,
            sinks,
            liveness: self.liveness,
            feed,
            backend: self.backend.clone(),
            filter_file,
            status_socket,
            log_filter: log_filter_sender,
            spec: spec.clone(),
        };
        group.tasks.spawn(task.run());
        ProcessHandle {
            spec: Arc::new(spec),
            shutdown,
            status,
            log_filter,
        }
    }

    pub(crate) fn set_gateway(&self, gateway: ProcessHandle) {
        self.table().gateway = Some(gateway);
    }

    /// Replaces the plan and the executors that run it.
    pub(crate) fn set_executors(&self, plan: Plan, executors: Vec<ProcessHandle>) {
        let mut table = self.table();
        table.plan = plan;
        table.executors = executors;
    }

    /// Sends the gateway a new placement. Returns its version, see [`Supervisor::settled`].
    pub(crate) fn place(&self) -> (u64, Placement) {
        self.place_without(None)
    }

    /// The same without an absent process, where its shard has others.
    pub(crate) fn place_without(&self, absent: Option<&Role>) -> (u64, Placement) {
        let table = self.table();
        let placement = table.placement(absent);
        let json =
            serde_json::to_string(&placement.for_gateway()).expect("a placement is always JSON");
        let mut version = 0;
        self.placements.send_modify(|newest| {
            version = newest.as_ref().map_or(0, |it| it.version) + 1;
            let json = json.into();
            *newest = Some(VersionedPlacement { version, json });
        });
        (version, placement)
    }

    /// Waits until every request follows this version, or until the limit is over.
    pub(crate) async fn settled(&self, version: u64, limit: Duration) -> bool {
        let mut settled = self.settled.subscribe();
        let reached = settled.wait_for(|it| *it >= version);
        timeout(limit, reached).await.is_ok_and(|it| it.is_ok())
    }

    /// Sends the event that the flow serves, after the events of its start.
    pub(crate) fn announce_serving(&self) {
        self.sinks.send(FlowEvent::Serving);
    }

    /// Stops every process, against the direction of requests.
    pub(crate) async fn stop(&self, shutdown: &mut watch::Receiver<Shutdown>) {
        self.gateways.stop(shutdown).await;
        self.executors.stop(shutdown).await;
    }
}

impl ProcessTable {
    /// The addresses of all processes that were ever ready.
    fn placement(&self, absent: Option<&Role>) -> Placement {
        let processes: Vec<(Role, ListenAddress)> = self
            .executors
            .iter()
            .filter_map(|process| Some((process.spec.role.clone(), process.address()?)))
            .collect();
        Placement::new(self.plan.clone(), |at| {
            let node = self.plan.node(at);
            match node.colocated() {
                Some(_) => NodeAddresses::colocated(&node.name),
                None => placement::addresses(&processes, &node.name, absent),
            }
        })
    }
}

/// Processes that are stopped together.
#[derive(Debug)]
struct ProcessGroup {
    shutdown: watch::Sender<Shutdown>,
    tasks: TaskTracker,
}

impl ProcessGroup {
    fn new() -> Self {
        Self {
            shutdown: watch::Sender::new(Shutdown::None),
            tasks: TaskTracker::new(),
        }
    }

    async fn stop(&self, requested: &mut watch::Receiver<Shutdown>) {
        self.shutdown.send_replace(Shutdown::Drain);
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => return,
            () = wait_for(requested, Shutdown::Kill) => {}
        }
        self.shutdown.send_replace(Shutdown::Kill);
        self.tasks.wait().await;
    }
}
