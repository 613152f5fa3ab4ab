//! Several gateways behind one name.

use std::fs::read_to_string;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use flow_tests::{Program, eventually, flow_command, skipped};
use rustix::process::Signal;

/// What each document takes, in milliseconds; no two are the same.
const TIMES: std::ops::RangeInclusive<u32> = 1..=80;

/// Addresses of this machine, and the name that clients find them by.
const ADDRESSES: [&str; 2] = ["127.0.0.2", "127.0.0.3"];
const NAME: &str = "gateways.test";

/// Runs what follows with another `/etc/hosts`, which only that process sees.
const WITH_HOSTS: &str = r#"mount --bind "$0" /etc/hosts && exec "$@""#;

/// A command after which a program is named, which finds the addresses by the name. `None` if this machine does not allow that.
fn with_name(folder: &Path) -> Option<Command> {
    let hosts = folder.join("hosts");
    std::fs::write(
        &hosts,
        ADDRESSES.map(|it| format!("{it} {NAME}\n")).concat(),
    )
    .unwrap();
    let with_hosts = || {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", WITH_HOSTS]);
        command.arg(&hosts);
        command
    };
    match with_hosts().arg("true").output() {
        Ok(output) if output.status.success() => Some(with_hosts()),
        other => {
            skipped(&format!(
                "no process can have an `/etc/hosts` of its own: {other:?}"
            ));
            None
        }
    }
}

/// A port that is free at all addresses.
fn free_port() -> u16 {
    let is_free = |port: &u16| {
        ADDRESSES
            .iter()
            .all(|it| TcpListener::bind((*it, *port)).is_ok())
    };
    let ports = std::iter::repeat_with(flow_tests::free_port);
    ports.take(100).find(is_free).expect("a port is free")
}

/// A flow whose gateway listens at this address.
fn gateway_at(address: SocketAddr, folder: &Path) -> Program {
    let state = folder.join(address.to_string());
    let file = folder.join("flow.yml");
    let faulty = crate::FAULTY;
    let yaml = format!("jtype: Flow\nexecutors: [{{name: faulty, uses: {faulty}}}]");
    std::fs::write(&file, yaml).unwrap();
    let mut command = flow_command();
    command.env("XDG_STATE_HOME", state).arg("up").arg(file);
    command.args(["--host", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string()]);
    command.args(["--ready-format", "json", "--access-log"]);
    let program = Program::start(command);
    assert_eq!(program.address(), address);
    program
}

#[test]
fn a_client_whose_gateway_is_killed_goes_on_at_another_one_of_the_same_name_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = with_name(folder.path()) else {
        return;
    };
    let port = free_port();
    let at = |ip: &str| gateway_at(SocketAddr::new(ip.parse().unwrap(), port), folder.path());
    let gateways = ADDRESSES.map(at);
    let output = folder.path().join("out.jsonl");
    command.arg(flow_command().get_program());
    command.args(["post", &format!("grpc://{NAME}:{port}")]);
    command.args(["--on", "/slow", "--request-size", "1", "--prefetch", "4"]);
    command.args(["--retries", "20", "--idempotent", "--lines", "--input", "-"]);
    command.arg("--output").arg(&output);
    let mut client = Program::start(command);
    let lines: String = TIMES.map(|time| format!("{time}\n")).collect();
    client.write_all(lines.as_bytes());
    let answered = |gateway: &Program| gateway.said().matches("flow_gateway::access").count();
    eventually("some requests are answered", || {
        gateways.iter().any(|gateway| answered(gateway) > 5)
    });
    let used = usize::from(answered(&gateways[1]) > 0);
    assert!(answered(&gateways[used]) < TIMES.count(), "nothing is left");
    gateways[used].signal(Signal::KILL);
    assert_eq!(client.end().code(), Some(0), "{}", client.said());
    let text = |line: &str| {
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        document["text"].as_str().unwrap().to_owned()
    };
    let replies: Vec<String> = read_to_string(&output).unwrap().lines().map(text).collect();
    let sent: Vec<String> = TIMES.map(|time| time.to_string()).collect();
    assert_eq!(replies, sent);
    assert!(answered(&gateways[1 - used]) > 0, "{}", client.said());
}
