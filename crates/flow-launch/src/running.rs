//! A running flow, as whoever started it holds it.
//!
//! Processes are started from a thread of our own that lives as long as the flow does: the kernel ends
//! a child when the *thread* dies that started it, and threads of an async runtime come and go.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flow_net::BindError;
use flow_spec::{Log, Placement, Plan};
use tokio::sync::{mpsc, oneshot, watch};

use crate::backoff::Restarts;
use crate::command::{Common, Programs};
use crate::event::{Event, Member};
use crate::launcher;
use crate::local::StartError;
use crate::supervise::Order;

/// What is to run, and how.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The flow.
    pub plan: Plan,
    /// The programs it is made of.
    pub programs: Programs,
    /// What is under way may take this long when the flow stops: in the gateway first, then in the
    /// executors.
    pub grace: Duration,
    /// How processes log of which the plan says nothing.
    pub log: Log,
    /// How processes that die are started again.
    pub restarts: Restarts,
}

impl Launch {
    pub(crate) fn into_parts(self) -> (Plan, Common) {
        let common = Common {
            programs: self.programs,
            grace: self.grace,
            log: self.log,
            restarts: self.restarts,
        };
        (self.plan, common)
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
    /// A process was never ready.
    #[error(transparent)]
    Start(StartError),
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
        let run = move || {
            let flow = launcher::run(launch, events, told, tell_started);
            // Nobody waits: then nobody wants to know how it ended.
            drop(tell_ended.send(runtime.block_on(flow)));
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
