//! `flow up` whose output has no reader: a paused terminal, or a full pipe. Nothing may wait for it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Nothing in here takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(30);

/// An executor that is a shell script, and writes far more than a pipe and all queues hold.
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../flow-launch/tests/it/play.sh"
);

/// A running `flow up` with two pipes that are never read.
struct Up {
    process: Child,
    folder: tempfile::TempDir,
}

impl Up {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flow = format!(
            "jtype: Flow\nexecutors: [{{name: a, uses: {SCRIPT}, env: {{PLAY: floods, FLOOD_DONE: {}}}}}]",
            folder.path().join("flooded").display()
        );
        fs::write(folder.path().join("flow.yml"), flow).unwrap();
        let mut command = command(folder.path());
        command.arg("up").arg(folder.path().join("flow.yml"));
        command.args(["--port", "0"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command.spawn().unwrap();
        Self { process, folder }
    }

    /// Waits until the executor has written everything.
    fn wait_for_flood(&self) {
        let flooded = self.folder.path().join("flooded");
        wait("the executor is blocked", || flooded.exists().then_some(()));
    }

    fn exit(&mut self) -> ExitStatus {
        let process = &mut self.process;
        wait("the flow does not end", || process.try_wait().unwrap())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
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
    let mut up = Up::start();
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

/// A file of this name below a folder.
fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find_map(|path| match path.is_dir() {
        true => find(&path, name),
        false => path.ends_with(name).then_some(path),
    })
}
