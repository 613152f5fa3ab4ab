//! A flow as users start it: `flow up` on a file, on a port of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use tempfile::TempDir;

use crate::lines::Line;
use crate::program::Program;

/// The targets of the lines on requests and streams that failed.
const FAILED_REQUESTS: [&str; 2] = ["flow_gateway::failed: ", "flow_gateway::request_log: "];

/// Levels of log lines that no test expects unless it says so.
const BAD_LEVELS: &[&str] = &[" WARN ", " ERROR "];

/// A flow that is up. Its processes end with it.
///
/// A line of level WARN or ERROR that the test did not name fails the test.
#[derive(Debug)]
pub struct TestFlow {
    program: Program,
    port: u16,
    expected: Mutex<Vec<String>>,
    /// Where its file lies, and what its executors write.
    folder: TempDir,
}

impl TestFlow {
    /// Starts a flow from the text of its file, without the first line.
    pub fn up(yaml: &str) -> Self {
        Self::up_with(yaml, &[])
    }

    /// The same with further arguments.
    pub fn up_with(yaml: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        std::fs::write(&file, format!("jtype: Flow\n{yaml}")).unwrap();
        Self::start(&file, folder, arguments, &[])
    }

    /// Starts a flow from the text of its file, with these variables.
    pub fn up_in(yaml: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        std::fs::write(&file, format!("jtype: Flow\n{yaml}")).unwrap();
        Self::start(&file, folder, &[], variables)
    }

    /// Starts one of the flows in `flows/`.
    pub fn file(name: &str) -> Self {
        Self::start(&flow_file(name), tempfile::tempdir().unwrap(), &[], &[])
    }

    fn start(file: &Path, folder: TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = flow_command();
        command
            .env("XDG_STATE_HOME", folder.path().join("state"))
            .envs(variables.iter().copied())
            .arg("up")
            .arg(file)
            .args(["--port", "0", "--ready-format", "json"])
            .args(arguments);
        let program = Program::start(command);
        let port = program.port();
        Self {
            program,
            port,
            expected: Mutex::default(),
            folder,
        }
    }

    /// The gateway's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}", self.port)
    }

    /// The process `flow up`.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The same, to wait for its end.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// A folder for what this flow's executors and clients leave behind.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process of a node's replica, as it was last ready.
    pub fn pid(&self, name: &str) -> u32 {
        let name = format!("{name}@");
        // The ready event may come before the line that says so.
        self.program.line(&name);
        let lines = self.program.lines().into_iter().rev();
        let mut ready = lines.filter_map(|line| Some(line.text.strip_prefix(&name)?.to_owned()));
        let line = ready.next().unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    }

    /// Log lines that hold `part` are what this test is about.
    pub fn expect(&self, part: &str) -> &Self {
        self.expected.lock().unwrap().push(part.to_owned());
        self
    }

    fn unexpected(&self) -> Vec<String> {
        let expected = self.expected.lock().unwrap();
        let is_bad = |line: &Line| {
            let is_loud = BAD_LEVELS.iter().any(|level| line.text.contains(level));
            // A test that makes a request fail looks at its reply.
            is_loud && !FAILED_REQUESTS.iter().any(|it| line.text.contains(it))
        };
        let is_unexpected = |line: &Line| !expected.iter().any(|part| line.text.contains(part));
        let bad = self.program.lines().into_iter().filter(is_bad);
        bad.filter(is_unexpected).map(|line| line.text).collect()
    }
}

impl Drop for TestFlow {
    fn drop(&mut self) {
        if !thread::panicking() {
            let unexpected = self.unexpected();
            assert!(
                unexpected.is_empty(),
                "unexpected in the log: {unexpected:#?}"
            );
        }
    }
}

/// The program `flow`, to be given its arguments.
pub fn flow_command() -> Command {
    let mut command = Command::new(flow_program());
    command
        .current_dir(root())
        // Not where the developer's own flows are.
        .env("XDG_STATE_HOME", std::env::temp_dir().join("flow-tests"))
        .env_remove("FLOW_LOG")
        .env_remove("PORT");
    command
}

/// A file in `flows/`.
pub fn flow_file(name: &str) -> PathBuf {
    root().join("flows").join(name)
}

/// `FLOW_BIN`, or the program in the folder of the tests.
fn flow_program() -> PathBuf {
    let given = std::env::var_os("FLOW_BIN").map(PathBuf::from);
    let program = given.unwrap_or_else(|| {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().join("flow")
    });
    let program = std::path::absolute(root().join(program)).unwrap();
    assert!(
        program.exists(),
        "there is no `{}`: `cargo xtask test` builds it",
        program.display()
    );
    program
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
