//! The commands for running flows, as a user runs them: the real program, real processes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::OFlags;
use serde_json::Value;

const FLOW: &str =
    "jtype: Flow\nexecutors: [{name: a, uses: echo, replicas: 2}, {name: b, uses: echo}]";

/// An executor that is a shell script and writes lines.
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../flow-launch/tests/it/play.sh"
);

/// A running `flow up`, in a home of its own.
struct Up {
    process: Child,
    home: tempfile::TempDir,
}

impl Up {
    fn start(flow: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let process = start(&home, flow, "flow.yml");
        Self { process, home }
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("flow.yml")
    }

    /// Runs another command in the same home.
    fn run(&self, arguments: &[&str]) -> Output {
        command(&self.home).args(arguments).output().unwrap()
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }

    fn names(&self) -> Vec<String> {
        let listing: Value = serde_json::from_str(&self.said(&["ps", "--json"])).unwrap();
        let processes = listing[0]["processes"].as_array().unwrap().iter();
        processes
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn command(home: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    command
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env_remove("CUDA_VISIBLE_DEVICES");
    command
}

/// Starts a flow and waits for its banner.
fn start(home: &tempfile::TempDir, flow: &str, name: &str) -> Child {
    let file = home.path().join(name);
    fs::write(&file, flow).unwrap();
    let mut command = command(home);
    command.arg("up").arg(file).args(["--port", "0"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    let mut lines = out.lines().map(Result::unwrap);
    assert!(
        lines.any(|line| line.contains("stop with Ctrl-C")),
        "no banner"
    );
    process
}

#[test]
fn a_flow_is_listed_scaled_restarted_and_stopped() {
    let mut up = Up::start(FLOW);
    assert_eq!(up.names(), ["a/rep-0", "a/rep-1", "b", "gateway"]);
    let table = up.said(&["ps"]);
    assert!(
        table.contains("a/rep-1") && table.contains("ready"),
        "{table}"
    );

    let said = up.said(&["scale", "b=2"]);
    assert!(said.contains("b/rep-1@"), "{said}");
    assert_eq!(up.names().len(), 5);
    let said = up.said(&["restart", "a/rep-0"]);
    let output: Vec<&str> = said.lines().collect();
    assert!(output[0].contains("ready and listening"), "{said}");
    assert!(output[1].ends_with("has ended"), "{said}");

    let said = up.said(&["down"]);
    assert!(said.contains("is down"), "{said}");
    assert_eq!(up.process.wait().unwrap().code(), Some(0));
    assert_eq!(up.run(&["ps"]).status.code(), Some(1));
}

#[test]
fn a_changed_file_is_reloaded_on_request() {
    let up = Up::start(FLOW);
    fs::write(up.file(), "jtype: Flow\nexecutors: [{name: c, uses: echo}]").unwrap();
    up.said(&["reload"]);
    assert_eq!(up.names(), ["c", "gateway"]);

    fs::write(up.file(), "jtype: Flow\nexecutors: [{name: c, uze: echo}]").unwrap();
    let (code, said) = up.refused(&["reload"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("the flow is unchanged"), "{said}");
    assert!(said.contains("`uze`"), "{said}");
    assert_eq!(up.names(), ["c", "gateway"]);

    let options = "{name: c, uses: echo, uses_with: {no: 1}}";
    fs::write(up.file(), format!("jtype: Flow\nexecutors: [{options}]")).unwrap();
    let (code, said) = up.refused(&["reload"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("2:47  executors.c.uses_with.no  `no` is not"),
        "{said}"
    );
    assert_eq!(up.names(), ["c", "gateway"]);
}

/// A flow that builds an executor with a stand-in for Cargo, which ends when the test says so.
struct Building {
    up: Up,
    /// What Cargo says; its end is Cargo's.
    cargo: File,
}

impl Building {
    /// Waits until the build is under way.
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let pipe = home.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = metadata ]; then echo '{{}}'; else exec cat {}; fi\n",
            pipe.display()
        );
        let cargo = write("bin/cargo", &script);
        fs::set_permissions(cargo, Permissions::from_mode(0o755)).unwrap();
        write("shouter/Cargo.toml", "");
        // The name alone means the folder beside the file.
        let file = write(
            "flow.yml",
            "jtype: Flow\nexecutors: [{name: a, uses: shouter}]",
        );
        let path = std::env::var_os("PATH").unwrap_or_default();
        let bin = [home.path().join("bin")].into_iter();
        let path = std::env::join_paths(bin.chain(std::env::split_paths(&path))).unwrap();
        let mut command = command(&home);
        command.arg("up").arg(file).args(["--port", "0"]);
        command.env("PATH", path).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
        let cargo = opened_once_read(&pipe, &mut process);
        let up = Up { process, home };
        Self { up, cargo }
    }
}

/// Opens a pipe for writing as soon as it has a reader.
fn opened_once_read(pipe: &Path, process: &mut Child) -> File {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    loop {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(nonblocking)
            .open(pipe);
        if let Ok(opened) = opened {
            return opened;
        }
        assert_eq!(process.try_wait().unwrap(), None, "it ended");
        std::thread::yield_now();
    }
}

#[test]
fn a_flow_whose_executors_are_built_is_listed_as_starting() {
    let mut building = Building::start();
    let listing = building.up.said(&["ps"]);
    for name in ["a ", "gateway "] {
        let mut rows = listing.lines().filter(|line| line.contains(name));
        assert!(rows.any(|row| row.contains("starting")), "{listing}");
    }
    let manifest = building.up.home.path().join("shouter/Cargo.toml");
    let built = serde_json::json!({
        "manifest_path": manifest, "target": {"name": "shouter"}, "executable": SCRIPT,
    });
    writeln!(building.cargo, "{built}").unwrap();
    drop(building.cargo);
    let out = building.up.process.stdout.take().unwrap();
    let mut lines = BufReader::new(out).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("stop with Ctrl-C")));
    let listing = building.up.said(&["ps"]);
    assert!(!listing.contains("starting"), "{listing}");
}

#[test]
fn a_flow_whose_executors_are_built_can_be_stopped() {
    let mut building = Building::start();
    let said = building.up.said(&["down"]);
    assert!(said.contains("is down"), "{said}");
    assert_eq!(building.up.process.wait().unwrap().code(), Some(0));
    // Cargo has ended too, so nothing reads its output.
    let written = writeln!(building.cargo, "x");
    assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn logs_are_shown_while_the_flow_runs_and_afterwards() {
    let up = Up::start(&format!(
        "jtype: Flow\nexecutors: [{{name: a, uses: {SCRIPT}}}, {{name: b, uses: echo}}]"
    ));
    assert_eq!(up.said(&["logs", "a", "-n", "0"]), "");
    assert!(up.said(&["logs", "a"]).contains("an ordinary line\n"));
    for quiet in ["b", "gateway"] {
        let said = up.said(&["logs", quiet]);
        assert!(said.starts_with("── starting ──\n"), "{said}");
        let ready = format!("── {quiet}@");
        assert!(said.lines().any(|line| line.starts_with(&ready)), "{said}");
    }
    let (code, said) = up.refused(&["logs", "nobody"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("there is no log of `nobody`; there are"),
        "{said}"
    );
    up.said(&["down"]);
    let file = up.file();
    let said = up.said(&["logs", "a", "-n", "2", "--flow", file.to_str().unwrap()]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "drained");
    assert!(lines[1].ends_with("ended with exit code 0 ──"), "{said}");
}

#[test]
fn logs_of_all_processes_are_merged_by_time_and_the_runs_of_each_are_marked() {
    let up = Up::start(FLOW);
    up.said(&["restart", "b"]);
    let said = up.said(&["logs", "--timestamps"]);
    let times = said.lines().map(|line| line.split_whitespace().nth(2));
    let times: Vec<&str> = times.map(Option::unwrap).collect();
    assert!(times.is_sorted() && times[0].ends_with('Z'), "{said}");
    for process in ["a/rep-0 │", "a/rep-1 │", "b       │", "gateway │"] {
        assert!(said.lines().any(|it| it.starts_with(process)), "{said}");
    }
    let starts = |line: &&str| line.starts_with("b ") && line.ends_with("── starting ──");
    assert_eq!(said.lines().filter(starts).count(), 2, "{said}");
    let last = up.said(&["logs", "-n", "1"]);
    assert!(last.contains("ended with exit code 0"), "{last}");

    let json = up.said(&["--log", "json", "logs", "gateway"]);
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["process"], "gateway");
    assert_eq!(first["message"], "starting");
    assert_eq!(first["source"], "flow");
}

#[test]
fn followed_logs_include_new_processes() {
    let up = Up::start("jtype: Flow\nexecutors: [{name: a, uses: echo}]");
    let mut command = command(&up.home);
    command.args(["logs", "-f"]).stdout(Stdio::piped());
    let mut follow = command.spawn().unwrap();
    let lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.contains("gateway@")), "it begins");
    up.said(&["scale", "a=2"]);
    assert!(
        lines.any(|line| line.contains("a/rep-1@")),
        "a new process is followed too"
    );
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn the_gateway_logs_failed_requests_and_counts_many() {
    const REQUESTS: usize = 200;
    let up = Up::start("jtype: Flow\nexecutors: [{name: a, uses: echo}]");
    let listing: Value = serde_json::from_str(&up.said(&["ps", "--json"])).unwrap();
    let address = listing[0]["processes"][1]["address"].as_str().unwrap();
    let port = address.rsplit(':').next().unwrap();
    let url = format!("grpc://127.0.0.1:{port}");
    let lines = up.home.path().join("lines");
    fs::write(&lines, "text\n".repeat(REQUESTS)).unwrap();
    let wrong = ["post", &url, "--on", "/x", "--target-executor", "["];
    let input = ["--lines", "--request-size", "1", "--input"];
    let post = [&wrong[..], &input, &[lines.to_str().unwrap()]].concat();
    assert_eq!(up.run(&post).status.code(), Some(1));
    let file = up.file();
    up.said(&["down"]);

    let flow = ["--flow", file.to_str().unwrap()];
    let said = up.said(&[&["logs", "gateway", "-n", "1000"], &flow[..]].concat());
    let failed: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("request failed "))
        .collect();
    assert!((1..=100).contains(&failed.len()), "{said}");
    for part in [
        " INFO ",
        "request_id=",
        "endpoint=\"/x\"",
        "is not a valid regular expression",
    ] {
        assert!(failed[0].contains(part), "`{part}` in {}", failed[0]);
    }
    let more = said
        .lines()
        .filter(|it| it.contains("more requests failed"));
    let count = |line: &str| {
        let (_, number) = line.split_once("requests=").unwrap();
        number.trim().parse::<usize>().unwrap()
    };
    let suppressed: usize = more.map(count).sum();
    assert_eq!(failed.len() + suppressed, REQUESTS, "{said}");
}

#[test]
fn several_flows_are_distinguished_by_their_files() {
    let up = Up::start("jtype: Flow\nexecutors: [{name: a, uses: echo}]");
    let mut other = start(
        &up.home,
        "jtype: Flow\nexecutors: [{name: b, uses: echo}]",
        "g.yml",
    );
    let (code, said) = up.refused(&["down"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("several flows are running"), "{said}");
    let file = up.home.path().join("g.yml");
    up.said(&["down", file.to_str().unwrap()]);
    assert_eq!(other.wait().unwrap().code(), Some(0));
    assert_eq!(up.names(), ["a", "gateway"]);
}

#[test]
fn a_second_flow_of_the_same_file_has_a_folder_of_its_own() {
    let up = Up::start("jtype: Flow\nexecutors: [{name: a, uses: echo}]");
    let mut other = start(
        &up.home,
        "jtype: Flow\nexecutors: [{name: a, uses: echo}]",
        "flow.yml",
    );
    let listing: Value = serde_json::from_str(&up.said(&["ps", "--json"])).unwrap();
    let folder = |at: usize| listing[at]["folder"].as_str().unwrap().to_owned();
    assert_eq!(folder(1), format!("{}.2", folder(0)));
    up.said(&["down", "--all"]);
    assert_eq!(other.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_writable_home_a_flow_runs_without_logs() {
    let home = tempfile::tempdir().unwrap();
    // A file where the folder would be: permissions have no effect to root.
    fs::write(home.path().join("state"), "").unwrap();
    let mut process = start(&home, FLOW, "flow.yml");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn missing_devices_are_bad_usage() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("flow.yml");
    let flow = "jtype: Flow\nexecutors: [{name: a, uses: echo, env: {CUDA_VISIBLE_DEVICES: RR9}}]";
    fs::write(&file, flow).unwrap();
    let mut command = command(&home);
    // No `nvidia-smi` to be found, and a number instead.
    command.env("PATH", "").env("CUDA_TOTAL_DEVICES", "2");
    let output = command.arg("up").arg(file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the replicas of `a` cannot be given devices"),
        "{said}"
    );
    assert!(said.contains("names device 9, but there are 2"), "{said}");
}

#[test]
fn the_log_level_of_a_running_flow_changes_and_lasts_through_restarts() {
    let script = format!("{{name: other, uses: {SCRIPT}}}");
    let executors = format!("[{{name: a, uses: echo, replicas: 2}}, {script}]");
    let up = Up::start(&format!("jtype: Flow\nexecutors: {executors}"));
    let has_trace = |name: &str| up.said(&["logs", name, "-n", "100000"]).contains(" TRACE ");
    assert!(!has_trace("gateway") && !has_trace("a"));

    let said = up.said(&["log-level", "flow", "a", "trace"]);
    assert_eq!(said, "a/rep-0 logs at `trace`\na/rep-1 logs at `trace`\n");
    let file = up.file();
    let filter = "info,h2=trace";
    let said = up.said(&["log-level", file.to_str().unwrap(), "gateway", filter]);
    assert_eq!(said, format!("gateway logs at `{filter}`\n"));
    up.said(&["restart", "a/rep-1"]);
    // The new process traces what it does to be ready.
    assert!(has_trace("a/rep-1"));

    let said = up.said(&["log-level", "flow", "a", "default"]);
    assert!(said.starts_with("a/rep-0 logs at `info"), "{said}");

    let (code, said) = up.refused(&["log-level", "flow", "debug"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("`other` does not report its log level"),
        "{said}"
    );
    let check = |arguments: &[&str], code: i32, part: &str| {
        let (found, said) = up.refused(&[&["log-level"], arguments].concat());
        assert_eq!(found, Some(code), "{said}");
        assert!(said.contains(part), "{said}");
    };
    check(
        &["flow", "b", "debug"],
        1,
        "there is no process and no executor `b`",
    );
    check(&["flow", "gatway", "debug"], 1, "did you mean `gateway`?");
    check(&["nowhere", "debug"], 1, "no flow `nowhere` is running");
    check(&["flow", "a", "loud"], 2, "`loud` is not a log level");
    check(&["debug"], 2, "<LEVEL>");
}
