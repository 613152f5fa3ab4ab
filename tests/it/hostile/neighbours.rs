//! Other users of the machine, and what a process of the flow shows them.

use std::path::Path;

use flow_tests::{Program, TestFlow, flow_command, flow_serve, post, texts};

use crate::MOODY;

/// What nobody else may see.
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
        "executors: [{{name: moody, uses: {MOODY}, uses_with: {{mark: {SECRET}}}}}]"
    ));
    hides_the_secret(&flow, &["moody", "gateway"]);
    assert_eq!(reply(&flow).await, format!("x{SECRET}"));
    // A process that is started again gets them again.
    let mut restart = flow_command();
    restart.env("XDG_STATE_HOME", flow.folder().join("state"));
    restart.args(["restart", "moody"]);
    let (code, said) = Program::run(restart);
    assert_eq!(code, Some(0), "{}", said.said());
    hides_the_secret(&flow, &["moody"]);
    assert_eq!(reply(&flow).await, format!("x{SECRET}"));
}

#[tokio::test]
async fn options_of_a_config_are_not_on_a_command_line_either() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yml");
    let text = format!("jtype: {MOODY}\nwith: {{mark: {SECRET}}}\n");
    std::fs::write(&config, text).unwrap();
    let flow = TestFlow::up(&format!(
        "executors: [{{name: moody, uses: {}}}]",
        config.display()
    ));
    hides_the_secret(&flow, &["moody"]);
    assert_eq!(reply(&flow).await, format!("x{SECRET}"));
    // The same config without a flow, with another option on the command line.
    let port = flow_tests::free_port().to_string();
    let mut alone = flow_command();
    alone.args(["executor", "--uses"]).arg(&config);
    alone.args(["--log", "json", "--port", &port, "--uses-with", "mark:loud"]);
    let alone = Program::start(alone);
    alone.ready();
    let line = command_line(alone.pid());
    assert!(line.starts_with(MOODY) && !line.contains(SECRET), "{line}");
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
         - {{name: yours, uses: {MOODY}}}\n\
         - {{name: strict, uses: {MOODY}, inherit_env: false}}\n"
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
fn an_export_says_which_secrets_it_contains_and_does_not_print_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    let yaml = format!(
        "jtype: Flow\nexecutors: [{{name: a, uses: echo, env: {{A_TOKEN: {SECRET}, B: x}}}}]"
    );
    std::fs::write(&file, yaml).unwrap();
    let out = folder.path().join("out.yml");
    let mut export = flow_command();
    export
        .args(["export", "docker-compose"])
        .args([&file, &out]);
    let (code, said) = Program::run(export);
    assert_eq!(code, Some(0), "{}", said.said());
    let warning =
        "the file contains the value of `A_TOKEN` of `a`: write `${A_TOKEN}` there instead";
    assert!(said.stderr().contains(warning), "{}", said.said());
    assert_eq!(
        said.stderr().matches("the file contains the value").count(),
        1
    );
    assert!(!said.stderr().contains(SECRET), "{}", said.said());
}
