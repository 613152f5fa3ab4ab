//! Keeps one process of a flow alive, from its first start to the end of the flow.
//!
//! ```text
//!             ┌──── wait (backoff.rs) ◄───┐
//!             ▼                           │ died, was killed, or was not ready in time
//! start ──► starting ──ready──► serving ──┤
//!             │                           └─► given up: too often in a row
//!             └─► failed: it never was ready, so the flow cannot start
//! ```
//!
//! An order to stop is obeyed in every state. Each keeper owns its process and nothing else; what it
//! meets it reports to `launcher.rs`, which knows all of them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use crate::backoff::{Backoff, Verdict};
use crate::ended::Ended;
use crate::event::{Event, Member};
use crate::local::{Child, StartError, write_line};
use crate::post::{Post, Role};
use crate::ready::Ready;

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

/// What became of a post.
#[derive(Debug)]
pub(crate) enum Report {
    /// Its process is ready for the first time.
    Ready(Member),
    /// Its process was never ready.
    Failed(StartError),
    /// It was started too often in vain.
    GivenUp(Role),
}

/// What a gateway waits for on its standard input: a line of JSON, once every address is known.
pub(crate) type Placed = watch::Receiver<Option<Arc<str>>>;

/// Who holds a post.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) post: Post,
    pub(crate) placed: Placed,
    pub(crate) orders: watch::Receiver<Order>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) reports: mpsc::Sender<Report>,
}

/// How one life of the process ended.
enum Life {
    /// It was told to stop and did.
    Stopped,
    /// It never was ready.
    NeverReady(StartError),
    /// It was ready for some time and then ended by itself.
    Died { ended: Ended, served: Duration },
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
                Life::NeverReady(error) if !was_ready => {
                    return self.report(Report::Failed(error)).await;
                }
                Life::NeverReady(_) => Duration::ZERO,
                Life::Died { served, .. } => served,
            };
            let next = backoff.died(served);
            self.tell(&life, next);
            if self.obey(next).await.is_break() {
                return;
            }
        }
    }

    async fn live(&mut self, was_ready: &mut bool) -> Life {
        let started = Instant::now();
        let events = if self.post.quiet {
            deaf()
        } else {
            self.events.clone()
        };
        let post = &self.post;
        let mut child = match Child::start(&post.name, &post.invocation, post.port, events) {
            Ok(child) => child,
            Err(error) => return Life::NeverReady(error),
        };
        let ready = match self.start(&mut child).await {
            Some(Ok(ready)) => ready,
            Some(Err(error)) => return Life::NeverReady(error),
            None => return self.stop(child, STARTING_GRACE).await,
        };
        self.ready(&child, ready, started.elapsed(), was_ready)
            .await;
        self.serve(child).await
    }

    /// From the start of the process until it is ready; none: told to stop.
    async fn start(&mut self, child: &mut Child) -> Option<Result<Ready, StartError>> {
        let limit = self.post.timeout_ready;
        let placed = self.placed.clone();
        let readied = async {
            if let Some(ended) = feed(child, placed).await {
                return Err(ended);
            }
            child.ready(limit).await
        };
        tokio::select! {
            outcome = readied => Some(outcome),
            () = told_to_stop(&mut self.orders) => None,
        }
    }

    async fn ready(&mut self, child: &Child, ready: Ready, took: Duration, was_ready: &mut bool) {
        // Its next life is at the same place.
        self.post.port = ready.address.port();
        let member = Member {
            name: self.post.name.clone(),
            role: self.post.role,
            pid: child.pid(),
            address: ready.address,
            facts: ready.facts,
            took,
        };
        // Nobody listens: then nobody wants to know.
        drop(self.events.send(Event::Ready(member.clone())).await);
        if !std::mem::replace(was_ready, true) {
            self.report(Report::Ready(member)).await;
        }
    }

    async fn serve(&mut self, mut child: Child) -> Life {
        let since = Instant::now();
        tokio::select! {
            ended = child.ended() => Life::Died { ended, served: since.elapsed() },
            () = told_to_stop(&mut self.orders) => {
                let limit = self.post.grace + GRACE_SLACK;
                self.stop(child, limit).await
            }
        }
    }

    async fn stop(&mut self, mut child: Child, limit: Duration) -> Life {
        let stopped = tokio::select! {
            ended = child.stop(limit) => Some(ended),
            () = told(&mut self.orders, Order::Kill) => None,
        };
        let ended = match stopped {
            Some(ended) => ended,
            None => child.kill().await,
        };
        tracing::debug!(name = %self.post.name, cause = %ended.cause, "process has stopped");
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

    async fn obey(&mut self, next: Verdict) -> ControlFlow<()> {
        let Verdict::RestartAfter(wait) = next else {
            self.report(Report::GivenUp(self.post.role)).await;
            return ControlFlow::Break(());
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => ControlFlow::Continue(()),
            () = told_to_stop(&mut self.orders) => ControlFlow::Break(()),
        }
    }

    async fn report(&self, report: Report) {
        // The launcher reads reports until it has given the order to stop; later ones are of no interest.
        drop(self.reports.send(report).await);
    }
}

/// Gives the gateway its placement as soon as there is one; some: it ended while it waited.
async fn feed(child: &mut Child, mut placed: Placed) -> Option<StartError> {
    let mut stdin = child.take_stdin()?;
    let text: Arc<str> = tokio::select! {
        text = known(&mut placed) => text,
        error = child.ended_early() => return Some(error),
    };
    // If the child has ended meanwhile, its end says more than a broken pipe.
    drop(write_line(&mut stdin, &text).await);
    child.hold(stdin);
    None
}

async fn known(placed: &mut Placed) -> Arc<str> {
    let text = placed.wait_for(Option::is_some).await.ok();
    match text.and_then(|it| it.clone()) {
        Some(text) => text,
        // There is nobody left to place anything: the order to stop is on its way.
        None => std::future::pending().await,
    }
}

async fn told_to_stop(orders: &mut watch::Receiver<Order>) {
    told(orders, Order::Drain).await;
}

/// Returns when this order or a stronger one is given, or when nobody is left to give any.
pub(crate) async fn told(orders: &mut watch::Receiver<Order>, order: Order) {
    drop(orders.wait_for(|given| *given >= order).await.map(|_| ()));
}

/// A listener that has gone.
fn deaf() -> mpsc::Sender<Event> {
    mpsc::channel(1).0
}
