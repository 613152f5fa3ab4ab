//! Stock processes that serve: an executor and a gateway, each with Jina's own command.

use std::net::TcpListener;
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use crate::flow::root;
use crate::peers::{DocArrayVersion, interpreter};
use crate::program::Program;

/// What both of Jina's servers say when they listen.
const READY: &str = "start server bound to";

/// A stock process that serves. It ends with this value.
#[derive(Debug)]
pub struct Stock {
    program: Program,
    port: u16,
}

impl Stock {
    /// The executor of `peers/executor.py`; `None` if the peer is not set up.
    pub fn executor(version: DocArrayVersion) -> Option<Self> {
        Self::executor_with(version, &[])
    }

    /// The same with further arguments.
    pub fn executor_with(version: DocArrayVersion, more: &[&str]) -> Option<Self> {
        // In one process, so that nothing is left of it when it is killed.
        let words = ["executor", "--native", "--name", "stock"];
        let own = ["--uses", "executor.yml"];
        Self::start(version, &[&words[..], &own, more].concat())
    }

    /// Executors of `peers/marker.py`, one for each mark, started side by side; `None` if the peer is not set up.
    pub fn markers(version: DocArrayVersion, marks: &[&str]) -> Option<Vec<Self>> {
        let arguments = |mark: &&str| {
            let with = format!("mark:{mark}");
            let words = ["executor", "--native", "--uses", "marker.yml"];
            let own = ["--name", mark, "--uses-with", &with];
            let words = words.into_iter().chain(own);
            words.map(str::to_owned).collect()
        };
        let arguments: Vec<_> = marks.iter().map(arguments).collect();
        let started = Self::start_all(version, &arguments);
        (!started.is_empty()).then_some(started)
    }

    /// A head process before shards at these ports: all of them get each request; `None` if the peer is not set up.
    pub fn head(version: DocArrayVersion, shards: &[u16]) -> Option<Self> {
        let shards = shards.iter().enumerate();
        let list: serde_json::Map<String, Value> = shards
            .map(|(number, port)| (number.to_string(), json!([format!("127.0.0.1:{port}")])))
            .collect();
        let list = Value::Object(list).to_string();
        let words = ["executor", "--native", "--name", "head", "--polling", "ALL"];
        let own = ["--runtime-cls", "HeadRuntime", "--connection-list", &list];
        Self::start(version, &[&words[..], &own].concat())
    }

    /// Gateways, each with further arguments, started side by side.
    pub fn gateways(version: DocArrayVersion, arguments: Vec<Vec<String>>) -> Vec<Self> {
        let gateway = |arguments: Vec<String>| [vec!["gateway".to_owned()], arguments].concat();
        let arguments: Vec<_> = arguments.into_iter().map(gateway).collect();
        Self::start_all(version, &arguments)
    }

    /// A gateway before one executor, named `ours`, at this port.
    pub fn gateway(version: DocArrayVersion, executor: u16) -> Option<Self> {
        let graph = r#"{"start-gateway": ["ours"], "ours": ["end-gateway"]}"#;
        let addresses = format!(r#"{{"ours": ["grpc://127.0.0.1:{executor}"]}}"#);
        let described = [
            "--graph-description",
            graph,
            "--deployments-addresses",
            &addresses,
        ];
        Self::start(version, &[&["gateway"], &described[..]].concat())
    }

    fn start(version: DocArrayVersion, arguments: &[&str]) -> Option<Self> {
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        Self::start_all(version, &[arguments]).pop()
    }

    /// A Python takes seconds to start, so all are started before the first is waited for.
    fn start_all(version: DocArrayVersion, arguments: &[Vec<String>]) -> Vec<Self> {
        let begin = |arguments: &Vec<String>| Self::begin(version, arguments);
        let all: Option<Vec<Self>> = arguments.iter().map(begin).collect();
        let all = all.unwrap_or_default();
        for started in &all {
            started.program.line(READY);
        }
        all
    }

    fn begin(version: DocArrayVersion, arguments: &[String]) -> Option<Self> {
        let port = free_port();
        let mut command = Command::new(interpreter(version)?);
        command
            .current_dir(root().join("tests/peers"))
            .args(["-B", "-m", "jina"])
            .args(arguments);
        command.args(["--port", &port.to_string()]);
        crate::peers::quiet(&mut command);
        // One that exports spans does so at once.
        command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
        let program = Program::start(command);
        Some(Self { program, port })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// Ports that the system gives to no connection, unless it is configured otherwise.
const PORTS: Range<u16> = 61_000..65_500;

/// A port that nobody listens at, and that no other caller in this process gets. It is not one that the system might give to a
/// connection before the program that it is meant for listens there.
pub fn free_port() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    // Processes of tests that run at the same time begin at different ports.
    let first = std::process::id().wrapping_mul(101) % u32::from(count);
    let port = || {
        let call = u32::from(CALLS.fetch_add(1, Ordering::Relaxed));
        let offset = u16::try_from((first + call) % u32::from(count));
        PORTS.start + offset.expect("it is less than the number of ports")
    };
    let mut ports = std::iter::repeat_with(port).take(count.into());
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    ports.find(is_free).expect("a port is free")
}
