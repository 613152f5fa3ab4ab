//! Children without processes, for tests with a paused clock: they talk over pipes in memory, and behave as a test says.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use flow_process::{KeepsState, ListenAddress, ProcessEvent, ReadyEvent};
use flow_spec::{LogStyle, Plan, TextFile, Variables};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::event::{EventReceiver, event_channel};
use crate::logs::relay::LogSinks;
use crate::process::backend::{
    ChildControl, ChildStdin, HealthCheck, ProcessBackend, StartRequest, StartedChild,
};
use crate::process::error::ProcessStartError;
use crate::process::exit_status::ExitCause;
use crate::process::output::ChildOutput;
use crate::spec::invocation::{BuiltIn, Programs, SharedOptions};
use crate::supervisor::backoff::RestartPolicy;
use crate::supervisor::liveness::LivenessProbe;
use crate::supervisor::{Supervisor, SupervisorOptions};

pub(crate) const GRACE: Duration = Duration::from_secs(10);

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// How a fake child behaves in one run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Behavior {
    /// Time until it is ready; `None` for never.
    pub(crate) ready_after: Option<Duration>,
    /// Time from its start until it exits by itself, with exit code 1.
    pub(crate) exits_after: Option<Duration>,
    /// Time from the signal until it exits; `None` if it ignores the signal.
    pub(crate) drains_for: Option<Duration>,
    /// It leaves health checks unanswered after the first one.
    pub(crate) hangs: bool,
    /// A gateway that never reports that requests follow a placement.
    pub(crate) never_settles: bool,
    pub(crate) keeps_state: Option<KeepsState>,
}

impl Behavior {
    pub(crate) const SERVES: Self = Self {
        ready_after: Some(Duration::ZERO),
        exits_after: None,
        drains_for: Some(Duration::ZERO),
        hangs: false,
        never_settles: false,
        keeps_state: Some(KeepsState::Nowhere),
    };
}

/// What happened to a child, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) what: String,
}

/// Starts fake children.
#[derive(Debug)]
pub(crate) struct FakeBackend {
    /// By process name: one behavior for each run, the last one for all further runs.
    behaviors: Mutex<HashMap<String, VecDeque<Behavior>>>,
    journal: Arc<Journal>,
    running: Mutex<HashMap<u16, Behavior>>,
    next_port: Mutex<u16>,
}

#[derive(Debug)]
struct Journal {
    begin: Instant,
    steps: Mutex<Vec<Step>>,
}

impl Journal {
    fn note(&self, what: String) {
        let at = self.begin.elapsed();
        self.steps.lock().unwrap().push(Step { at, what });
    }
}

impl FakeBackend {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            behaviors: Mutex::default(),
            journal: Arc::new(Journal {
                begin: Instant::now(),
                steps: Mutex::default(),
            }),
            running: Mutex::default(),
            next_port: Mutex::new(1_000),
        })
    }

    pub(crate) fn set(&self, name: &str, runs: impl IntoIterator<Item = Behavior>) {
        let runs = runs.into_iter().collect();
        self.behaviors.lock().unwrap().insert(name.to_owned(), runs);
    }

    /// All steps so far, as `start a`, `terminate a`, `kill a` and `exit a`.
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.journal.steps.lock().unwrap().clone()
    }

    /// The same without times.
    pub(crate) fn order(&self) -> Vec<String> {
        self.steps().into_iter().map(|step| step.what).collect()
    }

    /// When this step happened, each time.
    pub(crate) fn times(&self, what: &str) -> Vec<Duration> {
        let steps = self.steps().into_iter();
        steps
            .filter(|step| step.what == what)
            .map(|step| step.at)
            .collect()
    }

    fn behavior(&self, name: &str) -> Behavior {
        let mut behaviors = self.behaviors.lock().unwrap();
        let Some(runs) = behaviors.get_mut(name) else {
            return Behavior::SERVES;
        };
        match runs.len() {
            0 => Behavior::SERVES,
            1 => runs[0],
            _ => runs.pop_front().unwrap(),
        }
    }

    fn port(&self, wanted: u16) -> u16 {
        if wanted > 0 {
            return wanted;
        }
        let mut next: MutexGuard<'_, u16> = self.next_port.lock().unwrap();
        *next += 1;
        *next
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Signal {
    None,
    Terminate,
    Kill,
}

impl ProcessBackend for FakeBackend {
    fn prepare<'a>(
        &'a self,
        _: &'a StartRequest<'_>,
    ) -> BoxFuture<'a, Result<(), ProcessStartError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn start<'a>(
        &'a self,
        request: &'a StartRequest<'_>,
        output: ChildOutput,
    ) -> BoxFuture<'a, Result<StartedChild, ProcessStartError>> {
        let name = request.name.to_string();
        let behavior = self.behavior(&name);
        let port = self.port(request.ports.serving);
        self.running.lock().unwrap().insert(port, behavior);
        self.journal.note(format!("start {name}"));
        let (stdout, stdout_writer) = duplex(64 << 10);
        let (stderr, _) = duplex(1);
        let (stdin, stdin_reader) = duplex(64 << 10);
        let (signal, signals) = watch::channel(Signal::None);
        let (exit, exited) = watch::channel(None);
        let child = FakeChild {
            behavior,
            port,
            stdin: request.invocation.reads_stdin.then_some(stdin_reader),
            stdout: stdout_writer,
            signals,
        };
        let mut readers = output.read(stdout, stderr);
        let control = FakeControl {
            name: name.clone(),
            journal: self.journal.clone(),
            signal,
            exited,
        };
        let journal = self.journal.clone();
        readers.spawn(async move {
            let cause = child.run().await;
            journal.note(format!("exit {name}"));
            exit.send_replace(Some(cause));
        });
        let stdin = request.invocation.reads_stdin.then_some(stdin);
        Box::pin(std::future::ready(Ok(StartedChild {
            control: Box::new(control),
            stdin: stdin.map(|it| -> ChildStdin { Box::new(it) }),
            readers,
        })))
    }

    fn health_check(&self, address: &ListenAddress, _: bool) -> Option<Box<dyn HealthCheck>> {
        let behavior = self.running.lock().unwrap()[&address.port().unwrap()];
        Some(Box::new(FakeHealth {
            hangs: behavior.hangs,
            checks: Mutex::new(0),
        }))
    }
}

struct FakeHealth {
    hangs: bool,
    checks: Mutex<u32>,
}

impl HealthCheck for FakeHealth {
    fn responds(&self, limit: Duration) -> BoxFuture<'_, bool> {
        let mut checks = self.checks.lock().unwrap();
        *checks += 1;
        let responds = !self.hangs || *checks == 1;
        Box::pin(async move {
            if !responds {
                sleep(limit).await;
            }
            responds
        })
    }
}

struct FakeChild {
    behavior: Behavior,
    port: u16,
    stdin: Option<DuplexStream>,
    stdout: DuplexStream,
    signals: watch::Receiver<Signal>,
}

impl FakeChild {
    async fn run(mut self) -> ExitCause {
        let mut signals = self.signals.clone();
        let exits_after = self.behavior.exits_after;
        let drains_for = self.behavior.drains_for;
        let terminated = async {
            drop(signals.wait_for(|it| *it >= Signal::Terminate).await);
            wait(drains_for).await;
        };
        let mut signals = self.signals.clone();
        tokio::select! {
            biased;
            Ok(_) = signals.wait_for(|it| *it == Signal::Kill) => ExitCause::Signal(9),
            () = wait(exits_after) => ExitCause::Code(1),
            () = terminated => ExitCause::Code(0),
            never = self.talk() => never,
        }
    }

    /// Writes the lines of a child; a gateway reads its placements.
    async fn talk(&mut self) -> ExitCause {
        let mut placements = self.stdin.take().map(|stdin| BufReader::new(stdin).lines());
        if let Some(placements) = &mut placements {
            drop(placements.next_line().await);
        }
        wait(self.behavior.ready_after).await;
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let ready = event(&ProcessEvent::Ready(ReadyEvent {
            keeps_state: self.behavior.keeps_state,
            ..ReadyEvent::new("fake", address)
        }));
        drop(self.stdout.write_all(ready.as_bytes()).await);
        let mut number = 1;
        if let Some(placements) = &mut placements {
            while let Ok(Some(_)) = placements.next_line().await {
                number += 1;
                if !self.behavior.never_settles {
                    let placed = event(&ProcessEvent::Placed { placement: number });
                    drop(self.stdout.write_all(placed.as_bytes()).await);
                }
            }
        }
        std::future::pending().await
    }
}

/// The line of an event.
fn event(event: &ProcessEvent) -> String {
    serde_json::to_string(event).unwrap() + "\n"
}

async fn wait(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

struct FakeControl {
    name: String,
    journal: Arc<Journal>,
    signal: watch::Sender<Signal>,
    exited: watch::Receiver<Option<ExitCause>>,
}

impl ChildControl for FakeControl {
    fn pid(&self) -> u32 {
        1
    }

    fn exited(&mut self) -> BoxFuture<'_, ExitCause> {
        Box::pin(async {
            let exit = self.exited.wait_for(Option::is_some).await;
            exit.ok().and_then(|it| *it).unwrap_or(ExitCause::Gone)
        })
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        self.journal.note(format!("terminate {}", self.name));
        self.signal.send_replace(Signal::Terminate);
        Box::pin(std::future::ready(()))
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        self.journal.note(format!("kill {}", self.name));
        self.signal.send_replace(Signal::Kill);
        Box::pin(std::future::ready(()))
    }

    fn release(&mut self) {}
}

pub(crate) fn plan(executors: &str) -> Plan {
    let text = format!("jtype: Flow\nexecutors: {executors}");
    let path = "test.yml".as_ref();
    let file = TextFile { path, text: &text };
    Plan::from(flow_spec::load(file, &Variables::default()).unwrap().flow)
}

pub(crate) fn shared() -> SharedOptions {
    SharedOptions {
        programs: Programs {
            flow: "/bin/flow".into(),
            built_in: vec![BuiltIn {
                name: "echo".to_owned(),
                variables: Vec::new(),
                uses_all_cores: false,
            }],
        },
        grace: GRACE,
        log: LogStyle::Text,
        restart_policy: RestartPolicy::default(),
        flow: None,
        state_directory: None,
    }
}

/// A supervisor of fake children.
pub(crate) fn supervisor(
    plan: Plan,
    backend: &Arc<FakeBackend>,
) -> (Arc<Supervisor>, EventReceiver) {
    let (events, receiver) = event_channel(1_000);
    let options = SupervisorOptions {
        shared: shared(),
        sinks: LogSinks {
            events: Some(events),
            files: None,
        },
        liveness: LivenessProbe::default(),
        backend: backend.clone(),
        log_filters: None,
        status_sockets: None,
        listen_sockets: None,
        sandbox_folders: None,
    };
    (Arc::new(Supervisor::new(plan, options)), receiver)
}
