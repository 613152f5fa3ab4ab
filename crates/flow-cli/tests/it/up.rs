//! `flow up` as a user runs it: the real program, real processes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Each step takes less than a tenth of this; a longer wait is a failure.
const LIMIT: Duration = Duration::from_secs(20);

const FLOW: &str =
    "jtype: Flow\nexecutors: [{name: a, uses: echo, replicas: 2}, {name: b, uses: echo}]";

/// An executor that is a shell script, and behaves as `PLAY` says.
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../flow-launch/tests/it/play.sh"
);

/// A running `flow up`.
struct Up {
    process: Child,
    out: BufReader<ChildStdout>,
    banner: String,
    children: Vec<u32>,
    folder: tempfile::TempDir,
}

impl Up {
    /// Starts a flow and waits for the end of its banner.
    fn start(flow: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::of(command(&folder, flow, &["--port", "0"]), folder)
    }

    fn of(mut command: Command, folder: tempfile::TempDir) -> Self {
        let mut process = command.spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("stop with Ctrl-C") {
            assert!(
                out.read_line(&mut banner).unwrap() > 0,
                "no banner: {banner}"
            );
        }
        let children = children_of(process.id());
        Self {
            process,
            out,
            banner,
            children,
            folder,
        }
    }

    /// The port of the gateway.
    fn port(&self) -> u16 {
        let (_, rest) = self.banner.split_once("127.0.0.1:").unwrap();
        let digits = rest.chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for its end: exit code and what stood on stderr.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (self.process.wait().unwrap().code(), said)
    }
}

fn command(folder: &tempfile::TempDir, flow: &str, arguments: &[&str]) -> Command {
    let file = folder.path().join("flow.yml");
    fs::write(&file, flow).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    command.arg("up").arg(file).args(arguments);
    command.env("XDG_STATE_HOME", folder.path().join("state"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a flow that ends by itself.
fn output(flow: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    command(&folder, flow, arguments).output().unwrap()
}

fn children_of(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task"))
        .unwrap()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids: String = lists.collect();
    pids.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

fn wait_until_gone(pids: &[u32]) {
    let since = Instant::now();
    while pids.iter().any(|&pid| lives(pid)) {
        assert!(since.elapsed() < LIMIT, "{pids:?} still live");
        std::thread::yield_now();
    }
}

#[test]
fn the_banner_shows_addresses_executors_and_how_to_stop() {
    let up = Up::start(FLOW);
    for expected in [
        "ready to serve",
        "GRPC",
        "127.0.0.1:",
        "a/rep-0",
        "a/rep-1",
        "  b ",
    ] {
        assert!(
            up.banner.contains(expected),
            "`{expected}` in {}",
            up.banner
        );
    }
    up.signal(Signal::TERM);
    up.end();
}

#[test]
fn only_this_machine_can_connect_unless_the_flow_is_opened() {
    const OPEN: &str = "other machines can use this flow";
    let local = "jtype: Flow\ngateway: {host: 127.0.0.1}\nexecutors: [{uses: echo}]";
    let cases: [(&str, &[&str], Option<&str>, bool); 5] = [
        (FLOW, &[], None, false),
        (FLOW, &["--host", "0.0.0.0"], None, true),
        (FLOW, &[], Some("0.0.0.0"), true),
        (local, &[], Some("0.0.0.0"), false),
        (local, &["--host", "0.0.0.0"], None, true),
    ];
    for (flow, arguments, variable, is_open) in cases {
        let folder = tempfile::tempdir().unwrap();
        let arguments = [&["--port", "0"], arguments].concat();
        let mut command = command(&folder, flow, &arguments);
        if let Some(variable) = variable {
            command.env("FLOW_LISTEN_HOST", variable);
        }
        let up = Up::of(command, folder);
        let port: u16 = up.port();
        // Any of the addresses of this network is this machine.
        let connected = TcpStream::connect(("127.0.0.2", port)).is_ok();
        assert_eq!(connected, is_open, "{arguments:?} {variable:?}");
        assert_eq!(up.banner.contains(OPEN), is_open, "{}", up.banner);
        up.signal(Signal::TERM);
        up.end();
    }
}

#[test]
fn no_process_outlives_a_killed_flow() {
    let mut up = Up::start(FLOW);
    assert_eq!(up.children.len(), 4, "three executors and a gateway");
    up.process.kill().unwrap();
    wait_until_gone(&up.children);
    up.process.wait().unwrap();
}

#[test]
fn a_signal_stops_the_flow_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let up = Up::start(FLOW);
        let children = up.children.clone();
        up.signal(signal);
        let (code, said) = up.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(!children.into_iter().any(lives));
    }
}

#[test]
fn a_ready_process_is_reported() {
    let up = Up::start(FLOW);
    let children = up.children.clone();
    up.signal(Signal::TERM);
    let (_, said) = up.end();
    let expected = children
        .iter()
        .map(|pid| format!("@{pid} ready and listening on "));
    for line in expected {
        assert!(said.contains(&line), "`{line}` in {said}");
    }
}

#[test]
fn a_missing_file_is_bad_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_flow"))
        .args(["up", "no.yml"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("flow: cannot read flow file `no.yml`: "),
        "{said}"
    );
}

#[test]
fn a_taken_port_is_reported_with_its_owner() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = output(FLOW, &["--port", &port]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = format!(
        "flow: port {port} is taken: process {} (",
        std::process::id()
    );
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn an_executor_that_cannot_start_fails_the_flow_and_its_last_lines_are_printed_once() {
    let flow =
        format!("jtype: Flow\nexecutors: [{{name: a, uses: {SCRIPT}, env: {{PLAY: dies}}}}]");
    let output = output(&flow, &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.ends_with("\nflow: `a` ended with exit code 3; its last lines are above\n"),
        "{said}"
    );
    assert_eq!(said.matches("no such model").count(), 1, "{said}");
}

#[test]
fn all_problems_of_executors_are_reported_together_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let flow = "\
jtype: Flow
executors:
  - name: encoder
    uses: sentence-encodr
  - name: other
    uses: sentence-encoder
    replicas: 0
    uses_with:
      batch_size: x
      modle: all-MiniLM-L6-v2
      prompt: a
";
    let output = command(&folder, flow, &[]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let file = folder.path().join("flow.yml");
    let expected = format!(
        "flow: `{}` has 4 problems
  4:11  executors.encoder.uses                there is no executor `sentence-encodr`; did you mean `sentence-encoder`?
  7:15  executors.other.replicas              must be at least 1, is 0
  9:19  executors.other.uses_with.batch_size  must be a whole number of at least 1, is the text `x`
  10:7  executors.other.uses_with.modle       `modle` is not an option of this executor; did you mean `model`?
",
        file.display()
    );
    assert_eq!(said, expected);
}

#[test]
fn a_missing_path_is_bad_usage() {
    let output = output("jtype: Flow\nexecutors: [{name: a, uses: ./no}]", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.ends_with("has 1 problem\n  2:29  executors.a.uses  there is no `./no`\n"),
        "{said}"
    );
}

#[test]
fn a_killed_executor_is_restarted_on_its_port() {
    let mut up = Up::start("jtype: Flow\nexecutors: [{name: a, uses: echo}]");
    let executor = up.children[0];
    kill_process(
        Pid::from_raw(executor.try_into().unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();

    let mut stderr = BufReader::new(up.process.stderr.take().unwrap());
    let mut at = Vec::new();
    while at.len() < 2 {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended; {at:?}");
        if line.starts_with("a@") {
            at.push(line.trim().rsplit(' ').next().unwrap().to_owned());
        }
    }
    assert_eq!(at[0], at[1]);
    up.process.stderr = Some(stderr.into_inner());
    up.signal(Signal::TERM);
    assert_eq!(up.end().0, Some(0));
}

#[test]
fn a_second_signal_stops_at_once() {
    let up = Up::start(&format!(
        "jtype: Flow\nexecutors: [{{name: a, uses: {SCRIPT}, env: {{PLAY: stubborn}}}}]"
    ));
    let children = up.children.clone();
    up.signal(Signal::INT);
    // The gateway has nothing to finish and goes first; then there is only who does not listen.
    wait_until_gone(&children[1..]);
    up.signal(Signal::INT);
    let (code, said) = up.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(!children.into_iter().any(lives));
}

#[test]
fn a_config_file_names_the_program_and_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yml");
    fs::write(&config, "jtype: Echo\nwith: {no: 1}").unwrap();
    let flow = format!(
        "jtype: Flow\nexecutors: [{{name: a, uses: {}}}]",
        config.display()
    );
    let said = String::from_utf8(output(&flow, &[]).stderr).unwrap();
    let expected = format!(
        "  {}:2:8  with.no  `no` is not an option of this executor; it takes no options\n",
        config.display()
    );
    assert!(said.ends_with(&expected), "{said}");
}

#[test]
fn a_relative_workspace_is_beside_the_flow_file_wherever_the_flow_is_started() {
    let flow = "\
jtype: Flow
with: {workspace: data}
executors:
  - {name: index, uses: vector-index}
  - {name: other, uses: vector-index, workspace: own/data}
";
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&folder, flow, &["--port", "0"]);
    command.current_dir(elsewhere.path());
    let up = Up::of(command, folder);
    let root = up.folder.path().to_owned();
    for (title, name) in [("Workspace  ", "data"), ("           ", "own/data")] {
        let line = format!("  {title} {}\n", root.join(name).display());
        assert!(up.banner.contains(&line), "{line} in {}", up.banner);
    }
    for made in ["data/.flow/lock", "data/index", "own/data/other"] {
        assert!(root.join(made).exists(), "{made}");
    }
    let left = fs::read_dir(elsewhere.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is made where the command is typed");
    up.signal(Signal::TERM);
    up.end();
}
