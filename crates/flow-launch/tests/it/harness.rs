//! A flow of shell scripts that behave as a test says, and its events.

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flow_launch::protocol::{ControlCommand, ControlRequest, ControlResponse};
use flow_launch::{
    BuiltIn, EventReceiver, FlowEvent, Launch, LaunchError, Programs, ReadyProcess, RestartPolicy,
    RunningFlow, StartedFlow, event_channel,
};
use flow_spec::{Plan, TextFile, Variables};

/// Time limit of every wait. Nothing in these tests takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/play.sh");

pub(crate) struct Flow {
    pub(crate) running: RunningFlow,
    pub(crate) events: EventReceiver,
    /// Lines that no test has asked for yet: the process and the line.
    lines: Vec<(String, String)>,
}

/// Executors as YAML list entries, where `PLAY` is how the script behaves.
pub(crate) fn plan(top: &str, executors: &[&str]) -> Plan {
    let list: String = executors
        .iter()
        .map(|it| format!("\n  - {{uses: {SCRIPT}, {it}}}"))
        .collect();
    let text = format!("jtype: Flow\n{top}\nexecutors:{list}\n");
    let path = Path::new("test.yml");
    let checked = flow_spec::load(TextFile { path, text: &text }, &Variables::default());
    Plan::from(checked.unwrap_or_else(|error| panic!("{error}")).flow)
}

pub(crate) fn launch(plan: Plan) -> Launch {
    let programs = Programs {
        flow: PathBuf::from(SCRIPT),
        built_in: vec![BuiltIn {
            name: "echo".to_owned(),
            variables: Vec::new(),
            uses_all_cores: false,
        }],
    };
    Launch {
        grace: Duration::from_millis(200),
        environment: std::env::vars_os().collect(),
        restart_policy: RestartPolicy {
            wait_min: Duration::from_millis(1),
            ..RestartPolicy::default()
        },
        ..Launch::new(plan, programs)
    }
}

impl Flow {
    pub(crate) fn launch(launch: Launch) -> Self {
        let (sender, events) = event_channel(1_000);
        Self {
            running: RunningFlow::launch(launch, sender).unwrap(),
            events,
            lines: Vec::new(),
        }
    }

    pub(crate) async fn serving(executors: &[&str]) -> (Self, StartedFlow) {
        let mut flow = Self::launch(launch(plan("", executors)));
        let started = within(flow.running.started()).await.unwrap();
        (flow, started)
    }

    /// Starts a flow that fails to start.
    pub(crate) async fn failing(executors: &[&str]) -> (Self, String) {
        let mut flow = Self::launch(launch(plan("", executors)));
        let failed = within(flow.running.started()).await.unwrap_err();
        (flow, failed.to_string())
    }

    /// The rest of the next line of this process that starts like this. Processes write in any order, so lines of others
    /// are kept.
    pub(crate) async fn line(&mut self, of: &str, start: &str) -> String {
        let is_it = |(name, line): &(String, String)| name == of && line.starts_with(start);
        loop {
            if let Some(at) = self.lines.iter().position(is_it) {
                return self.lines.remove(at).1[start.len()..].to_owned();
            }
            match within(self.events.recv()).await {
                Some(FlowEvent::Lines { name, lines }) => {
                    let lines = lines.iter().map(|it| (name.to_string(), it.to_owned()));
                    self.lines.extend(lines);
                }
                Some(_) => {}
                None => panic!(
                    "`{of}` never wrote `{start}`; other lines are {:#?}",
                    self.lines
                ),
            }
        }
    }

    /// The next time that this process is ready.
    pub(crate) async fn ready(&mut self, of: &str) -> ReadyProcess {
        loop {
            match within(self.events.recv()).await {
                Some(FlowEvent::Ready(member)) if &*member.name == of => return member,
                Some(_) => {}
                None => panic!("`{of}` was never ready"),
            }
        }
    }

    /// All lines until the last process has exited, as `name: line`.
    pub(crate) async fn rest(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(event) = within(self.events.recv()).await {
            if let FlowEvent::Lines {
                name,
                lines: written,
            } = event
            {
                lines.extend(written.iter().map(|line| format!("{name}: {line}")));
            }
        }
        lines
    }

    pub(crate) async fn stop(mut self) -> Result<(), LaunchError> {
        self.running.stop();
        within(self.running.ended()).await
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("it takes too long")
}

/// The responses of the flow with this state directory.
pub(crate) fn answers(home: &Path, ask: ControlCommand) -> Vec<ControlResponse> {
    let mut socket = flow_launch::connect(home).unwrap();
    let question = serde_json::to_string(&ControlRequest::new(ask)).unwrap();
    socket
        .write_all(format!("{question}\n").as_bytes())
        .unwrap();
    let lines = BufReader::new(socket).lines().map(Result::unwrap);
    let answers = lines.map(|line| serde_json::from_str(&line).unwrap());
    answers.collect()
}

/// Whether a process is alive, and not a zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !stat.is_empty() && !state.starts_with('Z') && !state.starts_with('X')
}

/// Waits until a process has exited.
pub(crate) async fn gone(pid: u32) {
    let gone = async {
        while lives(pid) {
            tokio::task::yield_now().await;
        }
    };
    within(gone).await;
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
