//! Keeps one process of a flow alive, from its first start until it is not wanted any more.
//!
//! ```text
//!             ┌──── wait (backoff.rs) ◄───┐
//!             ▼                           │ died, was killed, hung, or was not ready in time
//! start ──► starting ──ready──► serving ──┤
//!             │                           └─► given up: too often in a row
//!             └─► failed: it never was ready
//! ```
//!
//! An order to stop is obeyed in every state. Each keeper owns its process and nothing else; what it
//! meets it shows in a [`Seen`], which `crew.rs` looks at.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::Chain;
use tokio::sync::watch;

use crate::backoff::{Backoff, Verdict};
use crate::child::{Child, Start, StartError};
use crate::command::Ports;
use crate::dock::Dock;
use crate::ended::Ended;
use crate::event::{Event, Member};
use crate::feed::Feed;
use crate::liveness::{self, Liveness};
use crate::post::Post;
use crate::ready::Ready;
use crate::relay::{Outlets, Relay};
use crate::seen::{Seen, Stage};

/// What a process that was never ready gets to end in: nothing is under way in it.
const STARTING_GRACE: Duration = Duration::from_secs(1);

/// A process ends itself when its grace is over; this is what it may take to do so.
const GRACE_SLACK: Duration = Duration::from_secs(2);

/// What the processes of a flow are told. Later ones outdo earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Serve.
    Serve,
    /// Finish what is under way, and end.
    Drain,
    /// End now.
    Kill,
}

/// Who gives a keeper orders: somebody for it alone, and somebody for all of its kind.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    pub(crate) own: watch::Receiver<Order>,
    pub(crate) group: watch::Receiver<Order>,
}

impl Orders {
    async fn told(&mut self, order: Order) {
        tokio::select! {
            () = told(&mut self.own, order) => {}
            () = told(&mut self.group, order) => {}
        }
    }
}

/// Who holds a post.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) post: Post,
    /// Where the process listened in its last life, or is to listen in its first.
    pub(crate) ports: Ports,
    pub(crate) orders: Orders,
    pub(crate) seen: watch::Sender<Seen>,
    pub(crate) outlets: Outlets,
    pub(crate) liveness: Liveness,
    /// What a gateway reads from its standard input.
    pub(crate) feed: Option<Feed>,
    pub(crate) dock: Arc<Dock>,
}

/// How one life of the process ended.
enum Life {
    /// It was told to stop and did.
    Stopped,
    /// It never was ready.
    NeverReady(StartError),
    /// It was ready for some time and then ended by itself.
    Died {
        pid: u32,
        ended: Ended,
        served: Duration,
    },
}

impl Keeper {
    /// Starts the process, and again whenever it ends, until told otherwise.
    pub(crate) async fn keep(mut self) {
        let mut backoff = Backoff::new(self.post.restarts);
        let mut was_ready = false;
        loop {
            let life = self.live(&mut was_ready).await;
            let served = match life {
                Life::Stopped => return,
                Life::NeverReady(error) if !was_ready => return self.fail(error).await,
                Life::NeverReady(_) => Duration::ZERO,
                Life::Died { served, .. } => served,
            };
            let next = backoff.died(served);
            self.tell(&life, next);
            self.note(died(&life, next)).await;
            if self.obey(next).await.is_break() {
                return;
            }
        }
    }

    async fn live(&mut self, was_ready: &mut bool) -> Life {
        let started = Instant::now();
        let restarts = self.seen.borrow().restarts;
        self.note(match restarts {
            0 => "starting".to_owned(),
            number => format!("starting again (restart {number})"),
        })
        .await;
        let mut child = match self.start_child().await {
            Some(Ok(child)) => child,
            Some(Err(error)) => return Life::NeverReady(error),
            None => return Life::Stopped,
        };
        let ready = match self.start(&mut child).await {
            Some(Ok(ready)) => ready,
            Some(Err(error)) => return Life::NeverReady(error),
            None => return self.stop(child, STARTING_GRACE).await,
        };
        *was_ready = true;
        let member = self.ready(&child, ready, started.elapsed()).await;
        self.serve(child, &member).await
    }

    /// None: told to stop before there was anything to start.
    async fn start_child(&mut self) -> Option<Result<Child, StartError>> {
        let dock = self.dock.clone();
        let start = Start {
            name: &self.post.name,
            invocation: &self.post.invocation,
            ports: self.ports,
            relay: Relay::new(self.post.name.clone(), self.outlets.clone()),
        };
        let berth = tokio::select! {
            berth = start.prepare(&dock) => berth,
            () = self.orders.told(Order::Drain) => return None,
        };
        Some(match berth {
            Ok(berth) => Child::start(start, berth).await,
            Err(error) => Err(error),
        })
    }

    /// From the start of the process until it is ready; none: told to stop.
    async fn start(&mut self, child: &mut Child) -> Option<Result<Ready, StartError>> {
        let limit = self.post.timeout_ready;
        let feed = &mut self.feed;
        let readied = async {
            if let Some(feed) = feed {
                tokio::select! {
                    () = feed.begin(child.take_stdin(), child.placed()) => {}
                    error = child.ended_early() => return Err(error),
                }
            }
            child.ready(limit).await
        };
        tokio::select! {
            outcome = readied => Some(outcome),
            () = self.orders.told(Order::Drain) => None,
        }
    }

    async fn ready(&mut self, child: &Child, ready: Ready, took: Duration) -> Member {
        // Its next life is at the same place.
        self.ports = Ports {
            serving: ready.address.port(),
            metrics: ready.metrics.map(|it| it.port()).or(self.ports.metrics),
        };
        let member = Member {
            name: self.post.name.clone(),
            role: self.post.role.clone(),
            pid: child.pid(),
            address: ready.address,
            metrics: ready.metrics,
            facts: ready.facts,
            took,
        };
        if let Some(feed) = &self.feed {
            feed.is_ready();
        }
        self.note(member.to_string()).await;
        // Heard of before it is counted on: what a test or a person sees comes in this order.
        self.outlets.tell(Event::Ready(member.clone())).await;
        self.seen.send_modify(|seen| {
            seen.stage = Stage::Ready;
            seen.since = Some(Instant::now());
            seen.member = Some(member.clone());
        });
        member
    }

    async fn serve(&mut self, mut child: Child, member: &Member) -> Life {
        let since = Instant::now();
        let silent = liveness::lost(self.liveness, member.reachable());
        let pid = member.pid;
        let stopped = tokio::select! {
            ended = child.ended() => {
                let served = since.elapsed();
                return Life::Died { pid, ended, served };
            }
            never = feed(&mut self.feed) => match never {},
            () = silent => false,
            () = self.orders.told(Order::Drain) => true,
        };
        if stopped {
            let limit = self.post.grace + GRACE_SLACK;
            return self.stop(child, limit).await;
        }
        tracing::warn!(name = %member.name, pid, "process does not answer and is killed");
        self.note(format!(
            "process {pid} does not answer health checks and is killed"
        ))
        .await;
        let ended = child.kill().await;
        let served = since.elapsed();
        Life::Died { pid, ended, served }
    }

    async fn stop(&mut self, mut child: Child, limit: Duration) -> Life {
        self.show(Stage::Stopping);
        let pid = child.pid();
        let stopped = tokio::select! {
            ended = child.stop(limit) => Some(ended),
            () = self.orders.told(Order::Kill) => None,
        };
        let ended = match stopped {
            Some(ended) => ended,
            None => child.kill().await,
        };
        tracing::debug!(name = %self.post.name, cause = %ended.cause, "process has stopped");
        self.note(format!("process {pid} {}", ended.cause)).await;
        Life::Stopped
    }

    fn tell(&self, life: &Life, next: Verdict) {
        let (why, last_lines): (&dyn std::fmt::Display, &[String]) = match life {
            Life::Stopped => return,
            Life::NeverReady(error) => (error, &[]),
            Life::Died { ended, .. } => (&ended.cause, ended.quoted()),
        };
        let name = &self.post.name;
        match next {
            Verdict::RestartAfter(wait) => {
                tracing::warn!(%name, %why, ?last_lines, ?wait, "process died and is started again");
            }
            Verdict::GiveUp => {
                tracing::error!(%name, %why, ?last_lines, "process died too often and is given up");
            }
        }
    }

    /// Writes to the log of the process what happens to it.
    async fn note(&self, text: String) {
        self.outlets.note(&self.post.name, text).await;
    }

    async fn obey(&mut self, next: Verdict) -> ControlFlow<()> {
        let Verdict::RestartAfter(wait) = next else {
            self.show(Stage::GivenUp);
            return ControlFlow::Break(());
        };
        self.show(Stage::Waiting);
        tokio::select! {
            () = tokio::time::sleep(wait) => {
                self.seen.send_modify(|seen| {
                    seen.stage = Stage::Starting;
                    seen.restarts += 1;
                });
                ControlFlow::Continue(())
            }
            () = self.orders.told(Order::Drain) => ControlFlow::Break(()),
        }
    }

    async fn fail(&self, error: StartError) {
        self.note(never_ready(&error)).await;
        self.seen.send_modify(|seen| {
            seen.stage = Stage::Failed;
            seen.failure = Some(Arc::new(error));
        });
    }

    fn show(&self, stage: Stage) {
        self.seen.send_modify(|seen| seen.stage = stage);
    }
}

/// How a process ended by itself, and what comes next.
fn died(life: &Life, next: Verdict) -> String {
    let how = how(life);
    match next {
        Verdict::RestartAfter(wait) => format!("{how}, starting again in {wait:?}"),
        Verdict::GiveUp => format!("{how}, given up after too many restarts"),
    }
}

/// How a process ended, in a line. What it wrote last stands in its log already.
fn how(life: &Life) -> String {
    match life {
        Life::Stopped => "stopped".to_owned(),
        Life::Died { pid, ended, .. } => format!("process {pid} {}", ended.cause),
        Life::NeverReady(error) => never_ready(error),
    }
}

fn never_ready(error: &StartError) -> String {
    match error {
        StartError::Ended { ended, .. } => format!("{} before it was ready", ended.cause),
        StartError::TooLate { limit, .. } => {
            format!("not ready within {limit:?} (`timeout_ready`) and killed")
        }
        error => Chain(error).to_string().replace('\n', "; "),
    }
}

async fn feed(feed: &mut Option<Feed>) -> Infallible {
    match feed {
        Some(feed) => feed.go_on().await,
        None => std::future::pending().await,
    }
}

/// Returns when this order or a stronger one is given, or when nobody is left to give any.
pub(crate) async fn told(orders: &mut watch::Receiver<Order>, order: Order) {
    drop(orders.wait_for(|given| *given >= order).await.map(|_| ()));
}
