//! What `flow new` writes compiles, passes its tests, is run from its folder, and becomes an image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flow_tests::{DocArrayVersion, Program, eventually, flow_command, free_port, is_alive, send};
use rustix::process::Signal;

use crate::docker::{Container, DockerTest, must};

/// Only the line that says that Jina's process is ready holds this.
const PYTHON_READY: &str = "(language Python)";

/// The line of the executor that is ready begins with this.
const GREETER_READY: &str = "greeter@";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.to_owned()
}

/// Where written packages are built, so that their dependencies are built once.
fn target() -> PathBuf {
    root().join("target/written")
}

/// Packages are built as quickly as can be, with the versions that we are built with, which are there.
pub(crate) fn cargo_s(command: &mut Command) -> &mut Command {
    command
        .env("FLOW_CARGO_PROFILE", "dev")
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TARGET_DIR", target())
}

#[track_caller]
fn run(command: Command) -> Program {
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    program
}

/// `flow new` with these arguments, in this folder.
fn new(folder: &Path, arguments: &[&str]) -> Program {
    let mut command = flow_command();
    command.current_dir(folder).arg("new").args(arguments);
    run(command)
}

/// An executor with a Dockerfile, as `flow new executor` writes it: its folder.
pub(crate) fn written(folder: &Path, name: &str) -> PathBuf {
    let source = root().display().to_string();
    let options = ["--flow-source", &source, "--dockerfile", "cpu"];
    let output = new(folder, &[&["executor", name], &options[..]].concat());
    let said = output.stdout();
    let (_, kebab) = said.lines().next().unwrap().split_once(" is in ").unwrap();
    let package = folder.join(kebab);
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    package
}

/// Builds it, and puts its program where its Dockerfile looks for it.
pub(crate) fn built(package: &Path, program: &str) {
    let mut cargo = Command::new("cargo");
    cargo_s(&mut cargo).arg("build").current_dir(package);
    // Without the limit of other programs: it builds all dependencies of an executor.
    let output = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for_dockerfile(package, program);
}

fn for_dockerfile(package: &Path, program: &str) {
    fs::create_dir_all(package.join("target/release")).unwrap();
    let built = target().join("debug").join(program);
    fs::copy(built, package.join("target/release").join(program)).unwrap();
}

/// `flow up` of a file, and where it serves.
fn up(mut command: Command, file: &Path) -> (Program, String) {
    command.arg("up").arg(file);
    command.args(["--port", "0", "--ready-format", "json"]);
    let program = Program::start(command);
    let url = format!("grpc://{}", program.ready().address);
    (program, url)
}

#[track_caller]
fn is_greeted(url: &str, expected: &str) {
    let mut post = flow_command();
    post.args(["post", url, "--on", "/greet", "--text", "world"]);
    let posted = run(post);
    assert!(posted.stdout().contains(expected), "{}", posted.said());
}

/// The process of a ready line.
fn pid(line: &str) -> u32 {
    let after = line.strip_prefix("greeter@").unwrap();
    after.split(' ').next().unwrap().parse().unwrap()
}

fn serves_alone(folder: &Path) {
    let port = free_port();
    let mut command = flow_command();
    command
        .args(["executor", "--name", "alone", "--uses"])
        .arg(folder);
    command.args(["--port", &port.to_string(), "--uses-with", "greeting:hi"]);
    cargo_s(&mut command);
    let program = Program::start(command);
    program.line("ready and listening on");
    is_greeted(&format!("grpc://127.0.0.1:{port}"), "hi, world");
}

fn becomes_an_image(folder: &Path, program: &str) {
    let Some(docker) = DockerTest::start() else {
        return;
    };
    for_dockerfile(folder, program);
    let (image, base) = (docker.name("written"), docker.base_argument());
    let context = folder.display().to_string();
    must(&["build", "-q", "--build-arg", &base, "-t", &image, &context]);
    let user = must(&["inspect", "-f", "{{.Config.User}}", &image]);
    assert_eq!(user, "65532:65532");

    let container = Container::run(&["--read-only"], &image, &[]);
    let url = container.ready();
    container.healthy();
    is_greeted(&url, "hello, world");
}

#[test]
fn an_executor_that_is_written_compiles_passes_its_tests_serves_and_becomes_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let package = written(folder.path(), "LoudSpeaker");
    assert!(package.ends_with("loud-speaker"), "{}", package.display());

    for arguments in [&["fmt", "--check"][..], &["test"]] {
        let mut cargo = Command::new("cargo");
        cargo_s(&mut cargo).args(arguments).current_dir(&package);
        // Without the limit of other programs: it builds all dependencies of an executor.
        let output = cargo.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }

    let mut command = flow_command();
    cargo_s(&mut command);
    let (program, url) = up(command, &package.join("flow.yml"));
    is_greeted(&url, "hello, world");
    drop(program);
    serves_alone(&package);
    becomes_an_image(&package, "loud-speaker");
}

/// A package without dependencies whose program says `words`.
fn tiny(folder: &Path, words: &str) {
    fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = "[package]\nname = \"tiny\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let program = format!("fn main() {{ println!({words:?}) }}");
    fs::write(folder.join("src/main.rs"), program).unwrap();
}

#[test]
fn packages_are_built_in_one_folder_and_their_programs_are_kept_apart() {
    let root = tempfile::tempdir().unwrap();
    let (one, other) = (root.path().join("one/tiny"), root.path().join("other/tiny"));
    tiny(&one, "I am one");
    tiny(&other, "I am another");
    let cache = root.path().join("cache");
    let says = |folder: &Path, target: Option<&Path>| {
        let mut command = flow_command();
        command
            .args(["executor", "--uses"])
            .arg(folder)
            .env("FLOW_CACHE", &cache)
            .env("CARGO_NET_OFFLINE", "true")
            .env("FLOW_CARGO_PROFILE", "dev")
            .env_remove("CARGO_TARGET_DIR");
        if let Some(target) = target {
            command.env("CARGO_TARGET_DIR", target);
        }
        run(command).stdout()
    };
    assert_eq!(says(&one, None), "I am one\n");
    assert_eq!(says(&other, None), "I am another\n");
    // Nothing changed, so nothing is compiled: what runs is the package's own program and not the last that was built.
    assert_eq!(says(&one, None), "I am one\n");
    assert!(cache.join("executors/target/debug").is_dir());
    assert!(!one.join("target").exists() && !other.join("target").exists());

    let own = root.path().join("own");
    assert_eq!(says(&one, Some(&own)), "I am one\n");
    assert!(own.join("debug/tiny").is_file(), "CARGO_TARGET_DIR counts");
}

#[test]
fn a_package_that_does_not_build_is_reported_with_cargos_output() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().display().to_string();
    new(
        folder.path(),
        &["executor", "Broken", "--flow-source", &source],
    );
    let package = folder.path().join("broken");
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    fs::write(
        package.join("Cargo.toml"),
        "[package]\nname = \"broken\"\nedition = \"1999\"\n",
    )
    .unwrap();
    let mut command = flow_command();
    cargo_s(&mut command)
        .arg("up")
        .arg(package.join("flow.yml"));
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(2), "{}", program.said());
    let output = program.stderr();
    assert!(output.contains("1999"), "{output}");
    assert!(output.contains("does not build"), "{output}");
}

/// `flow up` of a file of a project in Python.
fn up_in_python(python: &Path, file: &Path) -> (Program, String) {
    let mut command = flow_command();
    command
        .env("FLOW_PYTHON", python)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    up(command, file)
}

#[test]
fn a_flow_in_python_runs_is_watched_and_answers_its_client() {
    let Some(python) = flow_tests::flow_serve() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let arguments = "flow greetings --executor Greeter --lang python";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    new(folder.path(), &arguments);
    let at = |name: &str| folder.path().join("greetings").join(name);
    let (mut program, url) = up_in_python(&python, &at("flow.yml"));
    is_greeted(&url, "hello, world");

    let first = pid(&program.line(GREETER_READY));
    let seen = program.lines().len();
    send(first, Signal::KILL);
    let second = pid(&program.line_from(seen, GREETER_READY));
    assert_ne!(first, second);
    is_greeted(&url, "hello, world");

    let port = url.rsplit(':').next().unwrap();
    let text = fs::read_to_string(at("client.py")).unwrap();
    fs::write(at("client.py"), text.replace("54321", port)).unwrap();
    let mut client = Command::new(python);
    client.arg(at("client.py"));
    let said = run(client).stdout();
    assert!(said.ends_with("hello, world\nhello, moon\n"), "{said}");

    program.signal(Signal::INT);
    assert_eq!(program.end().code(), Some(0), "{}", program.said());
    assert!(!is_alive(second), "the executor outlived the flow");
}

/// A project whose executor needs Jina itself.
fn with_jina(folder: &Path) -> PathBuf {
    new(folder, &["executor", "Greeter", "--lang", "python"]);
    let executor = folder.join("greeter/executor.py");
    let text = fs::read_to_string(&executor).unwrap();
    fs::write(executor, text.replace("from flow_serve", "from jina")).unwrap();
    folder.join("greeter/flow.yml")
}

#[test]
fn the_processes_of_jina_are_watched_and_do_not_outlive_a_flow_that_is_killed() {
    let Some(python) = flow_tests::interpreter(DocArrayVersion::V1) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (program, url) = up_in_python(&python, &with_jina(folder.path()));
    let first = pid(&program.line(PYTHON_READY));
    let seen = program.lines().len();
    send(first, Signal::KILL);
    let second = pid(&program.line_from(seen, PYTHON_READY));
    is_greeted(&url, "hello, world");
    program.signal(Signal::KILL);
    eventually("Jina's process ends", || !is_alive(second));
}

#[test]
fn without_an_interpreter_the_error_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let file = with_jina(folder.path());
    let check = |runtime: &str, part: &str| {
        let mut command = flow_command();
        command
            .env_remove("FLOW_PYTHON")
            .env("PATH", "/nowhere")
            .env("FLOW_PYTHON_RUNTIME", runtime);
        let (code, program) = Program::run({
            command.arg("up").arg(&file);
            command
        });
        assert_eq!(code, Some(2), "{}", program.said());
        assert!(program.stderr().contains(part), "{}", program.said());
    };
    check("flow", "`pip install flow-serve`");
    check("jina", "PATH has no Jina");
}

#[test]
fn flow_new_asks_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let flow = flow_command().get_program().to_owned();
    // `script` gives a program a terminal.
    let line = format!("{} hub new", flow.to_string_lossy());
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .current_dir(folder.path());
    command.stdin(Stdio::piped());
    let mut program = Program::start(command);
    program.write_all(b"2fast\nFast\n\npython\ny\n\nRuns.\na, b\n\n");
    let status = program.end();
    assert!(status.success(), "{}", program.said());
    let said = program.stdout();
    assert!(
        said.contains("Name of the executor [MyExecutor]:"),
        "{said}"
    );
    assert!(said.contains("`2fast` is not a name"), "{said}");
    let config = fs::read_to_string(folder.path().join("fast/config.yml")).unwrap();
    assert!(config.contains("keywords: [\"a\",\"b\"]"), "{config}");
    assert!(config.contains("description: \"Runs.\""), "{config}");
}
