//! How the measured programs are started.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::process::Server;
use crate::repository::programs;
use crate::setup;

/// A part of the line by which `flow up` says that it is ready. Earlier versions, which `--against` measures, have no events in JSON.
const READY: &str = "ready after";

/// A program of ours, built for release.
pub(super) fn program(name: &str) -> Command {
    at_root(&programs("release").join(name))
}

/// A program that runs in the root of the repository.
pub(super) fn at_root(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(crate::repository::root());
    command
}

/// A flow that is up, and where.
pub(super) struct Flow {
    pub(super) server: Server,
    pub(super) port: u16,
}

/// `flow up`, ready.
pub(super) fn up(file: &str) -> anyhow::Result<Flow> {
    up_in(file, &[])
}

/// `flow up` with these variables, ready.
pub(super) fn up_in(file: &str, variables: &[(&str, &str)]) -> anyhow::Result<Flow> {
    let mut command = program("flow");
    command.envs(variables.iter().copied());
    up_by(command, file)
}

/// `flow up` by this program, ready.
pub(super) fn up_by(mut program: Command, file: &str) -> anyhow::Result<Flow> {
    let port = free_port()?;
    program.args(["up", file, "--port", &port.to_string()]);
    let server = Server::start(&mut program, READY)?;
    Ok(Flow { server, port })
}

/// Jina's own flow with an executor that does nothing, ready.
pub(super) fn jina_noop(python: &Path, protocol: &str) -> anyhow::Result<Flow> {
    let port = free_port()?;
    let mut command = Command::new(python);
    command
        .arg(root("tests/load/jina_noop.py"))
        .args([&port.to_string(), protocol]);
    Ok(Flow {
        server: Server::start(&mut command, "ready")?,
        port,
    })
}

/// `flow up` with the Python executor that does nothing, on our runtime in this interpreter, ready.
pub(super) fn python_noop(python: &Path) -> anyhow::Result<Flow> {
    let mut command = program("flow");
    command
        .env("FLOW_PYTHON", python)
        .env("FLOW_PYTHON_RUNTIME", "flow");
    up_by(command, "tests/load/python_noop/flow.yml")
}

/// Jina's own flow with the same executor, ready.
pub(super) fn jina_python_noop(python: &Path) -> anyhow::Result<Flow> {
    let port = free_port()?;
    let mut command = Command::new(python);
    command
        .arg(root("tests/load/python_noop/jina_flow.py"))
        .arg(port.to_string());
    Ok(Flow {
        server: Server::start(&mut command, "ready")?,
        port,
    })
}

/// `flow post` of a file of documents to a flow.
pub(super) fn post(flow: &Flow, input: &Path, output: &Path) -> Command {
    let mut command = program("flow");
    command
        .arg("post")
        .arg(format!("grpc://127.0.0.1:{}", flow.port));
    command
        .args(["--on", "/encode", "--request-size", "32", "--input"])
        .arg(input);
    command.arg("--output").arg(output);
    command
}

pub(super) fn root(path: &str) -> PathBuf {
    crate::repository::root().join(path)
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A flow with an encoder of this precision, or with an executor that does nothing.
pub(super) fn flow_file(precision: Option<&str>, is_colocated: bool) -> String {
    let (uses, with) = match precision {
        Some(precision) => {
            let model = setup::folder().join("model");
            let model = model.display();
            let with = format!("{{device: cpu, model: {model}, precision: {precision}}}");
            ("sentence-encoder", with)
        }
        None => ("echo", "{}".to_owned()),
    };
    let colocate = if is_colocated { ", colocate: true" } else { "" };
    format!("jtype: Flow\nexecutors:\n- {{name: a, uses: {uses}, uses_with: {with}{colocate}}}\n")
}
