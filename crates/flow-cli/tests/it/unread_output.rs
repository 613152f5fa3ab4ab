//! Processes whose output has no reader: a paused terminal, or a full pipe. Nothing may wait for it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Nothing in here takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(30);

/// An executor that is a shell script, and writes far more than a pipe and all queues hold.
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../flow-launch/tests/it/play.sh"
);

/// Requests whose log lines are more than a pipe and all queues hold, if everything is logged.
const REQUESTS: usize = 2_000;

/// A flow of one executor that returns the documents of a request.
const ECHO: &str = "jtype: Flow\nexecutors: [{name: a, uses: echo}]";

/// A running `flow up` with two pipes that are never read.
struct Up {
    process: Child,
    folder: tempfile::TempDir,
}

impl Up {
    /// Starts a flow whose executor writes a flood of lines.
    fn start_flood() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flow = format!(
            "jtype: Flow\nexecutors: [{{name: a, uses: {SCRIPT}, env: {{PLAY: floods, FLOOD_DONE: {}}}}}]",
            folder.path().join("flooded").display()
        );
        Self::start(folder, &flow)
    }

    fn start(folder: tempfile::TempDir, flow: &str) -> Self {
        fs::write(folder.path().join("flow.yml"), flow).unwrap();
        let mut command = command(folder.path());
        command.arg("up").arg(folder.path().join("flow.yml"));
        command.args(["--port", "0", "--access-log"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command.spawn().unwrap();
        Self { process, folder }
    }

    /// Waits until the executor has written everything.
    fn wait_for_flood(&self) {
        let flooded = self.folder.path().join("flooded");
        wait("the executor is blocked", || flooded.exists().then_some(()));
    }

    /// The address of the gateway, once the flow serves.
    fn address(&self) -> String {
        wait("the flow does not serve", || {
            let listed = command(self.folder.path()).args(["ps", "--json"]).output();
            let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).ok()?;
            let processes = listed[0]["processes"].as_array()?.iter();
            let mut gateways = processes.filter(|it| it["name"] == "gateway");
            Some(gateways.next()?["address"].as_str()?.to_owned())
        })
    }

    fn exit(&mut self) -> ExitStatus {
        exit(&mut self.process)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A gateway or an executor without a launcher, which logs everything to a pipe that is not read.
struct Alone {
    process: Child,
    address: String,
}

impl Alone {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = command(folder);
        command
            .args(arguments)
            .args(["--log", "json", "--port", "0"]);
        command.env("FLOW_LOG", "trace");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut ready = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).expect("an event");
        let (_, port) = ready["address"].as_str().unwrap().rsplit_once(':').unwrap();
        let address = format!("127.0.0.1:{port}");
        Self { process, address }
    }

    /// Ends the process, and returns what is left of its log.
    fn end(mut self) -> String {
        let mut log = String::new();
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        let mut stderr = self.process.stderr.take().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        assert_eq!(exit(&mut self.process).code(), Some(0));
        log
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn exit(process: &mut Child) -> ExitStatus {
    wait("the process does not end", || process.try_wait().unwrap())
}

/// Sends requests over one connection, each after the reply to the one before.
fn post(address: &str, requests: usize) {
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    let mut replies = BufReader::new(connection.try_clone().unwrap());
    let body = r#"{"data":[{"text":"x"}],"exec_endpoint":"/"}"#;
    let request = format!(
        "POST /post HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for number in 0..requests {
        (&connection).write_all(request.as_bytes()).unwrap();
        let (status, reply) = read_reply(&mut replies);
        assert_eq!(status, "HTTP/1.1 200 OK", "request {number}: {reply}");
    }
}

/// The status line and the body of a response.
fn read_reply(replies: &mut impl BufRead) -> (String, String) {
    let mut head = replies.by_ref().lines().map(Result::unwrap);
    let status = head.next().expect("the connection is open");
    let fields = head.take_while(|line| !line.is_empty());
    let len = fields.filter_map(|line| {
        let line = line.to_ascii_lowercase();
        line.strip_prefix("content-length: ")?.parse().ok()
    });
    let mut body = vec![0; len.last().expect("a length")];
    replies.read_exact(&mut body).unwrap();
    (status, String::from_utf8(body).unwrap())
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    command.env("XDG_STATE_HOME", folder.join("state"));
    command
}

fn wait<T>(problem: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(since.elapsed() < LIMIT, "{problem}");
        std::thread::yield_now();
    }
}

#[test]
fn an_executor_serves_and_flow_ps_answers_and_sigterm_ends_the_flow() {
    let mut up = Up::start_flood();
    up.wait_for_flood();

    let mut ps = command(up.folder.path());
    let mut ps = ps
        .args(["ps", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let listed = wait("`flow ps` hangs", || ps.try_wait().unwrap());
    assert!(listed.success(), "{listed}");

    kill_process(Pid::from_child(&up.process), Signal::TERM).unwrap();
    assert_eq!(up.exit().code(), Some(0));

    // Log files are on a disk that is fast enough for some lines at least, and say how many are missing.
    let log = fs::read_to_string(find(up.folder.path(), "a.log").unwrap()).unwrap();
    assert!(log.contains("stderr line 0 of a flood"), "{log}");
    assert!(log.contains("exit code 0"), "{log}");
}

#[test]
fn a_flow_answers_requests_and_logs_them_without_a_reader() {
    let mut up = Up::start(tempfile::tempdir().unwrap(), ECHO);
    post(&up.address(), REQUESTS);
    kill_process(Pid::from_child(&up.process), Signal::TERM).unwrap();
    assert_eq!(up.exit().code(), Some(0));
}

#[test]
fn a_gateway_and_an_executor_without_a_launcher_answer_and_count_the_lines_that_they_drop() {
    let folder = tempfile::tempdir().unwrap();
    let flow = folder.path().join("flow.yml");
    fs::write(&flow, ECHO).unwrap();
    let executor = ["executor", "--uses", "echo", "--name", "a"];
    let executor = Alone::start(folder.path(), &executor);
    let addresses = format!(r#"{{"a": ["grpc://{}"]}}"#, executor.address);
    let flow = flow.to_str().unwrap();
    let gateway = ["gateway", flow, "--addresses", &addresses, "--access-log"];
    let gateway = Alone::start(folder.path(), &gateway);

    post(&gateway.address, REQUESTS);

    for process in [gateway, executor] {
        let log = process.end();
        let dropped = log
            .lines()
            .any(|line| line.contains(r#""message":"dropped "#));
        assert!(
            dropped,
            "{} bytes of log say nothing of dropped lines",
            log.len()
        );
    }
}

/// A file of this name below a folder.
fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find_map(|path| match path.is_dir() {
        true => find(&path, name),
        false => path.ends_with(name).then_some(path),
    })
}
