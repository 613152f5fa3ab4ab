//! Real executors and gateways on this machine.

use std::fs;
use std::process::Command;
use std::time::Duration;

use flow_tests::{Program, TestFlow, flow_command};

/// The unit of times in `/proc`, which Linux does not change.
const TICK: Duration = Duration::from_millis(10);

/// Executors, and gateways that share them.
#[derive(Debug)]
pub(crate) struct Machine {
    executors: Vec<Program>,
    gateways: Vec<TestFlow>,
}

/// What kind of executor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// One whose calls take a given time, and no CPU. It returns vectors of so many numbers.
    Timed {
        call_us: u64,
        document_us: u64,
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
        let yaml = format!(
            "executors: [{{name: executor, external: true, host: 127.0.0.1, port: {ports:?}}}]"
        );
        Self {
            gateways: (0..gateways).map(|_| TestFlow::up(&yaml)).collect(),
            executors,
        }
    }

    /// Where clients reach the gateways.
    pub(crate) fn gateways(&self) -> Vec<String> {
        self.gateways.iter().map(TestFlow::url).collect()
    }

    /// Where clients reach the first executor without a gateway.
    pub(crate) fn executor(&self) -> Vec<String> {
        vec![format!("grpc://{}", self.executors[0].address())]
    }

    /// The CPU time of all gateways so far.
    pub(crate) fn gateways_cpu(&self) -> Duration {
        let gateways = self.gateways.iter();
        gateways.map(|flow| cpu_time(flow.pid("gateway"))).sum()
    }
}

/// User and system time of a process.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, which is in parentheses, may contain spaces.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let ticks = |place: usize| -> u64 { rest.split(' ').nth(place).unwrap().parse().unwrap() };
    TICK * u32::try_from(ticks(11) + ticks(12)).unwrap()
}
