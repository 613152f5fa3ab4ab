//! Launches a flow on a thread of its own.
//!
//! The kernel ends a child when the *thread* ends that started it, and threads of a runtime come and go. So children are
//! started from a thread that lives as long as the flow does.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flow_spec::{LogStyle, Plan};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::change::source::PlanSource;
use crate::change::watch::follow;
use crate::control::ControlServer;
use crate::docker::context::{DockerContext, DockerOptions};
use crate::event::EventSender;
use crate::logs::log_files::{LogFiles, LogWriter};
use crate::logs::relay::LogSinks;
use crate::process::system::SystemBackend;
use crate::spec::environment::Environment;
use crate::spec::invocation::{Programs, SharedOptions};
use crate::state::directory::StateDirectory;
use crate::state::listen_sockets::ListenSockets;
use crate::state::log_filters::LogFilters;
use crate::state::sandbox_folders::SandboxFolders;
use crate::state::status_sockets::StatusSockets;
use crate::supervisor::backoff::RestartPolicy;
use crate::supervisor::error::LaunchError;
use crate::supervisor::lifecycle::Lifecycle;
use crate::supervisor::liveness::LivenessProbe;
use crate::supervisor::preparation::Preparation;
use crate::supervisor::shutdown::{self, Shutdown};
use crate::supervisor::{Supervisor, SupervisorOptions};

pub use crate::supervisor::lifecycle::StartedFlow;

/// What is to run, and how.
#[derive(Debug)]
pub struct Launch {
    /// The flow. Devices that replicas take in turn are [expanded](crate::round_robin::expanded).
    pub plan: Plan,
    /// The programs of the flow.
    pub programs: Programs,
    /// Time for requests in progress to finish when the flow stops, first in the gateway and then in the executors; and
    /// in a process that is replaced.
    pub grace: Duration,
    /// The log format of processes for which the plan names none.
    pub log: LogStyle,
    /// How processes that exit are restarted.
    pub restart_policy: RestartPolicy,
    /// How processes that hang are found.
    pub liveness: LivenessProbe,
    /// The directory for log files and the control socket; `None` for a flow with neither.
    pub state_directory: Option<StateDirectory>,
    /// The files that the plan can be read from again.
    pub source: Option<PlanSource>,
    /// Work that makes the plan that is started, such as building executors; `None` to start `plan` as it is. Until the
    /// work is done, `plan` names the processes that will start.
    pub preparation: Option<Preparation>,
    /// What processes may inherit; the plan says what each does.
    pub environment: Environment,
    /// The Docker engine of containers.
    pub docker: DockerOptions,
}

impl Launch {
    /// A flow with defaults, without log files and control socket, whose processes inherit no environment.
    #[must_use]
    pub fn new(plan: Plan, programs: Programs) -> Self {
        Self {
            plan,
            programs,
            grace: Duration::from_secs(10),
            log: LogStyle::Text,
            restart_policy: RestartPolicy::default(),
            liveness: LivenessProbe::default(),
            state_directory: None,
            source: None,
            preparation: None,
            environment: Environment::default(),
            docker: DockerOptions::default(),
        }
    }

    fn shared(&self) -> SharedOptions {
        SharedOptions {
            programs: self.programs.clone(),
            grace: self.grace,
            log: self.log,
            restart_policy: self.restart_policy,
            flow: self.plan.name.clone(),
            state_directory: {
                let directory = self.state_directory.as_ref();
                directory.and_then(|it| std::path::absolute(it.path()).ok())
            },
        }
    }
}

/// A flow that was launched. Its processes end when this is dropped.
#[derive(Debug)]
pub struct RunningFlow {
    shutdown: watch::Sender<Shutdown>,
    started: oneshot::Receiver<Result<StartedFlow, LaunchError>>,
    ended: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl RunningFlow {
    /// Launches a flow. Lines and events of its processes go to `events`. Lines that are not received fast enough are
    /// dropped and counted; no process ever waits for the receiver.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn launch(launch: Launch, events: EventSender) -> io::Result<Self> {
        let (shutdown, _) = watch::channel(Shutdown::None);
        let (started_sender, started) = oneshot::channel();
        let (ended_sender, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let state = OpenState::open(launch.state_directory.as_ref(), &runtime)?;
        let flow = FlowThread {
            launch,
            events,
            state,
            shutdown: shutdown.clone(),
        };
        let run = move || {
            flow.run(runtime, started_sender);
            // Without a receiver nothing waits for the end.
            ended_sender.send(()).ok();
        };
        let thread = thread::Builder::new()
            .name("supervisor".to_owned())
            .spawn(run)?;
        Ok(Self {
            shutdown,
            started,
            ended,
            thread: Some(thread),
        })
    }

    /// Waits until the flow serves. To be called once.
    ///
    /// # Errors
    /// If a process could not be started or never became ready. Then no process is left.
    pub async fn started(&mut self) -> Result<StartedFlow, LaunchError> {
        let started = (&mut self.started).await;
        started.unwrap_or(Err(LaunchError::Supervisor))
    }

    /// Waits until no process is left. To be called once.
    ///
    /// # Errors
    /// If the supervisor panicked.
    pub async fn ended(&mut self) -> Result<(), LaunchError> {
        let ended = (&mut self.ended).await;
        ended.map_err(|_| LaunchError::Supervisor)
    }

    /// Requests the shutdown. Requests in progress finish, within the grace period.
    pub fn stop(&self) {
        shutdown::request(&self.shutdown, Shutdown::Drain);
    }

    /// Ends every process at once.
    pub fn kill(&self) {
        shutdown::request(&self.shutdown, Shutdown::Kill);
    }
}

impl Drop for RunningFlow {
    /// Ends what still runs, and waits for it: a moment, because nothing may finish any more.
    fn drop(&mut self) {
        self.kill();
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) {
            tracing::error!("the supervisor of the flow panicked");
        }
    }
}

/// What the thread of a flow runs.
struct FlowThread {
    launch: Launch,
    events: EventSender,
    state: OpenState,
    shutdown: watch::Sender<Shutdown>,
}

impl FlowThread {
    fn run(self, runtime: Runtime, started: oneshot::Sender<Result<StartedFlow, LaunchError>>) {
        let shared = self.launch.shared();
        let launch = self.launch;
        // The directory stays locked until nothing of the flow is left.
        let _locked = launch.state_directory;
        let (log_files, log_writer) = self.state.log_files.unzip();
        let backend = SystemBackend::new(DockerContext::new(launch.docker), launch.environment);
        backend.prepare_control_groups(&launch.plan);
        let options = SupervisorOptions {
            shared,
            sinks: LogSinks {
                events: Some(self.events),
                files: log_files,
            },
            liveness: launch.liveness,
            backend: Arc::new(backend),
            log_filters: self.state.log_filters,
            status_sockets: self.state.status_sockets,
            listen_sockets: self.state.listen_sockets,
            sandbox_folders: self.state.sandbox_folders,
        };
        let supervisor = Arc::new(Supervisor::new(launch.plan, options));
        let control = ControlServer {
            listener: self.state.listener,
            supervisor: supervisor.clone(),
            source: launch.source.clone(),
            shutdown: self.shutdown.clone(),
            sessions: TaskTracker::new(),
        };
        let lifecycle = Lifecycle {
            supervisor: supervisor.clone(),
            preparation: launch.preparation,
            shutdown: self.shutdown.subscribe(),
        };
        runtime.block_on(async {
            let follow = follow_files(launch.source, &supervisor);
            tokio::select! {
                () = lifecycle.run(started, follow) => {}
                never = control.serve() => match never {},
            }
        });
        // Ends the sessions of callers that wait for the end, and abandons work on other threads.
        runtime.shutdown_background();
        drop((control, supervisor));
        if let Some(writer) = log_writer {
            writer.finish();
        }
    }
}

/// Follows the flow's files if the plan that was started says so.
async fn follow_files(source: Option<PlanSource>, supervisor: &Supervisor) {
    let source = source.filter(|_| supervisor.plan().reload);
    match follow(source, supervisor).await {}
}

/// The open files of a state directory.
struct OpenState {
    log_files: Option<(LogFiles, LogWriter)>,
    log_filters: Option<LogFilters>,
    status_sockets: Option<StatusSockets>,
    listen_sockets: Option<ListenSockets>,
    sandbox_folders: Option<SandboxFolders>,
    listener: Option<UnixListener>,
}

impl OpenState {
    fn open(directory: Option<&StateDirectory>, runtime: &Runtime) -> io::Result<Self> {
        let Some(directory) = directory else {
            return Ok(Self {
                log_files: None,
                log_filters: None,
                status_sockets: None,
                listen_sockets: None,
                sandbox_folders: None,
                listener: None,
            });
        };
        let _entered = runtime.enter();
        let listener = directory.listen().and_then(|listener| {
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener)
        });
        let warn = |error: &io::Error| {
            tracing::warn!(%error, "the flow has no control socket: commands such as `flow ps` cannot reach it, and its executors listen on ports");
        };
        let listener = listener.inspect_err(warn).ok();
        // Where one socket is not possible, others are not either.
        let sockets = listener
            .is_some()
            .then(|| ListenSockets::open(directory.path()));
        Ok(Self {
            listener,
            log_filters: Some(LogFilters::open(directory.path())?),
            status_sockets: Some(StatusSockets::open(directory.path())?),
            listen_sockets: sockets.transpose()?,
            sandbox_folders: Some(SandboxFolders::open(directory.path())?),
            log_files: Some(LogFiles::start(StateDirectory::logs(directory.path()))?),
        })
    }
}
