//! The file of `flow export docker-compose`, run by Docker Compose.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use flow_tests::{Program, flow_command, free_port};
use serde_json::{Map, Value, json};

use crate::docker::{DockerTest, must};

/// A project of Compose: its containers, network and volumes go when the test ends, however it ends.
struct Project {
    program: &'static [&'static str],
    /// What the export writes, and labels for what Compose makes.
    files: [String; 2],
    name: String,
}

impl Project {
    /// `None` if there is no Compose, of neither kind.
    fn new(docker: &DockerTest) -> Option<Self> {
        let programs: [&[&str]; 2] = [&["docker", "compose"], &["docker-compose"]];
        let found = programs.into_iter().find(|program| {
            let mut command = command(program);
            command
                .arg("version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        });
        if found.is_none() {
            flow_tests::skipped("no Docker Compose");
        }
        let file = |name: &str| docker.folder().join(name).display().to_string();
        Some(Self {
            program: found?,
            files: ["docker-compose.yml", "labels.yml"].map(file),
            name: docker.name("compose"),
        })
    }

    /// Where the export is written.
    fn file(&self) -> &Path {
        Path::new(&self.files[0])
    }

    /// Writes the test's label for the network and all volumes that the export names.
    fn label(&self, docker: &DockerTest) {
        let text = fs::read_to_string(self.file()).unwrap();
        let export: Value = serde_yaml::from_str(&text).unwrap();
        let labels = json!({"labels": [docker.label()]});
        let volumes = export["volumes"].as_object().unwrap().keys();
        let volumes: Map<String, Value> = volumes.map(|it| (it.clone(), labels.clone())).collect();
        let more = json!({"networks": {"default": labels}, "volumes": volumes});
        fs::write(&self.files[1], more.to_string()).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, Program) {
        let mut command = command(self.program);
        command
            .args(["-p", &self.name])
            .args(self.files.iter().flat_map(|file| ["-f", file]))
            .args(arguments);
        Program::run(command)
    }

    #[track_caller]
    fn must(&self, arguments: &[&str]) -> String {
        let (code, program) = self.run(arguments);
        assert_eq!(code, Some(0), "{}", program.said());
        program.stdout()
    }

    /// The container of a service.
    fn container(&self, service: &str) -> String {
        self.must(&["ps", "-q", service]).trim().to_owned()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        drop(self.run(&["down", "-v", "-t", "1"]));
    }
}

fn command(program: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]);
    command
}

/// Posts a text, and checks that it comes back.
#[track_caller]
fn post(port: u16, text: &str) {
    let mut command = flow_command();
    let url = format!("grpc://127.0.0.1:{port}");
    command.args(["post", &url, "--on", "/any", "--text", text]);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    assert!(program.stdout().contains(text), "{}", program.said());
}

#[test]
fn a_flow_runs_in_compose_and_loses_no_request_when_a_replica_is_killed() {
    let port = free_port();
    let Some(docker) = DockerTest::start() else {
        return;
    };
    let Some(project) = Project::new(&docker) else {
        return;
    };
    let image = docker.target("gateway", &[]);
    let flow = docker.folder().join("flow.yml");
    let replicated = "{name: ech_O, uses: echo, replicas: 2, workspace: w, idempotent: true}";
    let sharded = "{name: cut, uses: echo, shards: 2, polling: ALL, uses_after: echo}";
    let text = format!("jtype: Flow\nwith: {{port: {port}}}\nexecutors: [{replicated}, {sharded}]");
    fs::write(&flow, text).unwrap();
    let mut export = flow_command();
    export
        .args(["export", "docker-compose"])
        .arg(&flow)
        .arg(project.file());
    export.args(["--image-gateway", &image]);
    let (code, said) = Program::run(export);
    assert_eq!(code, Some(0), "{}", said.said());
    project.label(&docker);

    project.must(&["up", "-d"]);
    let mut ping = flow_command();
    ping.args([
        "ping",
        &format!("grpc://127.0.0.1:{port}"),
        "--attempts",
        "60",
    ]);
    let (code, pinged) = Program::run(ping);
    assert_eq!(
        code,
        Some(0),
        "{} {}",
        pinged.said(),
        project.must(&["logs"])
    );
    post(port, "both replicas live");

    project.must(&["kill", "ech-o-rep-0"]);
    for number in 0..5 {
        post(port, &format!("number {number} after the kill"));
    }

    let survivors = ["gateway", "ech-o-rep-1", "cut-0", "cut-1", "cut-uses-after"];
    let containers: Vec<_> = survivors.map(|it| project.container(it)).into();
    project.must(&["stop"]);
    for (service, container) in survivors.iter().zip(containers) {
        let code = must(&["inspect", "-f", "{{.State.ExitCode}}", &container]);
        assert_eq!(code, "0", "`{service}` ends in order when Compose stops it");
    }
    project.must(&["down", "-v"]);
}
