//! One child of the launcher: its start, what it says, and its end. It is a process, or a container.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use flow_docker::EngineError;
use tokio::io::AsyncRead;
use tokio::process::ChildStdin;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::command::{Invocation, Ports};
use crate::contained::{Berth, Inside};
use crate::dock::Dock;
use crate::ear::Ear;
use crate::ended::{Cause, Ended, write_lines};
use crate::image::BadImage;
use crate::local::Process;
use crate::ready::{BadReady, Ready};
use crate::relay::Relay;
use crate::volumes::BadVolume;

/// After its end a child's words are read for at most this long: what it started may hold its pipes.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

/// Why a process never became ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no process at all.
    #[error("cannot start `{name}` as `{program}`{}", remedy.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
    Spawn {
        /// The process's name.
        name: Arc<str>,
        /// The program.
        program: String,
        /// What to do, where that can be guessed.
        remedy: Option<String>,
        /// What the kernel says.
        source: io::Error,
    },
    /// The engine does not run its container.
    #[error("cannot start `{name}` from the image `{image}`")]
    Engine {
        /// The process's name.
        name: Arc<str>,
        /// The image.
        image: String,
        /// What the engine says.
        source: EngineError,
    },
    /// Its image holds no executor that we know.
    #[error("cannot start `{name}`")]
    Image {
        /// The process's name.
        name: Arc<str>,
        /// Why.
        source: BadImage,
    },
    /// Its container does not get its folders.
    #[error("cannot start `{name}`")]
    Volume {
        /// The process's name.
        name: Arc<str>,
        /// Why.
        source: BadVolume,
    },
    /// It ended first.
    #[error("`{name}` {ended}")]
    Ended {
        /// The process's name.
        name: Arc<str>,
        /// How, and its last words.
        ended: Ended,
    },
    /// It took too long and was killed.
    #[error("`{name}` was not ready within {limit:?} (`timeout_ready`) and was killed{}", Quote(.last_lines))]
    TooLate {
        /// The process's name.
        name: Arc<str>,
        /// How long it was given.
        limit: Duration,
        /// What it wrote last.
        last_lines: Vec<String>,
    },
    /// It speaks another language.
    #[error("`{name}` is no executor that flow can start")]
    Meaningless {
        /// The process's name.
        name: Arc<str>,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

struct Quote<'a>(&'a [String]);

impl std::fmt::Display for Quote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_lines(f, self.0)
    }
}

/// What is to be started.
#[derive(Debug)]
pub(crate) struct Start<'s> {
    pub(crate) name: &'s Arc<str>,
    pub(crate) invocation: &'s Invocation,
    pub(crate) ports: Ports,
    pub(crate) relay: Relay,
}

impl<'s> Start<'s> {
    /// Does what may take long and can be broken off: fetches an image.
    pub(crate) async fn prepare(&self, dock: &'s Dock) -> Result<Option<Berth<'s>>, StartError> {
        match &self.invocation.contained {
            None => Ok(None),
            Some(contained) => Berth::find(contained, self, dock).await.map(Some),
        }
    }
}

/// A child that was started.
#[derive(Debug)]
pub(crate) struct Child {
    name: Arc<str>,
    body: Body,
    /// Apart from its process, which would close it as soon as its end is waited for.
    stdin: Option<ChildStdin>,
    ready: oneshot::Receiver<Result<Ready, BadReady>>,
    placed: watch::Receiver<u64>,
    relay: Relay,
    relays: JoinSet<()>,
}

#[derive(Debug)]
enum Body {
    Process(Process),
    Container(Inside),
}

/// Through which a child tells of itself.
#[derive(Debug)]
pub(crate) struct Voice {
    pub(crate) relay: Relay,
    pub(crate) relays: JoinSet<()>,
    ear: Ear,
}

impl Voice {
    /// Listens to both of its streams.
    pub(crate) fn hear(
        mut self,
        stdout: impl AsyncRead + Unpin + Send + 'static,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> JoinSet<()> {
        self.relays
            .spawn(self.ear.listen(stdout, self.relay.clone()));
        self.relays.spawn(self.relay.all_errors(stderr));
        self.relays
    }

    /// Whoever finds out in another way that it is ready says it here.
    pub(crate) fn take_ready(&mut self) -> Option<oneshot::Sender<Result<Ready, BadReady>>> {
        self.ear.ready.take()
    }
}

impl Child {
    /// Starts a child. A process dies with the thread that calls this, for that is its parent.
    pub(crate) async fn start(
        start: Start<'_>,
        berth: Option<Berth<'_>>,
    ) -> Result<Self, StartError> {
        let (tell_ready, ready) = oneshot::channel();
        let (tell_placed, placed) = watch::channel(0);
        let voice = Voice {
            relay: start.relay.clone(),
            relays: JoinSet::new(),
            ear: Ear {
                ready: Some(tell_ready),
                placed: tell_placed,
            },
        };
        let (body, stdin, relays) = match berth {
            None => {
                let (process, stdin, relays) = Process::start(&start, voice)?;
                (Body::Process(process), stdin, relays)
            }
            Some(berth) => {
                let (inside, relays) = berth.start(&start, voice).await?;
                (Body::Container(inside), None, relays)
            }
        };
        Ok(Self {
            name: start.name.clone(),
            body,
            stdin,
            ready,
            placed,
            relay: start.relay,
            relays,
        })
    }

    /// The process's number; 0 when it has ended.
    pub(crate) fn pid(&self) -> u32 {
        match &self.body {
            Body::Process(process) => process.pid(),
            Body::Container(inside) => inside.pid(),
        }
    }

    /// Its standard input, for whoever asks first.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The number of the newest placement that everything in it follows, as it says so; 0: none yet.
    pub(crate) fn placed(&self) -> watch::Receiver<u64> {
        self.placed.clone()
    }

    /// Waits for an end before the process was ready.
    pub(crate) async fn ended_early(&mut self) -> StartError {
        let ended = self.ended().await;
        StartError::Ended {
            name: self.name.clone(),
            ended,
        }
    }

    /// Waits until the process says that it is ready.
    pub(crate) async fn ready(&mut self, limit: Option<Duration>) -> Result<Ready, StartError> {
        let limit = limit.unwrap_or(Duration::MAX);
        match timeout(limit, self.ready_or_ended()).await {
            Ok(outcome) => outcome.map(|ready| self.seen_from_outside(ready)),
            Err(_elapsed) => {
                let last_lines = self.kill().await.last_lines;
                let name = self.name.clone();
                Err(StartError::TooLate {
                    name,
                    limit,
                    last_lines,
                })
            }
        }
    }

    /// Whoever is in a container does not know where it is reached.
    fn seen_from_outside(&self, ready: Ready) -> Ready {
        match &self.body {
            Body::Process(_) => ready,
            Body::Container(inside) => inside.seen_from_outside(ready),
        }
    }

    async fn ready_or_ended(&mut self) -> Result<Ready, StartError> {
        let said = tokio::select! {
            Ok(said) = &mut self.ready => said,
            cause = self.body.ended() => return self.ready_before_its_end(cause).await,
        };
        match said {
            Ok(ready) => Ok(ready),
            Err(source) => {
                self.kill().await;
                let (name, source) = (self.name.clone(), Box::new(source));
                Err(StartError::Meaningless { name, source })
            }
        }
    }

    /// A child that was ready for a moment may have ended before we read that it was.
    async fn ready_before_its_end(&mut self, cause: Cause) -> Result<Ready, StartError> {
        let ended = self.last_words(cause).await;
        match self.ready.try_recv() {
            Ok(Ok(ready)) => Ok(ready),
            _ => Err(StartError::Ended {
                name: self.name.clone(),
                ended,
            }),
        }
    }

    /// Waits for the process's end.
    pub(crate) async fn ended(&mut self) -> Ended {
        let cause = self.body.ended().await;
        self.last_words(cause).await
    }

    /// Asks the process to end, and ends it when the limit is over.
    pub(crate) async fn stop(&mut self, limit: Duration) -> Ended {
        self.body.ask_to_end().await;
        match timeout(limit, self.ended()).await {
            Ok(ended) => ended,
            Err(_elapsed) => {
                tracing::warn!(name = %self.name, ?limit, "process did not end in time and is killed");
                self.kill().await
            }
        }
    }

    /// Ends the process and all that it started.
    pub(crate) async fn kill(&mut self) -> Ended {
        self.body.kill().await;
        self.ended().await
    }

    async fn last_words(&mut self, cause: Cause) -> Ended {
        self.body.end_its_children();
        let heard = async { while self.relays.join_next().await.is_some() {} };
        if timeout(LAST_WORDS_MAX, heard).await.is_err() {
            self.relays.abort_all();
        }
        self.body.remove().await;
        Ended {
            cause,
            last_lines: self.relay.last_lines(),
        }
    }
}

impl Body {
    async fn ended(&mut self) -> Cause {
        match self {
            Self::Process(process) => process.ended().await,
            Self::Container(inside) => inside.ended().await,
        }
    }

    async fn ask_to_end(&self) {
        match self {
            Self::Process(process) => process.ask_to_end(),
            Self::Container(inside) => inside.ask_to_end().await,
        }
    }

    async fn kill(&self) {
        match self {
            Self::Process(process) => process.kill(),
            Self::Container(inside) => inside.kill().await,
        }
    }

    /// What it started would hold its port and its pipes. In a container nobody outlives the first process.
    fn end_its_children(&mut self) {
        match self {
            Self::Process(process) => process.kill(),
            Self::Container(inside) => inside.ask_no_more(),
        }
    }

    async fn remove(&self) {
        match self {
            Self::Process(_) => {}
            Self::Container(inside) => inside.remove().await,
        }
    }
}
