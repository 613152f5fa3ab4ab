//! The image of `docker/`: it holds the same program, which serves alone and with the same wire.
//!
//! No image can be pulled where these tests run, so the base is made from this machine's own libraries.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flow_tests::{Program, flow_command};

pub(crate) const BASE: &str = "flow-test-base";
pub(crate) const IMAGE: &str = "flow-test";

/// What a dynamically linked program of ours needs.
const LIBRARIES: &[&str] = &[
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
];

fn docker(arguments: &[&str]) -> Output {
    Command::new("docker")
        .args(arguments)
        .env("DOCKER_BUILDKIT", "0")
        .output()
        .unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).trim().to_owned()
}

#[track_caller]
pub(crate) fn must(arguments: &[&str]) -> String {
    let output = docker(arguments);
    assert!(
        output.status.success(),
        "docker {arguments:?}: {}",
        text(&output)
    );
    text(&output)
}

/// Whether there is an engine, and this machine is like the base we make.
pub(crate) fn can_run() -> bool {
    let engine = Command::new("docker")
        .arg("info")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let libraries = LIBRARIES.iter().all(|library| Path::new(library).exists());
    if !(engine && libraries) {
        flow_tests::skipped("no Docker engine, or no Debian libraries to make a base image of");
    }
    engine && libraries
}

/// Puts the libraries where a program looks for them.
pub(crate) fn copy_libraries(folder: &Path) {
    for library in LIBRARIES {
        let copy = folder.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(fs::canonicalize(library).unwrap(), copy).unwrap();
    }
}

/// An image with the libraries and nothing else.
pub(crate) fn make_base(folder: &Path) {
    copy_libraries(folder);
    import(folder, BASE, &[]);
}

/// Makes an image of a folder.
pub(crate) fn import(folder: &Path, name: &str, changes: &[&str]) {
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(folder)
        .args(["-c", "."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let changes = changes.iter().flat_map(|change| ["--change", change]);
    let import = Command::new("docker")
        .arg("import")
        .args(changes)
        .args(["-", name])
        .stdin(tar.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(tar.wait().unwrap().success());
    assert!(import.status.success(), "{}", text(&import));
}

/// The image of the whole program.
pub(crate) fn build(folder: &Path) {
    build_target(folder, "gateway", IMAGE, &[]);
}

/// A target of `docker/Dockerfile` with the program under test, on our base.
pub(crate) fn build_target(folder: &Path, target: &str, image: &str, arguments: &[&str]) {
    let context = folder.join("context");
    let program = context.join("target/release/flow");
    if !program.exists() {
        make_base(&folder.join("base"));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        strip(&program);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker/Dockerfile");
    let base = format!("BASE={BASE}");
    let (file, context) = (file.display().to_string(), context.display().to_string());
    let mut command = vec!["build", "-q", "-f", &file, "--build-arg", &base];
    command.extend(["--target", target, "-t", image]);
    for argument in arguments {
        command.extend(["--build-arg", argument]);
    }
    command.push(&context);
    must(&command);
}

/// The program without what debuggers want, as it is in a release; whole where there is no `strip`.
pub(crate) fn strip(to: &Path) {
    let program = flow_command().get_program().to_owned();
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(to).arg(&program);
    if !strip.status().is_ok_and(|status| status.success()) {
        fs::copy(program, to).unwrap();
    }
}

/// A container that is removed when the test ends, however it ends.
pub(crate) struct Container(pub(crate) String);

impl Container {
    /// Starts one, with port 54321 on a port of this machine.
    #[track_caller]
    pub(crate) fn run(options: &[&str], image: &str, arguments: &[&str]) -> Self {
        let start = ["run", "-d", "-p", "127.0.0.1::54321"];
        Self(must(&[&start, options, &[image], arguments].concat()))
    }

    /// Where it serves.
    pub(crate) fn url(&self) -> String {
        let address = must(&["port", &self.0, "54321/tcp"]);
        format!("grpc://{}", address.lines().next().unwrap())
    }

    /// Waits until it serves.
    #[track_caller]
    pub(crate) fn ready(&self) -> String {
        let url = self.url();
        let mut ping = flow_command();
        ping.args(["ping", &url, "--attempts", "60"]);
        let (code, pinged) = Program::run(ping);
        let told = || format!("{} {}", pinged.said(), must(&["logs", &self.0]));
        assert_eq!(code, Some(0), "{}", told());
        url
    }

    /// Waits until the engine finds that it is well.
    #[track_caller]
    pub(crate) fn healthy(&self) {
        let health = ["inspect", "-f", "{{.State.Health.Status}}", &self.0];
        flow_tests::eventually("the engine finds it healthy", || must(&health) == "healthy");
    }

    /// Ends it in order.
    #[track_caller]
    pub(crate) fn stop(&self) {
        must(&["stop", "-t", "10", &self.0]);
        let code = must(&["inspect", "-f", "{{.State.ExitCode}}", &self.0]);
        assert_eq!(
            code, "0",
            "SIGTERM reaches the program, and it ends in order"
        );
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        docker(&["rm", "-f", "-v", &self.0]);
    }
}

#[test]
fn the_image_serves_an_executor_alone_without_root_on_a_read_only_disk() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    assert!(must(&["run", "--rm", IMAGE, "--version"]).starts_with("flow "));
    assert_eq!(
        must(&["inspect", "-f", "{{.Config.User}}", IMAGE]),
        "65532:65532"
    );

    let command = ["executor", "--uses", "echo", "--host", "0.0.0.0"];
    let command = [&command[..], &["--port", "54321"]].concat();
    let container = Container::run(&["--read-only"], IMAGE, &command);
    let url = container.ready();
    let mut post = flow_command();
    post.args(["post", &url, "--on", "/any", "--text", "hello"]);
    let (code, posted) = Program::run(post);
    assert_eq!(code, Some(0), "{}", posted.stderr());
    assert!(posted.stdout().contains("hello"));

    container.stop();
}
