//! Secrets of a flow file are where they are needed and nowhere else: not in what commands print, in logs, in the replies of the
//! gateway, in the command lines of processes, or in exported files.
//!
//! Every secret contains [`MARK`].

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use flow_tests::{Program, TestFlow, eventually, flow_command, is_alive, send};
use rustix::process::Signal;

use crate::FAULTY;

/// A part of every secret.
const MARK: &str = "s3cret-";

/// A log that shows all that there is.
const EVERYTHING: (&str, &str) = ("FLOW_LOG", "trace");

/// The flow, with an external executor at this address.
fn flow_with_secrets(external: &str) -> String {
    format!(
        "with:
  name: hidden
  monitoring: true
  access_log: true
  env: {{SHARED_TOKEN: s3cret-shared}}
gateway:
  env: {{GATEWAY_PASSWORD: s3cret-gateway, BROKER_URL: 'amqp://flow:s3cret-broker@mq'}}
executors:
  - name: faulty
    uses: {FAULTY}
    uses_with: {{api_key: s3cret-option, url: 'postgres://flow:s3cret-url@db/x', mark: '!'}}
    env: {{OPENAI_API_KEY: s3cret-env, DATABASE_URL: 'postgres://flow:s3cret-database@db/x'}}
    replicas: 2
  - name: outside
    external: true
    host: '{external}'
    grpc_metadata: {{authorization: Bearer s3cret-metadata, tenant: a}}
"
    )
}

/// An address at which nothing is called.
const NOWHERE: &str = "grpc://example.com:54321";

/// The same secrets, each where something else is expected.
const WRONG: &str = "jtype: Flow
with:
  env: 'SHARED_TOKEN=s3cret-shared'
  port: {password: s3cret-port}
executors:
  - name: a
    uses: segmenter
    uses_with: {by: 'http://u:s3cret-by@h', api_key: s3cret-option, password: [s3cret-list], max_words: {token: s3cret-deep}}
  - {name: b, uses: echo, uses_with: 'api_key: s3cret-text'}
  - {name: c, uses: echo, uses_with: '{\"api_key\": s3cret-json'}
  - {name: d, uses: echo, env: [s3cret-item], replicas: 'redis://u:s3cret-replicas@h'}
  - {name: e, external: true, host: 'grpc://u:s3cret-host@h:1', grpc_metadata: {authorization: 's3cret-é'}}
";

#[track_caller]
fn check_hidden(what: &str, text: &str) {
    if let Some(at) = text.find(MARK) {
        let before: String = text[..at].chars().rev().take(200).collect();
        let before: String = before.chars().rev().collect();
        let shown: String = text[at..].chars().take(40).collect();
        panic!("{what} shows a secret: …{before}{shown}…");
    }
}

/// Runs a command to its end, with the log of everything, and checks what it prints.
#[track_caller]
fn run(state: &Path, arguments: &[&str]) -> (Option<i32>, Program) {
    let mut command = flow_command();
    command
        .env("XDG_STATE_HOME", state.join("state"))
        .env(EVERYTHING.0, EVERYTHING.1)
        .args(arguments);
    let (code, program) = Program::run(command);
    check_hidden(&format!("`flow {}`", arguments.join(" ")), &program.said());
    (code, program)
}

/// All files below a folder with what they contain.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
    found
}

#[test]
fn commands_that_read_a_flow_file_do_not_print_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    let text = format!("jtype: Flow\n{}", flow_with_secrets(NOWHERE));
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let mermaid = ["plot", file, "--format", "mermaid"];
    for arguments in [&["check", file][..], &["plot", file], &mermaid] {
        let (code, program) = run(folder.path(), arguments);
        assert_eq!(code, Some(0), "{}", program.said());
    }
    run(folder.path(), &["doctor", file]);
    run(folder.path(), &["migrate", file]);
}

#[test]
fn complaints_about_a_flow_file_do_not_quote_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    fs::write(&file, WRONG).unwrap();
    let file = file.to_str().unwrap();
    for command in ["check", "up", "plot", "doctor"] {
        let (code, program) = run(folder.path(), &[command, file]);
        assert_ne!(code, Some(0), "{}", program.said());
        assert!(program.said().contains("problem"), "{}", program.said());
    }
    let options = "--uses-with={\"api_key\": s3cret-option}";
    for options in [options, "--uses-with=s3cret-option"] {
        let mut command = flow_command();
        command.args(["executor", "--uses", "echo", options]);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(2), "{}", program.said());
        // What the program has said begins with its command line.
        check_hidden("`flow executor`", &program.stderr());
    }
}

#[test]
fn exports_name_variables_in_place_of_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    let text = format!("jtype: Flow\n{}", flow_with_secrets(NOWHERE));
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    for target in ["docker-compose", "swarm", "kubernetes", "helm"] {
        let out = folder.path().join(target);
        let arguments = ["export", target, file, out.to_str().unwrap()];
        let image = ["--image", "faulty=example.com/faulty:1"];
        let (code, program) = run(folder.path(), &[&arguments[..], &image].concat());
        assert_eq!(code, Some(0), "{}", program.said());
        let written = match target {
            "docker-compose" => vec![(target.to_owned(), fs::read_to_string(&out).unwrap())],
            _ => files(&out),
        };
        for (name, text) in &written {
            check_hidden(name, text);
        }
        let all: String = written.into_iter().map(|(_, text)| text).collect();
        for variable in [
            "SHARED_TOKEN",
            "GATEWAY_PASSWORD",
            "BROKER_URL",
            "OPENAI_API_KEY",
            "DATABASE_URL",
            "USES_WITH_API_KEY",
            "USES_WITH_URL",
            "GRPC_METADATA_OUTSIDE_AUTHORIZATION",
        ] {
            assert!(all.contains(variable), "{target} lacks `{variable}`: {all}");
            let said = program.stderr();
            let is_named = said.contains(&format!("`{variable}`"));
            assert!(is_named, "{target} says nothing about `{variable}`: {said}");
        }
        assert!(all.contains("tenant"), "{all}");
    }
}

/// What follows the status line of the reply to a request of HTTP/1.1, with a key that may not be shown.
fn http(port: u16, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nx-flow-console: 1\r\n\
         Authorization: Bearer s3cret-key\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn check_replies(flow: &TestFlow) {
    let paths = [
        "/",
        "/status",
        "/dry_run",
        "/openapi.json",
        "/v1/models",
        "/info",
        "/nothing",
        "/_console/api/overview",
        "/_console/api/history",
        "/_console/api/requests",
        "/_console/api/endpoints",
        "/_console/api/flow",
        "/_console/api/rights",
        "/_console/api/processes",
        "/_console/api/flow-file",
        "/_console/api/logs",
        "/metrics",
    ];
    for path in paths {
        let reply = http(flow.port(), "GET", path, "");
        assert!(reply.starts_with("HTTP/1.1 "), "{path}: {reply}");
        check_hidden(path, &reply);
    }
    for endpoint in ["/mark", "/fail", "/panic", "/none"] {
        let body = format!(r#"{{"data": [{{"text": "a"}}], "execEndpoint": "{endpoint}"}}"#);
        check_hidden(endpoint, &http(flow.port(), "POST", "/post", &body));
    }
}

fn check_commands(flow: &TestFlow) {
    let url = flow.url();
    let commands: [&[&str]; 11] = [
        &["ps"],
        &["ps", "--json"],
        &["ping", &url],
        &["post", &url, "--on", "/mark", "--text", "a"],
        &["post", &url, "--on", "/fail", "--text", "a"],
        &["trace", &url, "--on", "/mark", "--text", "a"],
        &["trace", &url, "--on", "/mark", "--text", "a", "--json"],
        &["logs", "-n", "100000"],
        &["restart", "faulty"],
        &["scale", "faulty=1"],
        &["reload"],
    ];
    for command in commands {
        run(flow.folder(), command);
    }
}

/// What the kernel knows about a process of the flow.
fn about(pid: u32, what: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// This process and all that descend from it.
fn family(pid: u32) -> Vec<u32> {
    let children = about(pid, &format!("task/{pid}/children"));
    let children = children.split_whitespace().map(|it| it.parse().unwrap());
    let below = children.flat_map(|child: u32| family(child));
    std::iter::once(pid).chain(below).collect()
}

fn check_processes(flow: &TestFlow) {
    let all = family(flow.program().pid());
    // Threads other than the first may start processes, which its list does not have.
    let faulty = flow.pid("faulty/rep-0");
    let gateway = flow.pid("gateway");
    for pid in all.into_iter().chain([faulty, gateway]) {
        check_hidden("a command line", &about(pid, "cmdline"));
    }
    let of_faulty = about(faulty, "environ");
    for needed in ["s3cret-shared", "s3cret-env", "s3cret-database"] {
        assert!(of_faulty.contains(needed), "{needed}");
    }
    let of_gateway = about(gateway, "environ");
    for needed in ["s3cret-shared", "s3cret-gateway", "s3cret-broker"] {
        assert!(of_gateway.contains(needed), "{needed}");
    }
    for (of, environment, others) in [
        (
            "faulty",
            &of_faulty,
            ["s3cret-gateway", "s3cret-broker", "s3cret-option"],
        ),
        (
            "the gateway",
            &of_gateway,
            ["s3cret-env", "s3cret-database", "s3cret-option"],
        ),
    ] {
        let found = others.iter().find(|it| environment.contains(**it));
        assert_eq!(found, None, "in the environment of {of}");
    }
}

#[test]
fn a_running_flow_shows_its_secrets_to_no_one() {
    let mut outside = Command::new(FAULTY);
    outside.args(["--port", "0", "--log", "json"]);
    let outside = Program::start(outside);
    let external = format!("grpc://{}", outside.address());
    let mut flow = TestFlow::up_in(&flow_with_secrets(&external), &[EVERYTHING]);
    // Requests fail, executors panic and end.
    flow.expect(" WARN ").expect(" ERROR ");
    check_processes(&flow);
    check_replies(&flow);
    let pid = flow.pid("faulty/rep-1");
    send(pid, Signal::KILL);
    eventually("the process has ended", || !is_alive(pid));
    flow.program().line("process died");
    check_commands(&flow);
    flow.program().signal(Signal::TERM);
    flow.program_mut().end();
    let lines = flow.program().lines();
    assert!(lines.iter().any(|line| line.text.contains("TRACE")));
    for line in lines {
        check_hidden("the log", &line.text);
    }
    for (name, text) in files(&flow.folder().join("state")) {
        check_hidden(&name, &text);
    }
}
