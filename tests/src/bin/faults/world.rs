//! The flow on its machines, and the faults that are injected.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{Program, flow_command};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::catalogue::{Cable, Fault, Process};
use crate::machines::{Machine, must, prepare};
use crate::memory;
use crate::script::Script;

/// The machines with executors, and an address in the network of the first one that nobody has.
pub(crate) const EXECUTORS: [&str; 2] = ["10.77.1.2", "10.77.2.2"];
pub(crate) const DEAD: &str = "10.77.1.99";

/// The gateway, as the client sees it.
const GATEWAY: &str = "10.77.0.2";
const GATEWAY_PORT: &str = "8080";

/// The executors are behind this name; the index is on the gateway's machine.
const NAME: &str = "work.flow.test";
const WORK_PORT: &str = "9000";
const INDEX_PORT: &str = "9001";

/// Size of the disk of the index.
const DISK: &str = "size=8m";

/// Where a library that shows a process another time may be, with which Debian's package `libfaketime` comes.
const FAKE_TIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

/// A flow: client, gateway with an index, and two executors, on a machine each.
#[derive(Debug)]
pub(crate) struct World {
    gateway_machine: Machine,
    machines: [Machine; 2],
    /// From the client, and to both executors.
    cables: [Script; 3],
    names: Script,
    executors: [Option<Program>; 2],
    _index: Program,
    gateway: Option<Program>,
    /// What gateways wrote that have ended.
    log: String,
    /// Whether the gateway's clock is that of a file.
    has_own_clock: bool,
    /// What happened in a fault that nobody asked for.
    note: &'static str,
    folder: TempDir,
}

impl World {
    pub(crate) fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let gateway_machine = Machine::new("gateway");
        let machines = [Machine::new("first"), Machine::new("second")];
        let cables = [
            cable("client", ["-", "10.77.0.1"], ["gateway", GATEWAY]),
            cable("first", ["gateway", "10.77.1.1"], ["first", EXECUTORS[0]]),
            cable("second", ["gateway", "10.77.2.1"], ["second", EXECUTORS[1]]),
        ];
        let mut names = Script::start(gateway_machine.on(&python("names.py")));
        names.tell(&json!({ "addresses": EXECUTORS }));
        let mut world = Self {
            executors: machines.map(|it| Some(work(it))),
            _index: index(gateway_machine, folder.path()),
            gateway_machine,
            machines,
            cables,
            names,
            gateway: None,
            log: String::new(),
            has_own_clock: false,
            note: "",
            folder,
        };
        world.start_gateway();
        world
    }

    pub(crate) fn url(&self) -> String {
        format!("grpc://{GATEWAY}:{GATEWAY_PORT}")
    }

    /// What this machine lacks for a fault.
    pub(crate) fn lacks(&self, fault: &Fault) -> Option<&'static str> {
        match fault {
            Fault::Clock(_) if fake_time().is_none() => Some("no libfaketime on this machine"),
            Fault::NoMemory if !memory::can_be_limited() => {
                Some("this process may make no control groups for memory")
            }
            _ => None,
        }
    }

    /// Does what a fault needs before there is load.
    pub(crate) fn get_ready(&mut self, fault: &Fault) {
        if matches!(fault, Fault::Clock(_)) {
            self.set_clock(0);
            self.has_own_clock = true;
            self.start_gateway();
        }
    }

    pub(crate) fn begin(&mut self, fault: &Fault) {
        match fault {
            Fault::Cable(cable, state) => self.cable(*cable, state),
            Fault::Names(state) => {
                self.names.tell(state);
                self.executors[0] = None;
                self.executors[0] = Some(work(self.machines[0]));
            }
            Fault::Clock(seconds) => self.set_clock(*seconds),
            Fault::FullDisk => self.fill_disk(),
            Fault::NoFiles => {
                let pid = self.pid(Process::Gateway);
                let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
                limit_files(pid, open);
            }
            Fault::NoMemory => memory::limit(self.pid(Process::First)),
            Fault::Frozen(process) => self.program(*process).signal(Signal::STOP),
            Fault::Killed(process) => self.kill(*process),
            Fault::MachineDown => {
                self.cable(Cable::First, &json!({"blocked": "both"}));
                self.kill(Process::First);
            }
        }
    }

    pub(crate) fn end(&mut self, fault: &Fault) {
        match fault {
            Fault::Cable(cable, _) => self.cable(*cable, &json!({})),
            Fault::Names(_) => self.names.tell(&json!({ "addresses": EXECUTORS })),
            // A clock that has jumped stays where it is.
            Fault::Clock(_) => {}
            Fault::FullDisk => fs::remove_file(self.ballast()).unwrap(),
            Fault::NoFiles => limit_files(self.pid(Process::Gateway), 1024),
            Fault::NoMemory => self.end_of_memory_limit(),
            Fault::Frozen(process) => self.program(*process).signal(Signal::CONT),
            Fault::Killed(Process::Gateway) => self.start_gateway(),
            Fault::Killed(Process::First) => self.executors[0] = Some(work(self.machines[0])),
            Fault::MachineDown => {
                self.cable(Cable::First, &json!({}));
                self.executors[0] = Some(work(self.machines[0]));
            }
        }
    }

    /// Makes the flow what it was before the fault. Returns what happened that nobody asked for.
    pub(crate) fn heal(&mut self) -> &'static str {
        let has_ended = has_ended(self.pid(Process::Gateway));
        if has_ended || self.has_own_clock {
            self.has_own_clock = false;
            self.start_gateway();
        }
        match has_ended {
            true => "the gateway ended",
            false => std::mem::take(&mut self.note),
        }
    }

    /// What all gateways wrote.
    pub(crate) fn gateway_log(mut self) -> String {
        self.stop_gateway();
        self.log
    }

    fn cable(&mut self, cable: Cable, state: &Value) {
        let [client, first, second] = &mut self.cables;
        match cable {
            Cable::Client => client.tell(state),
            Cable::First => first.tell(state),
            Cable::Both => {
                first.tell(state);
                second.tell(state);
            }
        }
    }

    fn program(&self, process: Process) -> &Program {
        match process {
            Process::Gateway => self.gateway.as_ref().unwrap(),
            Process::First => self.executors[0].as_ref().unwrap(),
        }
    }

    fn pid(&self, process: Process) -> u32 {
        self.program(process).pid()
    }

    fn kill(&mut self, process: Process) {
        match process {
            Process::Gateway => self.stop_gateway(),
            Process::First => self.executors[0] = None,
        }
    }

    fn stop_gateway(&mut self) {
        let lines = self.gateway.take().map(|it| it.lines());
        for line in lines.into_iter().flatten() {
            self.log.push_str(&line.text);
            self.log.push('\n');
        }
    }

    fn start_gateway(&mut self) {
        self.stop_gateway();
        let file = self.folder.path().join("flow.yml");
        let flow = format!(
            "jtype: Flow
executors:
- {{name: work, external: true, host: {NAME}, port: {WORK_PORT}, idempotent: true}}
- {{name: index, external: true, host: 127.0.0.1, port: {INDEX_PORT}}}
"
        );
        fs::write(&file, flow).unwrap();
        let mut command = flow_command();
        command.arg("gateway").arg(file);
        command.args(["--host", GATEWAY, "--port", GATEWAY_PORT, "--log", "json"]);
        if self.has_own_clock {
            command.env("LD_PRELOAD", fake_time().unwrap());
            command.env("FAKETIME_TIMESTAMP_FILE", self.clock());
            command.env("FAKETIME_NO_CACHE", "1");
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let program = Program::start(self.gateway_machine.on(&command));
        program.ready();
        self.gateway = Some(program);
    }

    /// Starts the executor again if the kernel has killed it, as a supervisor would.
    fn end_of_memory_limit(&mut self) {
        let pid = self.pid(Process::First);
        if has_ended(pid) {
            self.note = "the kernel killed the executor, which was started again";
            self.executors[0] = Some(work(self.machines[0]));
        } else {
            memory::lift_limit(pid);
        }
    }

    fn clock(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    fn set_clock(&self, seconds_ahead: i64) {
        fs::write(self.clock(), format!("{seconds_ahead:+}")).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.folder.path().join("index/ballast")
    }

    fn fill_disk(&self) {
        let mut ballast = fs::File::create(self.ballast()).unwrap();
        while ballast.write_all(&[0; 4096]).is_ok() {}
    }
}

/// A cable between two machines; `-` is that of the client.
fn cable(name: &str, one: [&str; 2], other: [&str; 2]) -> Script {
    let mut command = python("cable.py");
    command.arg(name).args(one).args(other);
    Script::start(command)
}

/// A script of the tests.
fn python(name: &str) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let mut command = Command::new("python3");
    command.arg(scripts.join(name));
    command
}

/// Starts the executor of a machine.
fn work(machine: Machine) -> Program {
    let mut command = flow_command();
    command.args(["executor", "--uses", "echo", "--log", "json"]);
    command.args(["--host", "0.0.0.0", "--port", WORK_PORT]);
    started(machine.on(&command))
}

/// Starts the index, on a disk of its own.
fn index(machine: Machine, folder: &Path) -> Program {
    let disk = folder.join("index");
    fs::create_dir(&disk).unwrap();
    let at = disk.display().to_string();
    must("mount", &["-t", "tmpfs", "-o", DISK, "tmpfs", &at]);
    let mut command = flow_command();
    command.args(["executor", "--uses", "vector-index", "--log", "json"]);
    command.args(["--port", INDEX_PORT, "--workspace", &at]);
    started(machine.on(&command))
}

fn started(command: Command) -> Program {
    let program = Program::start(command);
    program.ready();
    program
}

fn fake_time() -> Option<&'static Path> {
    let mut paths = FAKE_TIME.into_iter().map(Path::new);
    paths.find(|it| it.exists())
}

fn limit_files(pid: u32, count: usize) {
    must(
        "prlimit",
        &[&format!("--pid={pid}"), &format!("--nofile={count}:")],
    );
}

/// Whether a process of ours has ended; nobody has waited for it yet.
fn has_ended(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}
