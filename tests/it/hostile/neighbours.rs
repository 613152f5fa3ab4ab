//! Other users of the machine, and what a process of the flow shows them.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{Program, TestFlow, eventually, flow_command, flow_serve, post, send, texts};
use rustix::process::Signal;
use serde_json::Value;

use crate::FAULTY;

/// A secret that no other client may see.
const SECRET: &str = "correct-horse-battery-staple";

/// The command line of a process, which every user of the machine can read.
fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Fails if the secret is on the command line of one of these processes.
fn hides_the_secret(flow: &TestFlow, names: &[&str]) {
    for name in names {
        let line = command_line(flow.pid(name));
        assert!(!line.contains(SECRET), "`{name}`: {line}");
    }
}

async fn reply(flow: &TestFlow) -> String {
    let mut replies = post(flow, vec![texts("/mark", &["x"])]).await;
    replies.remove(0).texts.remove(0)
}

#[tokio::test]
async fn options_of_executors_are_not_on_their_command_lines() {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: faulty, uses: {FAULTY}, uses_with: {{mark: {SECRET}}}}}]"
    ));
    hides_the_secret(&flow, &["faulty", "gateway"]);
    assert_eq!(reply(&flow).await, format!("x{SECRET}"));
    // A process that is started again gets them again.
    let mut restart = flow_command();
    restart.env("XDG_STATE_HOME", flow.folder().join("state"));
    restart.args(["restart", "faulty"]);
    let (code, said) = Program::run(restart);
    assert_eq!(code, Some(0), "{}", said.said());
    hides_the_secret(&flow, &["faulty"]);
    assert_eq!(reply(&flow).await, format!("x{SECRET}"));
}

#[tokio::test]
async fn options_of_a_config_are_not_on_a_command_line_either() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yml");
    let text = format!("jtype: {FAULTY}\nwith: {{mark: {SECRET}}}\n");
    std::fs::write(&config, text).unwrap();
    let flow = TestFlow::up(&format!(
        "executors: [{{name: faulty, uses: {}}}]",
        config.display()
    ));
    hides_the_secret(&flow, &["faulty"]);
    assert_eq!(reply(&flow).await, format!("x{SECRET}"));
    // The same config without a flow, with another option on the command line.
    let port = flow_tests::free_port().to_string();
    let mut alone = flow_command();
    alone.args(["executor", "--uses"]).arg(&config);
    alone.args(["--log", "json", "--port", &port, "--uses-with", "mark:loud"]);
    let alone = Program::start(alone);
    alone.ready();
    let line = command_line(alone.pid());
    assert!(line.starts_with(FAULTY) && !line.contains(SECRET), "{line}");
}

const PYTHON: &str = "\
from jina import Executor, requests

class Shows(Executor):
    def __init__(self, mark='', **kwargs):
        super().__init__(**kwargs)
        self.mark = mark

    @requests
    def any(self, docs, **kwargs):
        for doc in docs:
            doc.text += self.mark
";

fn write_python(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("shows.py");
    std::fs::write(&file, PYTHON).unwrap();
    file
}

#[tokio::test]
async fn options_of_python_executors_are_not_on_their_command_lines() {
    let Some(python) = flow_serve() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = write_python(folder.path());
    let yaml = format!(
        "executors: [{{name: shows, uses: {}, uses_with: {{mark: {SECRET}}}}}]",
        file.display()
    );
    let flow = TestFlow::up_in(&yaml, &[("FLOW_PYTHON", python.to_str().unwrap())]);
    hides_the_secret(&flow, &["shows"]);
    assert_eq!(reply(&flow).await, format!("x{SECRET}"));
}

/// The names of the variables in the environment of a process.
fn variables(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let variables = text.split('\0').filter_map(|it| it.split_once('='));
    variables.map(|(name, _)| name.to_owned()).collect()
}

/// Which of these variables a process has.
fn found(flow: &TestFlow, name: &str, asked: &[&str]) -> String {
    let all = variables(flow.pid(name));
    let found = asked.iter().filter(|&&it| all.iter().any(|has| has == it));
    found.copied().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_process_inherits_the_variables_that_it_reads_and_those_that_the_flow_names() {
    let yaml = format!(
        "gateway: {{env: {{OWN: x}}}}\nexecutors:\n\
         - {{name: built-in, uses: echo, env: {{OWN: x}}}}\n\
         - {{name: named, uses: echo, inherit_env: 'AWS_*'}}\n\
         - {{name: all, uses: echo, inherit_env: true}}\n\
         - {{name: yours, uses: {FAULTY}}}\n\
         - {{name: strict, uses: {FAULTY}, inherit_env: false}}\n"
    );
    let asked = [
        "AWS_SECRET",
        "FLOW_API_KEY",
        "HF_TOKEN",
        "LC_ALL",
        "OWN",
        "PATH",
    ];
    let set = ["AWS_SECRET", "FLOW_API_KEY", "HF_TOKEN", "LC_ALL"].map(|name| (name, "C"));
    let flow = TestFlow::up_in(&yaml, &set);
    for (name, expected) in [
        ("gateway", "LC_ALL OWN PATH"),
        ("built-in", "LC_ALL OWN PATH"),
        ("named", "AWS_SECRET LC_ALL PATH"),
        ("all", "AWS_SECRET FLOW_API_KEY HF_TOKEN LC_ALL PATH"),
        ("yours", "AWS_SECRET FLOW_API_KEY HF_TOKEN LC_ALL PATH"),
        ("strict", "LC_ALL PATH"),
    ] {
        assert_eq!(found(&flow, name, &asked), expected, "{name}");
    }
}

#[test]
fn the_token_of_the_hub_is_for_the_encoder_alone() {
    let yaml = "executors: [{name: encoder, uses: sentence-encoder}, {name: echo, uses: echo}]";
    let flow = TestFlow::up_in(yaml, &[("HF_TOKEN", "hf_none")]);
    let found = ["gateway", "encoder", "echo"].map(|name| found(&flow, name, &["HF_TOKEN"]));
    assert_eq!(found, ["", "HF_TOKEN", ""]);
}

#[test]
fn an_export_refers_to_secrets_and_contains_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    let yaml = format!(
        "jtype: Flow\nexecutors: [{{name: a, uses: echo, env: {{A_TOKEN: {SECRET}, B: x}}}}]"
    );
    std::fs::write(&file, yaml).unwrap();
    for (target, reference) in [
        ("docker-compose", "A_TOKEN: \"${A_TOKEN:?}\""),
        ("swarm", "A_TOKEN: \"${A_TOKEN:?}\""),
        ("kubernetes", "name: a-secrets"),
    ] {
        let out = folder.path().join(target);
        let mut export = flow_command();
        export.args(["export", target]).args([&file, &out]);
        let (code, said) = Program::run(export);
        assert_eq!(code, Some(0), "{}", said.said());
        let warning = "the value of `A_TOKEN` of `a` looks like a secret and is not in the file";
        assert_eq!(said.stderr().matches(warning).count(), 1, "{}", said.said());
        assert!(!said.stderr().contains(SECRET), "{}", said.said());
        let exported = text_below(&out);
        assert!(exported.contains(reference), "{target}: {exported}");
        assert!(!exported.contains(SECRET), "{target}: {exported}");
    }
}

/// The text of a file, or of all files in a folder.
fn text_below(path: &Path) -> String {
    if path.is_file() {
        return std::fs::read_to_string(path).unwrap();
    }
    let entries = std::fs::read_dir(path).unwrap();
    entries
        .map(|entry| text_below(&entry.unwrap().path()))
        .collect()
}

#[test]
fn a_check_does_not_quote_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    for wrong in [
        format!("with: {{api_keys: [{SECRET}]}}\nexecutors: [{{name: a, uses: echo}}]"),
        format!("executors: [{{name: a, uses: echo, env: {{A_TOKEN: [{SECRET}]}}}}]"),
        format!(
            "executors: [{{name: a, uses: sentence-encoder, uses_with: {{api_key: {SECRET}}}}}]"
        ),
    ] {
        std::fs::write(&file, format!("jtype: Flow\n{wrong}")).unwrap();
        let mut check = flow_command();
        check.arg("check").arg(&file);
        let (code, said) = Program::run(check);
        assert_eq!(code, Some(2), "{wrong}: {}", said.said());
        assert!(!said.said().contains(SECRET), "{wrong}: {}", said.said());
    }
}

/// Where the processes of a flow listen, by their names.
fn addresses(flow: &TestFlow) -> BTreeMap<String, String> {
    let listing = serde_json::from_str::<Value>(&run(flow, &["ps", "--json"])).unwrap();
    let processes = listing[0]["processes"].as_array().unwrap().iter();
    let text = |process: &Value, key: &str| process[key].as_str().unwrap().to_owned();
    let addresses = processes.map(|it| (text(it, "name"), text(it, "address")));
    addresses.collect()
}

/// What a command says that finds the flow.
fn run(flow: &TestFlow, arguments: &[&str]) -> String {
    let mut command = flow_command();
    command.env("XDG_STATE_HOME", flow.folder().join("state"));
    command.args(arguments);
    let (code, said) = Program::run(command);
    assert_eq!(code, Some(0), "{arguments:?}: {}", said.said());
    said.stdout()
}

/// The path of the socket at which a process listens.
fn socket(flow: &TestFlow, name: &str) -> PathBuf {
    let addresses = addresses(flow);
    let address = addresses[name].strip_prefix("unix:");
    address
        .unwrap_or_else(|| panic!("{name}: {addresses:?}"))
        .into()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// The sockets in the state folder of a flow.
fn sockets(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Fails unless the flow answers.
fn answers(flow: &TestFlow) {
    let said = run(flow, &["post", &flow.url(), "--on", "/", "--text", "well"]);
    assert!(said.contains("well"), "{said}");
}

#[test]
fn executors_of_a_flow_listen_where_only_its_user_can_connect() {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: echo, uses: echo}}, {{name: faulty, uses: {FAULTY}}}, \
         {{name: port, uses: echo, port: {}}}, {{name: host, uses: echo, host: 127.0.0.1}}]",
        flow_tests::free_port()
    ));
    for name in ["echo", "faulty"] {
        let socket = socket(&flow, name);
        assert_eq!(mode(&socket), 0o600);
        let folder = socket.parent().unwrap();
        assert_eq!(mode(folder), 0o700);
        assert_eq!(mode(folder.parent().unwrap()), 0o700);
        let ping = run(&flow, &["ping", &format!("unix:{}", socket.display())]);
        assert!(ping.contains("executor is ready"), "{ping}");
    }
    let addresses = addresses(&flow);
    for name in ["port", "host", "gateway"] {
        let address = &addresses[name];
        assert!(address.starts_with("127.0.0.1:"), "{name}: {address}");
    }
    answers(&flow);
}

/// Speaks HTTP/2 as a user, and says how many bytes came back.
const CLIENT: &str = "\
import os, socket, sys
user, path = int(sys.argv[1]), sys.argv[2]
os.setgroups([])
os.setgid(user)
os.setuid(user)
client = socket.socket(socket.AF_UNIX)
client.settimeout(30)
try:
    client.connect(path)
    client.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    print(len(client.recv(1000)))
except PermissionError:
    print('permission denied')
except (BrokenPipeError, ConnectionResetError):
    print(0)
";

/// What a program of this user gets from a socket.
fn received(user: u32, socket: &Path) -> String {
    let mut client = Command::new("python3");
    client.args(["-c", CLIENT, &user.to_string()]).arg(socket);
    let (code, said) = Program::run(client);
    assert_eq!(code, Some(0), "{}", said.said());
    said.stdout().trim().to_owned()
}

#[test]
fn another_user_is_refused_even_where_the_socket_is_open_to_all() {
    const OTHER_USER: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return flow_tests::skipped("only root can act as another user");
    }
    let flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    flow.expect("refused a connection of another user of this machine user=65534");
    let socket = socket(&flow, "echo");
    assert_eq!(received(OTHER_USER, &socket), "permission denied");
    let folders = socket.ancestors().skip(1);
    for folder in folders.take_while(|it| it.starts_with(flow.folder())) {
        std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(received(OTHER_USER, &socket), "0");
    assert_ne!(received(0, &socket), "0");
    answers(&flow);
}

#[test]
fn an_executor_that_was_killed_listens_at_its_socket_again() {
    let flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    flow.expect("process died and is restarted")
        .expect("replica cannot be reached");
    let before = socket(&flow, "echo");
    let pid = flow.pid("echo");
    send(pid, Signal::KILL);
    let is_back = || flow.pid("echo") != pid;
    eventually("the executor is started again", is_back);
    assert_eq!(socket(&flow, "echo"), before);
    answers(&flow);
    assert_eq!(sockets(before.parent().unwrap()), 1);
}

#[test]
fn changes_and_the_end_of_a_flow_leave_no_socket_behind() {
    let mut flow = TestFlow::up("executors: [{name: echo, uses: echo}]");
    let first = socket(&flow, "echo");
    let folder = first.parent().unwrap().to_owned();
    run(&flow, &["scale", "echo=3"]);
    answers(&flow);
    assert_eq!(sockets(&folder), 3);
    run(&flow, &["scale", "echo=1"]);
    assert_eq!(sockets(&folder), 1);
    run(&flow, &["restart", "echo"]);
    assert_ne!(
        socket(&flow, "echo"),
        first,
        "it was ready before the old one ended"
    );
    answers(&flow);
    assert_eq!(sockets(&folder), 1);
    // With a host in the file, it listens at a port.
    let file = flow.folder().join("flow.yml");
    let yaml = |host| format!("jtype: Flow\nexecutors: [{{name: echo, uses: echo{host}}}]");
    std::fs::write(&file, yaml(", host: 127.0.0.1")).unwrap();
    run(&flow, &["reload"]);
    answers(&flow);
    assert_eq!(sockets(&folder), 0);
    std::fs::write(&file, yaml("")).unwrap();
    run(&flow, &["reload"]);
    answers(&flow);
    assert_eq!(sockets(&folder), 1);
    run(&flow, &["down"]);
    flow.program_mut().end();
    assert_eq!(sockets(&folder), 0);
}

#[test]
fn a_flow_that_was_killed_starts_again_over_its_sockets() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than the path of a socket may be.
    let state = folder.path().join("long".repeat(30));
    let state = state.to_str().unwrap();
    let file = folder.path().join("flow.yml");
    std::fs::write(&file, "jtype: Flow\nexecutors: [{name: echo, uses: echo}]").unwrap();
    let up = || {
        let mut command = flow_command();
        command.env("XDG_STATE_HOME", state).arg("up").arg(&file);
        command.args(["--port", "0", "--ready-format", "json"]);
        Program::start(command)
    };
    for _ in 0..2 {
        let mut flow = up();
        let url = format!("grpc://127.0.0.1:{}", flow.port());
        let mut ping = flow_command();
        ping.args(["ping", &url]);
        let (code, said) = Program::run(ping);
        assert_eq!(code, Some(0), "{}", said.said());
        let address = flow.line("echo@");
        assert!(address.contains(" unix:/"), "{address}");
        flow.signal(Signal::KILL);
        flow.end();
    }
}
