//! Real executors and gateways on this machine.

use std::fs;
use std::num::NonZeroUsize;
use std::process::Command;
use std::thread;
use std::time::Duration;

use flow_tests::{Program, flow_command};
use tempfile::TempDir;

/// Executors, and gateways that share them.
#[derive(Debug)]
pub(crate) struct Machine {
    // Dropped first: gateways do not have to find out that executors are gone.
    gateways: Vec<Program>,
    executors: Vec<Program>,
    _folder: TempDir,
}

/// What kind of executor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// One whose calls take a given time, and no CPU.
    Timed {
        call_us: u64,
        document_us: u64,
        /// Numbers of the vector that each document gets.
        vector: usize,
    },
    /// The sentence encoder on so many threads.
    Encoder { threads: usize },
}

impl Kind {
    fn command(self) -> Command {
        match self {
            Self::Timed {
                call_us,
                document_us,
                vector,
            } => {
                let own = std::env::current_exe().unwrap();
                let mut command = Command::new(own.with_file_name("timed"));
                command.args(["--name", "timed", "--log", "json"]);
                with(&mut command, &format!("call_us:{call_us}"));
                with(&mut command, &format!("document_us:{document_us}"));
                with(&mut command, &format!("vector:{vector}"));
                command
            }
            Self::Encoder { threads } => {
                let mut command = flow_command();
                command.args(["executor", "--uses", "sentence-encoder", "--log", "json"]);
                with(&mut command, &format!("threads:{threads}"));
                with(&mut command, "precision:auto");
                command
            }
        }
    }
}

fn with(command: &mut Command, option: &str) {
    command.args(["--uses-with", option]);
}

impl Machine {
    pub(crate) fn start(kind: Kind, executors: usize, gateways: usize) -> Self {
        let executors = (0..executors).map(|_| Program::start(kind.command()));
        let executors: Vec<Program> = executors.collect();
        let ports: Vec<u16> = executors.iter().map(|it| it.address().port()).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        let yaml = format!(
            "jtype: Flow\nexecutors: [{{name: executor, external: true, host: 127.0.0.1, port: {ports:?}}}]"
        );
        fs::write(&file, yaml).unwrap();
        let gateway = |_| {
            let mut up = flow_command();
            up.arg("up").arg(&file);
            up.args(["--port", "0", "--ready-format", "json"]);
            let up = Program::start(up);
            up.port();
            up
        };
        Self {
            gateways: (0..gateways).map(gateway).collect(),
            executors,
            _folder: folder,
        }
    }

    /// Where clients reach the gateways.
    pub(crate) fn gateways(&self) -> Vec<String> {
        let url = |up: &Program| format!("grpc://127.0.0.1:{}", up.port());
        self.gateways.iter().map(url).collect()
    }

    /// Where clients reach the first executor without a gateway.
    pub(crate) fn executor(&self) -> Vec<String> {
        vec![format!("grpc://{}", self.executors[0].address())]
    }

    /// The CPU time of all gateways so far.
    pub(crate) fn gateways_cpu(&self) -> Duration {
        let seconds = |up: &Program| {
            let line = up.line("gateway@");
            let (_, rest) = line.split_once("gateway@").unwrap();
            let pid: String = rest.chars().take_while(char::is_ascii_digit).collect();
            flow_metrics::process_cpu_seconds(pid.parse().unwrap()).unwrap()
        };
        Duration::from_secs_f64(self.gateways.iter().map(seconds).sum())
    }
}

/// The cores of this machine.
pub(crate) fn core_count() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
