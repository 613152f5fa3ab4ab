//! The images of `docker/`, and how tests make images: of the program under test and of this machine's own libraries, for
//! no image can be pulled where these tests run.
//!
//! All that a test makes in the engine is its [`DockerTest`]'s, and goes with it.

mod leftovers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;

use flow_tests::{Program, flow_command};

use self::leftovers::LABEL;

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

/// What one test makes in the engine: images, what is made of them, containers and volumes. All of it is removed when the
/// test ends, also when it fails. What a run left that was killed is removed by the next.
pub(crate) struct DockerTest {
    /// The value of the label on all that is the test's.
    value: String,
    folder: tempfile::TempDir,
    base: OnceLock<String>,
}

impl DockerTest {
    /// `None` if there is no engine, or this machine is not like the base we make.
    pub(crate) fn start() -> Option<Self> {
        if !can_run() {
            return None;
        }
        leftovers::sweep_once();
        Some(Self {
            value: leftovers::unique(),
            folder: tempfile::tempdir().unwrap(),
            base: OnceLock::new(),
        })
    }

    /// A unique name for an image, a volume or a project.
    pub(crate) fn name(&self, what: &str) -> String {
        let mut parts = self.value.split('/').skip(2);
        let mut next = || parts.next().unwrap();
        format!("flow-test-{what}-{}-{}-{}", next(), next(), next())
    }

    /// `dev.flow.test=…`, for what does not get it from an image.
    pub(crate) fn label(&self) -> String {
        format!("{LABEL}={}", self.value)
    }

    /// A folder that goes with the test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The name of an image with the libraries and nothing else.
    pub(crate) fn base(&self) -> &str {
        self.base.get_or_init(|| {
            let folder = self.folder().join("base");
            copy_libraries(&folder);
            self.import(&folder, "base", &[])
        })
    }

    /// The same as a build argument.
    pub(crate) fn base_argument(&self) -> String {
        format!("BASE={}", self.base())
    }

    /// Makes an image of a folder; gives its name.
    pub(crate) fn import(&self, folder: &Path, what: &str, changes: &[&str]) -> String {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(folder).args(["-c", "."]);
        self.import_tar(tar, what, changes)
    }

    /// Makes an image of what a `tar` packs; gives its name.
    pub(crate) fn import_tar(&self, mut tar: Command, what: &str, changes: &[&str]) -> String {
        let name = self.name(what);
        let mut tar = tar.stdout(Stdio::piped()).spawn().unwrap();
        let label = format!("LABEL {}", self.label());
        let changes = changes.iter().copied().chain([label.as_str()]);
        let import = Command::new("docker")
            .arg("import")
            .args(changes.flat_map(|change| ["--change", change]))
            .args(["-", &name])
            .stdin(tar.stdout.take().unwrap())
            .output()
            .unwrap();
        let packed = tar.wait().unwrap();
        assert!(import.status.success(), "{}", text(&import));
        assert!(packed.success());
        name
    }

    /// A volume of the engine; gives its name.
    pub(crate) fn volume(&self, what: &str) -> String {
        let name = self.name(what);
        must(&["volume", "create", "--label", &self.label(), &name]);
        name
    }

    /// Where the context of builds lies.
    pub(crate) fn context(&self) -> PathBuf {
        self.folder().join("context")
    }

    /// The image of a target of `docker/Dockerfile` with the program under test, on our base; gives its name.
    pub(crate) fn target(&self, target: &str, arguments: &[&str]) -> String {
        let context = self.context();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let program = context.join("target/release/flow");
        if !program.exists() {
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            strip(Path::new(flow_command().get_program()), &program);
            fs::copy(root.join("LICENSE"), context.join("LICENSE")).unwrap();
        }
        let file = root.join("docker/Dockerfile");
        let (file, context) = (file.display().to_string(), context.display().to_string());
        let (name, base) = (self.name(target), self.base_argument());
        let mut command = vec!["build", "-q", "-f", &file, "--build-arg", &base];
        command.extend(["--target", target, "-t", &name]);
        for argument in arguments {
            command.extend(["--build-arg", argument]);
        }
        command.push(&context);
        must(&command);
        name
    }
}

impl Drop for DockerTest {
    fn drop(&mut self) {
        let left = leftovers::remove(&self.value);
        // One failure is enough to tell.
        assert!(
            left.is_empty() || thread::panicking(),
            "not removed: {left:?}"
        );
    }
}

/// Puts the libraries where a program looks for them.
pub(crate) fn copy_libraries(folder: &Path) {
    for library in LIBRARIES {
        let copy = folder.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(fs::canonicalize(library).unwrap(), copy).unwrap();
    }
}

/// A program without what debuggers want, as it is in a release; whole where there is no `strip`.
pub(crate) fn strip(program: &Path, to: &Path) {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(to).arg(program);
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
        let output = || format!("{} {}", pinged.said(), must(&["logs", &self.0]));
        assert_eq!(code, Some(0), "{}", output());
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
    let Some(docker) = DockerTest::start() else {
        return;
    };
    let image = docker.target("gateway", &[]);
    assert!(must(&["run", "--rm", &image, "--version"]).starts_with("flow "));
    assert_eq!(
        must(&["inspect", "-f", "{{.Config.User}}", &image]),
        "65532:65532"
    );

    let command = ["executor", "--uses", "echo", "--host", "0.0.0.0"];
    let command = [&command[..], &["--port", "54321"]].concat();
    let container = Container::run(&["--read-only"], &image, &command);
    let url = container.ready();
    let mut post = flow_command();
    post.args(["post", &url, "--on", "/any", "--text", "hello"]);
    let (code, posted) = Program::run(post);
    assert_eq!(code, Some(0), "{}", posted.stderr());
    assert!(posted.stdout().contains("hello"));

    container.stop();
}

#[test]
fn objects_of_a_test_are_removed_from_the_engine_even_when_it_fails() {
    let Some(docker) = DockerTest::start() else {
        return;
    };
    let value = docker.value.clone();
    let failed = thread::spawn(move || {
        let image = docker.target("executor-cpu", &["EXECUTOR=echo"]);
        let volume = format!("{}:/kept", docker.volume("kept"));
        // No test removes this one.
        must(&["run", "-d", "-v", &volume, &image]);
        assert!(leftovers::found(&docker.value).len() > 3);
        panic!("the test fails");
    });
    assert!(failed.join().is_err());
    assert_eq!(leftovers::found(&value), [""; 0]);
}
