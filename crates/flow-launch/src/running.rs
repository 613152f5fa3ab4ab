//! A running flow, as whoever started it holds it.
//!
//! Processes are started from a thread of our own that lives as long as the flow does: the kernel ends
//! a child when the *thread* dies that started it, and threads of an async runtime come and go.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flow_net::BindError;
use flow_spec::{Log, Placement, Plan};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::backoff::Restarts;
use crate::child::StartError;
use crate::command::{Common, Programs};
use crate::control::Control;
use crate::crew::{Crew, Kit};
use crate::dock::Docker;
use crate::event::{Event, Member};
use crate::follow::Source;
use crate::home::Home;
use crate::journal::Journal;
use crate::launcher::{self, Flow};
use crate::liveness::Liveness;
use crate::post::NodeDevices;
use crate::preparation::Preparation;
use crate::supervise::Order;

/// What is to run, and how.
#[derive(Debug)]
pub struct Launch {
    /// The flow. Where replicas take devices in turn, the choice is [written out](crate::rr::written_out).
    pub plan: Plan,
    /// The programs it is made of.
    pub programs: Programs,
    /// What is under way may take this long when the flow stops, first in the gateway and then in the
    /// executors; and as long in a process that is replaced.
    pub grace: Duration,
    /// How processes log of which the plan says nothing.
    pub log: Log,
    /// How processes that die are started again.
    pub restarts: Restarts,
    /// How processes that hang are found.
    pub liveness: Liveness,
    /// Where its log files and its control socket are; none: it has neither.
    pub home: Option<Home>,
    /// Where its plan can be read again; none: nowhere.
    pub source: Option<Source>,
    /// Work that makes the plan which is started, such as building executors; none: `plan` is started as it
    /// is. Until it is done, `plan` says which processes there are to be.
    pub preparation: Option<Preparation>,
    /// The engine of its containers, where it has any.
    pub docker: Docker,
}

impl Launch {
    /// A flow with everything at its default, without log files and control socket.
    #[must_use]
    pub fn new(plan: Plan, programs: Programs) -> Self {
        Self {
            plan,
            programs,
            grace: Duration::from_secs(10),
            log: Log::Text,
            restarts: Restarts::default(),
            liveness: Liveness::default(),
            home: None,
            source: None,
            preparation: None,
            docker: Docker::default(),
        }
    }

    fn common(&self) -> Common {
        Common {
            programs: self.programs.clone(),
            grace: self.grace,
            log: self.log,
            restarts: self.restarts,
            flow: self.plan.name.clone(),
        }
    }
}

/// A flow that serves.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The process clients talk to.
    pub gateway: Member,
    /// Every executor process, in the order of the plan.
    pub executors: Vec<Member>,
    /// Where everything is.
    pub placement: Placement,
}

/// Why a flow does not run, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The gateway's port cannot be had.
    #[error("the gateway's address cannot be had")]
    Port {
        /// The port.
        port: u16,
        /// Why.
        source: BindError,
    },
    /// The port for the gateway's metrics cannot be had.
    #[error("the gateway's metrics cannot be shown (`port_monitoring`)")]
    MetricsPort {
        /// The port.
        port: u16,
        /// Why.
        source: BindError,
    },
    /// Replicas cannot be given the devices that the file says.
    #[error(transparent)]
    Devices(NodeDevices),
    /// What comes before the start of its processes has failed.
    #[error(transparent)]
    Unprepared(Box<dyn std::error::Error + Send + Sync>),
    /// A process was never ready.
    #[error(transparent)]
    Start(Arc<StartError>),
    /// It was stopped before it served.
    #[error("the flow was stopped before it was ready")]
    Stopped,
    /// The gateway died too often.
    #[error("the gateway died too often and is given up; its last lines stand above")]
    GivenUp,
    /// The thread that starts the processes is gone.
    #[error("the launcher has failed")]
    Launcher,
}

/// The processes of a flow. They end when this is dropped.
#[derive(Debug)]
pub struct Running {
    orders: watch::Sender<Order>,
    started: oneshot::Receiver<Result<Started, Failed>>,
    ended: oneshot::Receiver<Result<(), Failed>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the processes of a flow. Lines of theirs and news of them go to `events`, which must be
    /// read all the time: a full channel slows the processes down.
    ///
    /// # Errors
    /// If the kernel gives us no thread, or nothing to wait for events with.
    pub fn launch(launch: Launch, events: mpsc::Sender<Event>) -> io::Result<Self> {
        let (orders, told) = watch::channel(Order::Serve);
        let (tell_started, started) = oneshot::channel();
        let (tell_ended, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let common = launch.common();
        let outfit = Outfit::of(launch.home.as_ref(), &runtime)?;
        let stop = orders.clone();
        let run = move || {
            let (journal, writer) = outfit.journal.unzip();
            // Keeps its lock until nothing of the flow is left.
            let home = launch.home;
            let crew = Arc::new(Crew::new(
                launch.plan,
                Kit {
                    common,
                    events,
                    journal,
                    liveness: launch.liveness,
                    docker: launch.docker,
                },
            ));
            let control = Control {
                listener: outfit.listener,
                crew: crew.clone(),
                source: launch.source.clone(),
                stop,
                callers: TaskTracker::new(),
            };
            let flow = Flow {
                crew,
                source: launch.source,
                preparation: launch.preparation,
                orders: told,
            };
            let ended = runtime.block_on(launcher::run(flow, &control, tell_started));
            // Callers that wait for the end learn of it by their connections' end.
            // Nobody waits for a file that is still being read.
            runtime.shutdown_background();
            drop(control);
            finish(writer);
            drop(home);
            // Nobody waits: then nobody wants to know how it ended.
            drop(tell_ended.send(ended));
        };
        let thread = thread::Builder::new()
            .name("launcher".to_owned())
            .spawn(run)?;
        Ok(Self {
            orders,
            started,
            ended,
            thread: Some(thread),
        })
    }

    /// Waits until the flow serves. To be called once.
    ///
    /// # Errors
    /// If a process could not be started or was never ready. Nothing runs then any more.
    pub async fn started(&mut self) -> Result<Started, Failed> {
        (&mut self.started).await.unwrap_or(Err(Failed::Launcher))
    }

    /// Waits until no process is left: after a stop, or because the flow has failed. To be called once.
    ///
    /// # Errors
    /// If the flow ended by itself.
    pub async fn ended(&mut self) -> Result<(), Failed> {
        (&mut self.ended).await.unwrap_or(Err(Failed::Launcher))
    }

    /// Begins the orderly end. What is under way is finished, within the grace.
    pub fn stop(&self) {
        self.order(Order::Drain);
    }

    /// Ends every process at once.
    pub fn kill(&self) {
        self.order(Order::Kill);
    }

    fn order(&self, order: Order) {
        self.orders.send_modify(|given| *given = order.max(*given));
    }
}

/// What a flow with a folder has in it.
struct Outfit {
    journal: Option<(Journal, JoinHandle<()>)>,
    listener: Option<UnixListener>,
}

impl Outfit {
    fn of(home: Option<&Home>, runtime: &Runtime) -> io::Result<Self> {
        let Some(home) = home else {
            return Ok(Self {
                journal: None,
                listener: None,
            });
        };
        let _entered = runtime.enter();
        let listener = home.listen().and_then(|listener| {
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener)
        });
        let refused = |error: &io::Error| {
            tracing::warn!(%error, "the flow has no control socket: `flow ps` and its like do not reach it");
        };
        Ok(Self {
            listener: listener.inspect_err(refused).ok(),
            journal: Some(Journal::start(Home::logs(home.folder()))?),
        })
    }
}

/// Waits until every line is in its file.
fn finish(writer: Option<JoinHandle<()>>) {
    if writer.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("lines of log files were lost");
    }
}

impl Drop for Running {
    /// Ends what still runs, and waits for it: a moment, for nothing is finished any more.
    fn drop(&mut self) {
        self.kill();
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) {
            tracing::error!("the launcher panicked");
        }
    }
}
