//! The small commands as a user runs them: the real program, its exit codes and its output.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, standard output, standard error.
fn flow(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    let output = command
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[track_caller]
fn check(arguments: &[&str], code: i32, out: &str, said: &str) {
    let found = flow(arguments);
    assert_eq!(found.0, code, "{arguments:?}: {}{}", found.1, found.2);
    assert!(
        found.1.contains(out),
        "{arguments:?}: `{out}` in {}",
        found.1
    );
    assert!(
        found.2.contains(said),
        "{arguments:?}: `{said}` in {}",
        found.2
    );
}

const COMMANDS: [&str; 21] = [
    "up",
    "ps",
    "logs",
    "log-level",
    "restart",
    "scale",
    "reload",
    "down",
    "check",
    "plot",
    "post",
    "trace",
    "ping",
    "gateway",
    "executor",
    "hub",
    "model",
    "devices",
    "doctor",
    "completions",
    "man",
];

#[test]
fn every_command_has_help_with_examples() {
    check(
        &["--help"],
        0,
        "EXAMPLES:\n  flow up flows/encode.yml\n",
        "",
    );
    for command in COMMANDS {
        check(
            &[command, "--help"],
            0,
            &format!("EXAMPLES:\n  {}", first_word(command)),
            "",
        );
    }
}

/// How a command's examples begin.
fn first_word(command: &str) -> &str {
    match command {
        "completions" => "source <(flow completions bash)",
        "hub" => "export FLOW_HUB=",
        _ => "flow ",
    }
}

#[test]
fn version_prints_the_version() {
    let version = concat!("flow ", env!("CARGO_PKG_VERSION"), "\n");
    check(&["--version"], 0, version, "");
    assert_eq!(flow(&["-V"]).1, version);
}

#[test]
fn the_long_version_has_the_commit_the_features_and_the_target() {
    let version = flow(&["--version"]).1;
    for part in ["\ncommit: ", "\nfeatures: launch, top, ", "\ntarget: "] {
        assert!(version.contains(part), "{part}: {version}");
    }
}

#[test]
fn man_writes_one_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    check(&["man", pages.to_str().unwrap()], 0, "", "");
    for command in COMMANDS {
        let page = fs::read_to_string(pages.join(format!("flow-{command}.1"))).unwrap();
        assert!(page.contains("EXAMPLES:"), "{command}: {page}");
    }
    let page = fs::read_to_string(pages.join("flow-export-kubernetes.1")).unwrap();
    assert!(page.contains("\\fBflow export kubernetes\\fR"), "{page}");
    assert!(!pages.join("flow-announce.1").exists());
}

#[test]
fn invalid_arguments_are_bad_usage() {
    check(&[], 2, "", "Usage: flow");
    check(&["chekc"], 2, "", "a similar subcommand exists: 'check'");
    check(&["check"], 2, "", "<FLOW.yml>");
    check(
        &["post", "grpc://h:1", "--on", "encode"],
        2,
        "",
        "`encode` is not an endpoint",
    );
    check(
        &["post", "grpc://h:1", "--on", "/e", "--lines"],
        2,
        "",
        "--input",
    );
    check(
        &["post", "grpc://h:1", "--on", "/e", "--input", "no.jsonl"],
        2,
        "",
        "cannot read `no.jsonl`: ",
    );
    check(
        &["post", "h", "--on", "/e"],
        2,
        "",
        "`h` is not an address: write `grpc://host:port` or `unix:/path`",
    );
    check(
        &["post", "grpc://h:1", "--on", "/e", "--parameters", "x"],
        2,
        "",
        "neither JSON nor",
    );
    check(
        &["executor", "--uses", "echoo"],
        2,
        "",
        "flow: there is no executor `echoo`; did you mean `echo`?\n",
    );
    check(
        &["ping", "grpc://h:1", "--ca-cert", "ca.pem"],
        2,
        "",
        "`grpc://h:1` is not encrypted, so TLS options have no effect",
    );
    check(
        &["ping", "grpcs://h:1", "--ca-cert", "/nowhere/ca.pem"],
        2,
        "",
        "cannot read the certificate `/nowhere/ca.pem`",
    );
}

#[test]
fn a_closed_port_is_reported_in_one_line() {
    let url = "grpc://127.0.0.1:1";
    let said =
        "flow: cannot connect to `grpc://127.0.0.1:1`: connection refused; is the flow up?\n";
    check(
        &["post", url, "--on", "/encode", "--text", "a"],
        1,
        "",
        said,
    );
    check(
        &["ping", url],
        1,
        "",
        "flow: `grpc://127.0.0.1:1` is not ready: cannot connect",
    );
}

#[test]
fn check_reports_every_problem_of_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = file(
        "good.yml",
        "jtype: Flow\nexecutors: [{name: a, uses: echo}]\n",
    );
    let bad = file(
        "bad.yml",
        "jtype: Flow\nexecutors:\n- {name: a, uss: echo}\n- {name: b, usess: echo}\n",
    );
    let worse = file("worse.yml", "jtype: [\n");

    check(&["check", &good], 0, &format!("{good}: fine\n"), "");
    check(&["check", &bad], 2, "", "did you mean `uses`?");
    check(
        &["check", "--lenient", &bad],
        0,
        "fine\n",
        "did you mean `uses`?",
    );
    check(
        &["check", &bad, &good, &worse],
        2,
        &format!("{good}: fine\n"),
        "is not valid YAML",
    );
    check(
        &["check", &bad, "no.yml"],
        2,
        "",
        "flow: cannot read flow file `no.yml`: ",
    );
    let (_, _, said) = flow(&["check", &bad]);
    assert!(said.contains("  3:13  ") && said.contains("  4:"), "{said}");
}

#[test]
fn check_finds_missing_executors_and_unknown_options() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    write(
        "own/config.yml",
        "jtype: Segmenter\nwith: {overlap: 3, copytags: true}\n",
    );
    write("shouter/Cargo.toml", "");
    let flow = write(
        "flow.yml",
        "\
jtype: Flow
executors:
  - {name: a, uses: sentence-encodr}
  - {name: b, uses: sentence-encoder, uses_with: {batch_size: 0, device: tpu}}
  - {name: c, uses: {jtype: SentenceEncoder, with: {layer_index: -2}}}
  - {name: d, uses: ./own}
  - {name: e, uses: shouter, uses_with: {any: 1}}
  - {name: f, uses: shoter}
",
    );
    let (code, _, said) = self::flow(&["check", &flow]);
    assert_eq!(code, 2, "{said}");
    let config = folder.path().join("own/config.yml");
    let expected = [
        "executors.a.uses",
        "there is no executor `sentence-encodr`; did you mean `sentence-encoder`?",
        "executors.b.uses_with.batch_size",
        "must be a whole number of at least 1, is `0`",
        "`tpu` is not a device: give `cpu`, ",
        "executors.c.uses.jtype",
        "`layer_index` is -2, but only the last layer, -1, is supported",
        &format!("{}:2:20", config.display()),
        "`copytags` is not an option of this executor; did you mean `copy_tags`?",
        "there is no executor `shoter`; did you mean `shouter`?",
    ];
    for part in expected {
        assert!(said.contains(part), "`{part}` in {said}");
    }
    assert!(said.contains("has 6 problems"), "{said}");
}

#[test]
fn an_executor_reports_all_wrong_options() {
    let arguments = [
        "executor",
        "--uses",
        "sentence-encoder",
        "--uses-with",
        "batch_size:x",
        "--uses-with",
        "{\"modle\": \"a\"}",
    ];
    let said = "\
flow: `uses_with` of executor `executor` is invalid
  batch_size  must be a whole number of at least 1, is the text `x`
  modle       `modle` is not an option of this executor; did you mean `model`?
";
    check(&arguments, 2, "", said);
}

#[test]
fn colors_are_for_terminals() {
    let (_, out, said) = flow(&["check", "no.yml"]);
    assert!(!out.contains('\u{1b}') && !said.contains('\u{1b}'));
}

#[test]
fn a_closed_output_is_not_a_panic() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    let mut process = command
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_log_filter_that_is_wrong_ends_the_program_with_bad_usage() {
    let run = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
        let output = command.args(arguments).envs(variable).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = run(&["completions", "bash"], Some(("FLOW_LOG", "debgu")));
    assert_eq!(code, Some(2), "{said}");
    let expected = "flow: the variable `FLOW_LOG` is invalid: `debgu` is not a log level; expected `error`, `warn`";
    assert!(said.starts_with(expected), "{said}");
    let (code, said) = run(&["--log-level", "a=loud", "completions", "bash"], None);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("the option `--log-level` is invalid: `a=loud`"),
        "{said}"
    );
    let (code, said) = run(&["completions", "bash"], Some(("FLOW_LOG_TO", "nowhere")));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("expected `stderr` or `stdout`"), "{said}");
}

#[test]
fn every_shell_has_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        check(&["completions", shell], 0, "request-size", "");
    }
}

#[test]
fn a_built_in_executor_serves_until_it_is_stopped() {
    use rustix::process::{Pid, Signal, kill_process};

    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    let arguments = ["executor", "--uses", "echo", "--name", "e", "--log", "json"];
    let mut process = command
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["event"], "ready");
    assert_eq!(ready["process"], "e");
    assert_eq!(ready["pid"], process.id());
    let url = format!("grpc://{}", ready["address"].as_str().unwrap());
    check(&["ping", &url], 0, "the executor is ready", "");
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

/// A program that serves until this is dropped.
struct Serving {
    process: std::process::Child,
    port: u16,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
        command.args(arguments).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut ready = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut ready).unwrap();
        let port = ready.trim_end().rsplit(':').next().unwrap();
        let port = port.parse().unwrap_or_else(|_| panic!("{ready}"));
        Self { process, port }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn an_http_1_request_to_a_port_without_http_gets_an_answer_that_names_the_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    let text = "jtype: Flow\nwith: {only_protocols: true}\nexecutors: [{name: a, uses: echo}]";
    fs::write(&file, text).unwrap();
    let executor = Serving::start(&["executor", "--uses", "echo"]);
    let addresses = format!(r#"{{"a": ["grpc://127.0.0.1:{}"]}}"#, executor.port);
    let file = file.to_str().unwrap();
    let options = ["gateway", file, "--addresses", &addresses, "--port", "0"];
    let gateway = Serving::start(&options);
    for port in [executor.port, gateway.port] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let host = format!("127.0.0.1:{port}");
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{reply}");
        let command = format!("`flow post grpc://{host} ");
        for part in ["text/plain", "gRPC over HTTP/2", &command] {
            assert!(reply.contains(part), "`{part}` in {reply}");
        }
    }
}

#[test]
fn a_request_is_traced_through_a_gateway_and_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    fs::write(&file, "jtype: Flow\nexecutors: [{name: a, uses: echo}]").unwrap();
    let executor = Serving::start(&["executor", "--uses", "echo"]);
    let alone = format!("grpc://127.0.0.1:{}", executor.port);
    let addresses = format!(r#"{{"a": ["{alone}"]}}"#);
    let file = file.to_str().unwrap();
    let options = ["gateway", file, "--addresses", &addresses, "--port", "0"];
    let gateway = Serving::start(&options);
    let url = format!("grpc://127.0.0.1:{}", gateway.port);

    let names = |url: &str| {
        let (code, out, said) = flow(&["trace", url, "--on", "/x", "--text", "a", "--json"]);
        assert_eq!((code, said.as_str()), (0, ""), "{out}");
        let traced: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&traced["documents"], &traced["failure"]),
            (&1.into(), &().into())
        );
        hop_names(&traced["hops"])
    };
    let stages = ["admission", "decode", "queue", "call", "encode"];
    let with = |parts: &[&str], before: &str| -> Vec<String> {
        let stages = stages.iter().map(|it| format!("{before}/{it}"));
        parts
            .iter()
            .map(|&it| it.to_owned())
            .chain(stages)
            .collect()
    };
    let parts = [
        "client",
        "client/network",
        "client/gateway",
        "client/gateway/itself",
        "client/gateway/a",
        "client/gateway/a/network",
    ];
    assert_eq!(names(&url), with(&parts, "client/gateway/a"));
    let parts = ["client", "client/network", "client/executor"];
    assert_eq!(names(&alone), with(&parts, "client/executor"));

    let (code, out, _) = flow(&["trace", &url, "--on", "/x", "--text", "a"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("\n    a (executor)  ") && out.contains('█'),
        "{out}"
    );
    check(
        &["post", &url, "--on", "/x", "--text", "a", "--timing"],
        0,
        "a\n",
        "100.0 %",
    );
    check(
        &["trace", &url, "--on", "/x", "--input", "/dev/null"],
        2,
        "",
        "the input has no documents",
    );
    check(
        &["trace", "grpc://127.0.0.1:1", "--on", "/x"],
        1,
        "",
        "connection refused",
    );
}

/// The paths of a hop and of those below it.
fn hop_names(hop: &serde_json::Value) -> Vec<String> {
    let name = hop["name"].as_str().unwrap();
    let below = hop["hops"].as_array().unwrap().iter().flat_map(hop_names);
    let below = below.map(|it| format!("{name}/{it}"));
    std::iter::once(name.to_owned()).chain(below).collect()
}

#[test]
fn models_are_searched_where_the_environment_says() {
    let folder = tempfile::tempdir().unwrap();
    let flow = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", folder.path())
            .env("HF_HUB_OFFLINE", "1");
        let output = command.output().unwrap();
        (
            output.status.code().unwrap(),
            output.stdout,
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    assert_eq!(flow(&["model", "list"]), (0, Vec::new(), String::new()));
    for command in ["path", "pull"] {
        let (code, _, said) = flow(&["model", command, "owner/name"]);
        assert_eq!(code, 1, "{said}");
        assert!(said.starts_with("flow: "), "{said}");
        assert!(
            said.contains("model `owner/name` (revision `main`) was not found"),
            "{said}"
        );
    }
}

#[test]
fn devices_are_listed_with_the_reason_for_missing_gpus() {
    check(&["devices"], 0, "  cpu  ", "");
    let (code, out, _) = flow(&["devices", "--json"]);
    let listing: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert!(listing["cpu"]["cores_allowed"].as_u64().unwrap() >= 1);
    let sets = listing["cpu"]["instruction_sets"].as_array().unwrap();
    assert_eq!(sets.last().unwrap(), "portable");
    let gpus = listing["gpus"].as_array().unwrap();
    // Either there are some, or it is said why not.
    assert_eq!(gpus.is_empty(), listing["no_gpus"].is_string(), "{listing}");
}

/// Runs `flow doctor` in a home of its own, and returns the exit code and what was found.
fn doctor(home: &Path, arguments: &[&str]) -> (i32, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    command
        .args([&["doctor", "--json"], arguments].concat())
        .env("HOME", home)
        .env_remove("XDG_STATE_HOME")
        .env_remove("HF_HOME")
        .env_remove("HF_HUB_CACHE");
    let output = command.output().unwrap();
    let found = serde_json::from_slice(&output.stdout);
    let found = found.unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code().unwrap(), found)
}

/// What was found about a subject.
fn finding<'f>(found: &'f serde_json::Value, subject: &str) -> &'f serde_json::Value {
    let mut all = found["findings"].as_array().unwrap().iter();
    all.find(|it| it["subject"] == subject)
        .unwrap_or_else(|| panic!("nothing about `{subject}` in {found:#}"))
}

#[test]
fn the_doctor_examines_the_machine_and_its_folders() {
    let home = tempfile::tempdir().unwrap();
    let (_, found) = doctor(home.path(), &[]);
    for subject in [
        "version",
        "open files",
        "memory",
        "processor",
        "GPU",
        "clock source",
        "time",
        "models of the hub",
        "cache of flow",
        "Docker",
        "Python",
    ] {
        finding(&found, subject);
    }
    let docker = finding(&found, "Docker")["text"].as_str().unwrap();
    assert!(
        docker.contains(", API 1.") || docker.starts_with("only needed for executors in images"),
        "{docker}"
    );
    assert_eq!(finding(&found, "state")["level"], "ok");
    let state = home.path().join(".local/state/flow");
    fs::create_dir_all(&state).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o777)).unwrap();
    let (code, found) = doctor(home.path(), &[]);
    assert_eq!(code, 1);
    let state = finding(&found, "state");
    assert_eq!(state["level"], "problem");
    let remedy = state["remedy"].as_str().unwrap();
    assert!(remedy.contains("chmod go-w "), "{remedy}");
}

#[test]
fn the_doctor_examines_a_flow() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let write = |text: &str| {
        let file = home.path().join("flow.yml");
        fs::write(&file, format!("jtype: Flow\n{text}")).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let encoder = "{name: enc, uses: sentence-encoder, uses_with: {model: some/model}}";
    let file = write(&format!("with: {{port: {port}}}\nexecutors: [{encoder}]"));
    let (code, found) = doctor(home.path(), &[&file]);
    assert_eq!(code, 1);
    assert_eq!(finding(&found, "flow file")["level"], "ok");
    let of_port = finding(&found, &format!("port {port}"));
    let own = format!("process {}", std::process::id());
    assert!(
        of_port["text"].as_str().unwrap().contains(&own),
        "{of_port}"
    );
    let model = finding(&found, "model of `enc`");
    assert_eq!(model["level"], "warning");
    assert_eq!(
        model["remedy"],
        "`flow model pull some/model` fetches it now"
    );

    let file = write("executors: [{name: a, uses: echoo}]");
    let (code, found) = doctor(home.path(), &[&file]);
    assert_eq!(code, 1);
    assert_eq!(finding(&found, "flow file")["level"], "problem");
    let (code, out, _) = flow(&["doctor", &file]);
    assert_eq!(code, 1);
    assert!(
        out.contains("  problem   flow file") && out.contains("did you mean `echo`?"),
        "{out}"
    );
}
