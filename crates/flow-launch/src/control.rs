//! The control socket of a running flow: who is there, and what may be changed.
//!
//! A caller writes one question and reads answers until the last one; each is a line of JSON
//! (`wire.rs`). What a caller may do is decided by the folder that the socket lies in, which only its
//! owner may enter.

pub(crate) mod socket;
pub mod wire;

use std::convert::Infallible;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use self::wire::{Answer, Ask, Done, Listing, Process, Question};
use crate::change::{Change, SENTENCES_MAX, Tell, Unchanged};
use crate::crew::{Crew, Kept};
use crate::follow::Source;
use crate::post::{self, Role};
use crate::supervise::Order;

/// Callers at a time: people at terminals, and a script or two.
const CALLERS_MAX: usize = 32;

/// A question is shorter.
const QUESTION_LEN_MAX: u64 = 64 << 10;

/// A caller that connects has its question ready.
const QUESTION_WITHIN: Duration = Duration::from_secs(5);

/// Wait after an accept that failed: there are no file numbers left, and there may be soon.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A flow as its callers reach it.
pub(crate) struct Control {
    /// None where the flow has no folder.
    pub(crate) listener: Option<UnixListener>,
    pub(crate) crew: Arc<Crew>,
    pub(crate) source: Option<Source>,
    /// Through which the flow is told to stop.
    pub(crate) stop: watch::Sender<Order>,
    /// Those whose questions are not answered yet.
    pub(crate) callers: TaskTracker,
}

/// What one caller's question needs.
#[derive(Clone)]
struct Desk {
    crew: Arc<Crew>,
    source: Option<Source>,
    stop: watch::Sender<Order>,
}

impl Control {
    /// Takes callers for as long as it is polled; those it took are answered to the end of the flow. A
    /// change that was begun is not broken off by its caller's end.
    pub(crate) async fn serve(&self) -> Infallible {
        let Some(listener) = &self.listener else {
            return std::future::pending().await;
        };
        let desk = Desk {
            crew: self.crew.clone(),
            source: self.source.clone(),
            stop: self.stop.clone(),
        };
        loop {
            match listener.accept().await {
                // Whoever comes while so many are served finds a closed door, and may come again.
                Ok(_) if self.callers.len() >= CALLERS_MAX => {}
                Ok((caller, _)) => drop(self.callers.spawn(desk.clone().attend(caller))),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a caller of the control socket");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }
}

impl Desk {
    async fn attend(self, caller: UnixStream) {
        let (read, mut write) = caller.into_split();
        let question = async {
            let mut line = String::new();
            let mut read = BufReader::new(read.take(QUESTION_LEN_MAX));
            read.read_line(&mut line).await.map(|_| line)
        };
        let Ok(Ok(line)) = timeout(QUESTION_WITHIN, question).await else {
            return;
        };
        let (tell, mut sentences) = mpsc::channel(SENTENCES_MAX);
        let answer = self.answer(&line, Tell(tell));
        let mut answer = std::pin::pin!(answer);
        let last = loop {
            tokio::select! {
                biased;
                Some(sentence) = sentences.recv() => {
                    drop(say(&mut write, &Answer::Progress(sentence)).await);
                }
                last = &mut answer => break last,
            }
        };
        while let Ok(sentence) = sentences.try_recv() {
            drop(say(&mut write, &Answer::Progress(sentence)).await);
        }
        // A caller that has gone knows what he asked for.
        drop(say(&mut write, &last).await);
    }

    async fn answer(&self, line: &str, tell: Tell) -> Answer {
        match Question::parse(line) {
            Ok(ask) => self
                .obey(ask, tell)
                .await
                .map_or_else(|error| Answer::Refused(in_words(&error)), Answer::Done),
            Err(error) => Answer::Refused(error),
        }
    }

    async fn obey(&self, ask: Ask, tell: Tell) -> Result<Done, Refused> {
        match ask {
            Ask::Ps => Ok(Done::Listing(listing(&self.crew))),
            Ask::Restart { name } => {
                Change::begin(&self.crew, tell).await.restart(&name).await?;
                Ok(Done::Changed)
            }
            Ask::Scale { name, replicas } => {
                let change = Change::begin(&self.crew, tell).await;
                change.scale(&name, replicas).await?;
                Ok(Done::Changed)
            }
            Ask::Reload => {
                let source = self.source.as_ref().ok_or(Refused::NoFile)?;
                let change = Change::begin(&self.crew, tell).await;
                let plan = source.read().await.map_err(Refused::BadFile)?;
                change.reload(plan).await?;
                Ok(Done::Changed)
            }
            Ask::Down => {
                self.stop
                    .send_modify(|given| *given = Order::Drain.max(*given));
                // The end of the connection, which is that of the process, says that it is down.
                std::future::pending().await
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Unchanged(#[from] Unchanged),
    #[error("this flow was not made from a file that could be read again")]
    NoFile,
    #[error("the flow file cannot be used, and the flow runs on as it was: {0}")]
    BadFile(String),
}

/// An error with its causes.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

async fn say(write: &mut (impl AsyncWriteExt + Unpin), answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_string(answer).map_err(io::Error::other)?;
    line.push('\n');
    write.write_all(line.as_bytes()).await
}

fn listing(crew: &Crew) -> Listing {
    let gateway = crew.gateway();
    let all = crew.executors().into_iter().chain(gateway);
    let mut processes: Vec<Process> = all.map(|kept| process(&kept)).collect();
    let plan = crew.plan();
    if processes.is_empty() {
        let names = post::names(&plan, &crew.common);
        processes.extend(names.into_iter().map(|(name, role)| planned(&name, &role)));
    }
    Listing {
        flow: plan.name,
        processes,
    }
}

/// A process that will be started when the flow is prepared.
fn planned(name: &str, role: &Role) -> Process {
    Process {
        name: name.to_owned(),
        node: node(role),
        pid: None,
        state: wire::Stage::Starting,
        address: None,
        restarts: 0,
        uptime_seconds: None,
        memory_bytes: None,
    }
}

/// The node that a process works for.
fn node(role: &Role) -> Option<String> {
    match role {
        Role::Executor { node, .. } => Some(node.to_string()),
        Role::Gateway => None,
    }
}

fn process(kept: &Kept) -> Process {
    let seen = kept.seen();
    let lives = matches!(seen.stage, wire::Stage::Ready | wire::Stage::Stopping);
    let pid = seen.member.as_ref().filter(|_| lives).map(|it| it.pid);
    Process {
        name: kept.post.name.to_string(),
        node: node(&kept.post.role),
        pid,
        state: seen.stage,
        address: seen.member.as_ref().map(|member| member.address),
        restarts: seen.restarts,
        uptime_seconds: seen
            .since
            .filter(|_| lives)
            .map(|it| it.elapsed().as_secs_f64()),
        memory_bytes: pid.and_then(memory),
    }
}

/// Resident memory of a process.
fn memory(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}
