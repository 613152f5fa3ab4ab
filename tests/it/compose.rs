//! The file of `flow export docker-compose`, run by Docker Compose.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use flow_tests::{Program, flow_command, free_port};

use crate::docker;

/// A project of Compose: its containers, network and volumes go when the test ends, however it ends.
struct Project {
    program: &'static [&'static str],
    file: String,
    name: String,
}

impl Project {
    /// None: there is no Compose, of neither kind.
    fn new(file: &Path, port: u16) -> Option<Self> {
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
        Some(Self {
            program: found?,
            file: file.display().to_string(),
            name: format!("flow-test-{port}"),
        })
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, Program) {
        let mut command = command(self.program);
        command
            .args(["-p", &self.name, "-f", &self.file])
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
fn a_flow_runs_in_compose_and_loses_nothing_when_a_replica_is_killed() {
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("docker-compose.yml");
    let Some(project) = Project::new(&file, port).filter(|_| docker::can_run()) else {
        return;
    };
    docker::build(folder.path());
    let flow = folder.path().join("flow.yml");
    let replicated = "{name: ech_O, uses: echo, replicas: 2, workspace: w, idempotent: true}";
    let sharded = "{name: cut, uses: echo, shards: 2, polling: ALL, uses_after: echo}";
    let text = format!("jtype: Flow\nwith: {{port: {port}}}\nexecutors: [{replicated}, {sharded}]");
    fs::write(&flow, text).unwrap();
    let mut export = flow_command();
    export
        .args(["export", "docker-compose"])
        .args([&flow, &file]);
    export.args(["--image-gateway", docker::IMAGE]);
    let (code, said) = Program::run(export);
    assert_eq!(code, Some(0), "{}", said.said());

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
        let code = docker::must(&["inspect", "-f", "{{.State.ExitCode}}", &container]);
        assert_eq!(code, "0", "`{service}` ends in order when Compose stops it");
    }
    project.must(&["down", "-v"]);
}
