//! `flow top` on a terminal, over a flow that gets requests.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use flow_net::{ApiKey, Client, ConnectOptions, PostOptions};
use flow_tests::{Program, TestFlow, flow_command, send, texts};
use futures_util::{StreamExt, stream};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// How long the screen may take to show something.
const LIMIT: Duration = Duration::from_secs(60);

const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// Pieces of output that wait to be read.
const PIECES_MAX: usize = 64;

/// Requests on one stream.
const REQUESTS: usize = 20;

/// A program on a terminal.
struct OnTerminal {
    process: Child,
    ours: File,
    theirs: OwnedFd,
    /// The terminal before the program began.
    before: Termios,
    pieces: Receiver<Vec<u8>>,
    written: Vec<u8>,
}

impl OnTerminal {
    fn start(mut command: Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
        let size = Winsize {
            ws_col: COLUMNS.try_into().unwrap(),
            ws_row: ROWS.try_into().unwrap(),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&theirs, size).unwrap();
        let before = tcgetattr(&theirs).unwrap();
        let end = || theirs.try_clone().unwrap();
        let process = command
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let ours = File::from(ours);
        let mut reader = ours.try_clone().unwrap();
        let (sender, pieces) = sync_channel(PIECES_MAX);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that nobody has open any more is an error here.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            ours,
            theirs,
            before,
            pieces,
            written: Vec::new(),
        }
    }

    fn type_keys(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen is as wanted, and returns it.
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let screen = screen(&self.written);
            if is_so(&screen) {
                return screen;
            }
            let left = end.saturating_duration_since(Instant::now());
            let piece = self.pieces.recv_timeout(left);
            let piece = piece.unwrap_or_else(|_| panic!("never {what}:\n{screen}"));
            self.written.extend(piece);
        }
    }

    fn until_it_has(&mut self, part: &str) -> String {
        self.until(part, |screen| screen.contains(part))
    }

    /// Waits for the end of the program, which leaves the terminal as it was.
    fn check_end(mut self, code: i32) {
        assert_eq!(self.process.wait().unwrap().code(), Some(code));
        let after = tcgetattr(&self.theirs).unwrap();
        let modes = |it: &Termios| (it.input_modes, it.output_modes, it.local_modes);
        assert_eq!(modes(&after), modes(&self.before));
        let written = |it: &Self| String::from_utf8_lossy(&it.written).into_owned();
        let is_left = |it: &Self| written(it).contains("\u{1b}[?1049l");
        while !is_left(&self) {
            let piece = self.pieces.recv_timeout(LIMIT);
            let piece = piece.unwrap_or_else(|_| panic!("{:?}", written(&self)));
            self.written.extend(piece);
        }
        let written = written(&self);
        assert!(written.contains("\u{1b}[?25h"), "no cursor: {written:?}");
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What a terminal shows after this output: enough of one for a program that draws the whole screen.
fn screen(written: &[u8]) -> String {
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    let (mut row, mut column) = (0, 0);
    let text = String::from_utf8_lossy(written);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            cells[row][column] = letter;
            column = (column + 1).min(COLUMNS - 1);
            continue;
        }
        let is_end = |it: char| it.is_ascii_alphabetic();
        let sequence = letters.as_str().split_inclusive(is_end).next();
        let sequence = sequence.unwrap_or_default();
        letters = letters.as_str()[sequence.len()..].chars();
        let mut numbers = sequence
            .trim_matches(|it: char| !it.is_ascii_digit())
            .split(';')
            .map(|number| number.parse::<usize>().unwrap_or(1) - 1);
        match sequence.chars().last() {
            Some('H') => {
                row = numbers.next().unwrap_or(0);
                column = numbers.next().unwrap_or(0);
            }
            Some('J') => cells = vec![vec![' '; COLUMNS]; ROWS],
            // Colors and modes; or the rest has not come yet.
            _ => {}
        }
    }
    let lines = cells.iter().map(|line| line.iter().collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// The cells of the row of a process.
fn cells<'s>(screen: &'s str, process: &str) -> Vec<&'s str> {
    let mut rows = screen.lines().map(|line| line.split_whitespace());
    let row = rows.find(|row| row.clone().next() == Some(process));
    row.map_or_else(Vec::new, Iterator::collect)
}

/// Whether a process gets requests, and they have latencies.
fn is_busy(screen: &str, process: &str) -> bool {
    let cells = cells(screen, process);
    let rate = cells.get(2).and_then(|it| it.parse::<f64>().ok());
    rate.is_some_and(|it| it > 0.0) && cells.get(5).is_some_and(|it| it.ends_with('s'))
}

/// `flow top` for the flows of this user, of whom the test flow is the only one.
fn top(flow: &TestFlow, arguments: &[&str]) -> Command {
    let mut command = flow_command();
    command.env("XDG_STATE_HOME", flow.folder().join("state"));
    command.arg("top").args(arguments);
    command
}

/// Sends requests for as long as it lives.
struct Requests<'s>(&'s AtomicBool);

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn send_requests(url: &str, key: &str, is_over: &AtomicBool) {
    let options = ConnectOptions {
        api_key: Some(ApiKey::new(key).unwrap()),
        ..ConnectOptions::default()
    };
    let client = Client::connect_with(url, options).await.unwrap();
    let post_options = PostOptions::default();
    while !is_over.load(Ordering::Relaxed) {
        let requests = (0..REQUESTS).map(|_| texts("/x", &["a"]));
        let replies = client.post(&post_options, stream::iter(requests));
        let replies = replies.await.unwrap();
        assert_eq!(
            replies
                .filter(|it| std::future::ready(it.is_ok()))
                .count()
                .await,
            REQUESTS
        );
    }
}

/// A new key in a file.
fn new_key(file: &std::path::Path) -> String {
    let mut command = flow_command();
    command.args(["key", "new", "top", "--file"]).arg(file);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    let output = program.stdout();
    let mut words = output.split_whitespace();
    words.find(|it| it.starts_with("flow_")).unwrap().to_owned()
}

#[test]
fn a_flow_under_requests_is_watched_and_the_terminal_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.yml");
    let key = new_key(&keys);
    // Not monitored, without a console, and with keys: nothing of that is in the way.
    let flow = TestFlow::up(&format!(
        "gateway: {{api_keys: '{}', console: false}}\n\
         executors: [{{name: a, uses: echo, replicas: 2}}, {{name: b, uses: echo}}]",
        keys.display()
    ));
    let (url, is_over) = (flow.url(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| send_requests(&url, &key, &is_over));
        let _requests = Requests(&is_over);
        let mut top = OnTerminal::start(top(&flow, &["--interval", "200ms"]));
        let screen = top.until("busy", |screen| {
            let mut all = ["gateway", "a/rep-0", "a/rep-1", "b"].into_iter();
            all.all(|process| is_busy(screen, process))
        });
        assert!(
            screen.starts_with("flow top  flow · 4 of 4 ready"),
            "{screen}"
        );
        // State, CPU and memory.
        let gateway = cells(&screen, "gateway");
        assert_eq!(gateway[1], "ready", "{screen}");
        assert!(
            gateway[8].ends_with('%') && gateway[9].ends_with("MiB"),
            "{screen}"
        );

        top.type_keys("s");
        let screen = top.until_it_has("by Process");
        let place = |name: &str| screen.find(&format!("\n{name} ")).unwrap();
        assert!(
            place("a/rep-1") < place("b") && place("b") < place("gateway"),
            "{screen}"
        );
        top.type_keys("r");
        top.until_it_has("by Process, reversed");

        // The first row is the gateway's now, and the one after the next is a/rep-1's.
        top.type_keys("\u{1b}[Hjjl");
        let screen = top.until_it_has("ready and listening");
        assert!(screen.contains("Log of a/rep-1"), "{screen}");
        top.type_keys("\u{1b}");
        top.until("back", |screen| !screen.contains("Log of"));
        top.type_keys("\r");
        let screen = top.until("a chart", |screen| {
            screen.contains("Log of a ") && screen.contains("p99: now")
        });
        assert!(cells(&screen, "gateway").is_empty(), "{screen}");
        assert_eq!(cells(&screen, "a/rep-0")[1], "ready", "{screen}");
        top.type_keys("q");
        top.check_end(0);
    });
}

#[test]
fn a_signal_and_the_end_of_the_flow_leave_the_terminal_as_it_was() {
    let mut flow = TestFlow::up("executors: [{name: a, uses: echo}]");
    let mut top_of_flow = OnTerminal::start(top(&flow, &["--interval", "100ms"]));
    top_of_flow.until_it_has("2 of 2 ready");
    flow.program().signal(Signal::TERM);
    flow.program_mut().end();
    top_of_flow.until_it_has("no flow is running");
    send(top_of_flow.process.id(), Signal::TERM);
    top_of_flow.check_end(130);
}

#[test]
fn without_a_terminal_one_table_is_printed() {
    let flow = TestFlow::up("executors: [{name: a, uses: echo}]");
    for arguments in [
        &["--interval", "100ms"][..],
        &["flow", "--once", "--interval", "100ms"],
    ] {
        let mut command = top(&flow, arguments);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        let gateway = cells(&text, "gateway");
        // No requests, none that fail, and no latency.
        assert_eq!(
            gateway[1..8],
            ["ready", "0", "0", "–", "–", "0", "0"],
            "{text}"
        );
        let executor = cells(&text, "a");
        assert_eq!(executor[1..8], gateway[1..8], "{text}");
        assert!(
            text.contains(&format!("127.0.0.1:{}", flow.port())),
            "{text}"
        );
    }
    let output = top(&flow, &["other", "--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no flow `other` is running"), "{said}");
}
