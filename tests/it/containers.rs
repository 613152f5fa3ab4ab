//! `uses: docker://image`: executors in containers, kept alive, reached, and removed as processes are.
//!
//! No image can be pulled where these tests run: theirs are made of this machine's own libraries and of the
//! programs under test.

use std::fs;
use std::net::TcpListener;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flow_tests::{
    DocArrayVersion, Program, TestFlow, eventually, flow_command, free_port, interpreter, post,
    scrape, texts,
};
use rustix::process::Signal;

use crate::FAULTY;
use crate::docker::{self, DockerTest, can_run, must};

/// The labels of our images.
const WIRE: &str = "LABEL dev.flow.wire=1";

/// An image with the programs under test, which tests that run at the same time share. It goes with the last of them.
pub(crate) struct Programs {
    pub(crate) image: String,
    /// The engine has it for as long as this is there.
    _docker: DockerTest,
}

impl Programs {
    /// `None` if there is no engine.
    pub(crate) fn image() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Programs>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(programs) = shared.upgrade() {
            return Some(programs);
        }
        let programs = Arc::new(Self::make()?);
        *shared = Arc::downgrade(&programs);
        Some(programs)
    }

    fn make() -> Option<Self> {
        let docker = DockerTest::start()?;
        let folder = docker.folder().join("programs");
        docker::copy_libraries(&folder);
        fs::create_dir(folder.join("bin")).unwrap();
        let flow = flow_command().get_program().to_owned();
        docker::strip(Path::new(&flow), &folder.join("bin/flow"));
        docker::strip(Path::new(FAULTY), &folder.join("bin/faulty"));
        Some(Self {
            image: docker.import(&folder, "programs", &[WIRE, "USER 65532:65532"]),
            _docker: docker,
        })
    }

    /// An entry of `executors` that runs a program of it.
    fn entry(&self, name: &str, entrypoint: &str, options: &str) -> String {
        let image = &self.image;
        format!("{{name: {name}, uses: 'docker://{image}', entrypoint: {entrypoint}{options}}}")
    }
}

/// An image without anything in it.
fn empty(docker: &DockerTest, what: &str, changes: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    docker.import(folder.path(), what, changes)
}

pub(crate) const ECHO: &str = "/bin/flow executor --uses echo";
const FAULTY_INSIDE: &str = "/bin/faulty";

/// A flow whose containers go when the test ends: it is killed then, and cannot remove them.
pub(crate) struct ContainerFlow(TestFlow);

impl ContainerFlow {
    pub(crate) fn up(yaml: &str) -> Self {
        Self(TestFlow::up(yaml))
    }

    /// The same with these variables.
    pub(crate) fn up_in(yaml: &str, variables: &[(&str, &str)]) -> Self {
        Self(TestFlow::up_in(yaml, variables))
    }
}

impl Deref for ContainerFlow {
    type Target = TestFlow;

    fn deref(&self) -> &TestFlow {
        &self.0
    }
}

impl Drop for ContainerFlow {
    fn drop(&mut self) {
        let launcher = self.0.program().pid();
        self.0.program().signal(Signal::KILL);
        self.0.program_mut().end();
        for id in containers_of(launcher) {
            // A flow of another test that starts just now removes it too.
            drop(Command::new("docker").args(["rm", "-f", &id]).output());
        }
    }
}

/// Containers whose launcher is this process.
pub(crate) fn containers_of(flow: u32) -> Vec<String> {
    let format = "{{.ID}} {{.Label \"dev.flow.run\"}}";
    let listed = must(&[
        "ps",
        "-a",
        "--filter",
        "label=dev.flow.run",
        "--format",
        format,
    ]);
    let of_flow = |line: &&str| line.split('/').nth(2) == Some(&flow.to_string());
    let ids = listed.lines().filter(of_flow);
    ids.filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect()
}

/// The container that runs this process of a flow.
fn container(flow: &TestFlow, name: &str) -> String {
    let own = containers_of(flow.program().pid());
    let label = "{{index .Config.Labels \"dev.flow.replica\"}}";
    let is_it = |id: &String| must(&["inspect", "-f", label, id]) == name;
    own.into_iter().find(is_it).unwrap()
}

fn inspect(id: &str, format: &str) -> String {
    must(&["inspect", "-f", format, id])
}

/// What is said of a flow that does not start.
fn refused(yaml: &str) -> String {
    refused_with(yaml, |_| {})
}

pub(crate) fn refused_with(yaml: &str, change: impl Fn(&mut Command)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    fs::write(&file, format!("jtype: Flow\n{yaml}")).unwrap();
    let mut command = flow_command();
    command
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .arg("up")
        .arg(&file)
        .args(["--port", "0"]);
    change(&mut command);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(1), "{}", program.said());
    program.stderr()
}

#[tokio::test]
async fn an_executor_in_a_container_works_like_any_other() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let flow = ContainerFlow::up(&format!(
        "with: {{name: boxed}}\nexecutors: [{}]",
        programs.entry("inside", ECHO, ", env: {COLOUR: blue}")
    ));
    let said = post(&flow, vec![texts("/any", &["x"])]).await;
    assert_eq!(said[0].texts, ["x"], "{said:?}");
    assert_eq!(said[0].routes, ["gateway", "inside"]);

    let id = container(&flow, "inside");
    assert_eq!(
        inspect(&id, "{{.State.Pid}}"),
        flow.pid("inside").to_string()
    );
    assert_eq!(
        inspect(&id, "{{index .Config.Labels \"dev.flow.flow\"}}"),
        "boxed"
    );
    assert_eq!(
        inspect(&id, "{{index .Config.Labels \"dev.flow.node\"}}"),
        "inside"
    );
    assert!(inspect(&id, "{{.Config.Env}}").contains("COLOUR=blue"));
    assert_eq!(
        inspect(&id, "{{.HostConfig.ExtraHosts}}"),
        "[host.docker.internal:host-gateway]"
    );
    assert_eq!(
        inspect(
            &id,
            "{{(index (index .NetworkSettings.Ports \"54321/tcp\") 0).HostIp}}"
        ),
        "127.0.0.1",
        "only this machine reaches it"
    );

    let state = flow.folder().join("state");
    let order = |arguments: &[&str]| {
        let mut command = flow_command();
        command.env("XDG_STATE_HOME", &state).args(arguments);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}", program.said());
        program.stdout()
    };
    assert!(order(&["ps"]).contains("inside"));
    order(&["restart", "inside"]);
    let renewed = container(&flow, "inside");
    assert_ne!(renewed, id);
    order(&["scale", "inside=2"]);
    assert_eq!(containers_of(flow.program().pid()).len(), 2);
    assert_eq!(
        post(&flow, vec![texts("/any", &["y"])]).await[0].texts,
        ["y"]
    );
}

#[tokio::test]
async fn metrics_of_a_container_are_reachable_from_this_machine() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let entries = [
        programs.entry("published", ECHO, ", replicas: 2"),
        programs.entry("host", ECHO, ", force_network_mode: HOST"),
    ];
    let flow = ContainerFlow::up(&format!(
        "with: {{monitoring: true}}\nexecutors: [{}]",
        entries.join(", ")
    ));
    post(&flow, vec![texts("/x", &["a"]), texts("/x", &["b"])]).await;
    let served = |name: &str, runtime: &str| {
        let line = flow.program().line(&format!("{name}@"));
        let url = line.split_once("metrics ").unwrap().1;
        let numbers = scrape(url.trim_end_matches(')'));
        numbers.get(&format!(
            "jina_successful_requests_total{{runtime_name=\"{runtime}\"}}"
        ))
    };
    let replicas = ["published/rep-0", "published/rep-1"];
    let total: u64 = replicas.iter().map(|name| served(name, name)).sum();
    assert_eq!(total, 2);
    assert_eq!(served("host", "host/rep-0"), 2);
    let ports = "{{json .HostConfig.PortBindings}}";
    let bound = inspect(&container(&flow, "published/rep-0"), ports);
    assert!(
        bound.contains("54322/tcp") && !bound.contains("0.0.0.0"),
        "{bound}"
    );
}

#[test]
fn containers_are_removed_with_their_flow() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let mut flow = TestFlow::up(&format!(
        "executors: [{}]",
        programs.entry("echo", ECHO, ", replicas: 2")
    ));
    let launcher = flow.program().pid();
    flow.program().signal(Signal::TERM);
    assert_eq!(flow.program_mut().end().code(), Some(0));
    assert_eq!(containers_of(launcher), [""; 0]);
}

#[tokio::test]
async fn no_request_is_lost_when_one_of_two_containers_is_killed_under_load() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let flow = ContainerFlow::up(&format!(
        "executors: [{}]",
        programs.entry("faulty", FAULTY_INSIDE, ", replicas: 2, idempotent: true")
    ));
    flow.expect("process died and is restarted")
        .expect("replica cannot be reached");
    let victim = container(&flow, "faulty/rep-0");
    let published = "{{json .NetworkSettings.Ports}}";
    let before = inspect(&victim, published);
    let lines = flow.program().lines().len();
    let kill = std::thread::spawn({
        let victim = victim.clone();
        move || must(&["kill", &victim])
    });
    let requests = (0..400).map(|_| texts("/slow", &["5"])).collect();
    let said = post(&flow, requests).await;
    kill.join().unwrap();
    assert_eq!(said.len(), 400);
    assert!(said.iter().all(|it| it.texts == ["5"]), "{said:?}");

    flow.program().line_from(lines, "SIGKILL");
    flow.program().line_from(lines, "faulty/rep-0@");
    let again = container(&flow, "faulty/rep-0");
    assert_ne!(again, victim);
    assert_eq!(inspect(&again, published), before, "it has its port again");
    assert_eq!(
        post(&flow, vec![texts("/slow", &["1"])]).await[0].texts,
        ["1"]
    );
}

#[tokio::test]
async fn shards_run_in_containers_and_get_their_numbers() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let flow = ContainerFlow::up(&format!(
        "executors: [{}]",
        programs.entry("echo", ECHO, ", shards: 2, polling: ALL")
    ));
    let said = post(&flow, vec![texts("/any", &["x"])]).await;
    assert_eq!(said[0].texts, ["x"], "{said:?}");
    for shard in ["0", "1"] {
        let id = container(&flow, &format!("echo/shard-{shard}"));
        let output = inspect(&id, "{{.Config.Cmd}}");
        assert!(output.contains(&format!("--shard {shard}")), "{output}");
    }
}

#[test]
fn containers_of_a_killed_flow_are_removed_by_the_next_flow() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let yaml = format!(
        "executors: [{}]",
        programs.entry("echo", ECHO, ", replicas: 2")
    );
    let mut first = TestFlow::up(&yaml);
    let launcher = first.program().pid();
    assert_eq!(containers_of(launcher).len(), 2);
    first.program().signal(Signal::KILL);
    first.program_mut().end();

    let second = ContainerFlow::up(&yaml);
    // If another test's flow started in between, it was the next, and may still be at it.
    eventually("they are removed", || containers_of(launcher).is_empty());
    assert_eq!(containers_of(second.program().pid()).len(), 2);
}

#[tokio::test]
async fn a_container_with_the_machines_network_is_reached_without_a_published_port() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let flow = ContainerFlow::up(&format!(
        "executors: [{}]",
        programs.entry("echo", ECHO, ", docker_kwargs: {network_mode: host}")
    ));
    assert_eq!(
        post(&flow, vec![texts("/any", &["x"])]).await[0].texts,
        ["x"]
    );
    let id = container(&flow, "echo");
    assert_eq!(inspect(&id, "{{.HostConfig.NetworkMode}}"), "host");
    assert_eq!(inspect(&id, "{{.NetworkSettings.Ports}}"), "map[]");
}

#[test]
fn paths_of_volumes_may_be_relative_or_begin_at_home() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(home.join("cache")).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let yaml = format!(
        "jtype: Flow\nexecutors: [{}]",
        programs.entry(
            "echo",
            ECHO,
            ", volumes: ['~/cache:/cache:ro', 'data:/data:ro', new], workspace: kept"
        )
    );
    fs::write(folder.path().join("flow.yml"), yaml).unwrap();
    let mut command = flow_command();
    command
        .current_dir(folder.path())
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .env("HOME", &home)
        .args(["up", "flow.yml", "--port", "0", "--ready-format", "json"]);
    let mut program = Program::start(command);
    program.ready();
    let own = containers_of(program.pid());
    let mounts = "{{range .Mounts}}{{.Source}}:{{.Destination}}:{{.RW}} {{end}}";
    let mounts = inspect(&own[0], mounts);
    let root = folder.path().display();
    for mount in [
        format!("{root}/home/cache:/cache:false"),
        format!("{root}/data:/data:false"),
        format!("{root}/new:/new:true"),
        format!("{root}/kept:/workspace:true"),
    ] {
        assert!(mounts.contains(&mount), "{mount} in {mounts}");
    }
    let output = inspect(&own[0], "{{.Config.Cmd}}");
    assert!(output.contains("--workspace /workspace"), "{output}");
    program.signal(Signal::TERM);
    program.end();
}

#[test]
fn a_folder_that_the_image_cannot_write_is_reported_with_the_remedy() {
    let Some(programs) = Programs::image() else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        // Then the container runs as the user who starts the flow, who owns the folder.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let volumes = |end: &str| {
        let options = format!(", volumes: '{path}:/cache{end}'");
        format!("executors: [{}]", programs.entry("echo", ECHO, &options))
    };
    let said = refused(&volumes(""));
    assert!(
        said.contains(&format!(
            "runs as user 65532:65532, who may not write to `{path}` (add `:ro` if the executor only reads there; or \
             mount a volume of the engine, `{{type: volume, source: NAME, target: /cache}}`; or another folder"
        )),
        "{said}"
    );
    assert!(
        !said.contains("chown"),
        "it would take the user's folder away: {said}"
    );
    drop(ContainerFlow::up(&volumes(":ro")));
}

#[tokio::test]
async fn a_container_that_runs_out_of_memory_is_reported_as_such() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let flow = ContainerFlow::up(&format!(
        "executors: [{}]",
        programs.entry(
            "faulty",
            FAULTY_INSIDE,
            ", docker_kwargs: {mem_limit: 64m, memswap_limit: 64m}"
        )
    ));
    flow.expect("process died and is restarted")
        .expect("replica cannot be reached");
    let said = post(&flow, vec![texts("/hog", &["x"])]).await;
    assert!(said[0].failure.is_some(), "{said:?}");
    flow.program().line("ran out of memory in its container");
}

#[test]
fn a_taken_container_port_is_reported_with_its_number() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let options = format!(", port: {port}");
    let said = refused(&format!(
        "executors: [{}]",
        programs.entry("echo", ECHO, &options)
    ));
    assert!(
        said.contains(&format!("port {port} is in use on this machine")),
        "{said}"
    );
}

#[test]
fn a_missing_image_is_reported() {
    if !can_run() {
        return;
    }
    let said = refused("executors: [{name: a, uses: 'docker://127.0.0.1:1/no-such-image:7'}]");
    assert!(
        said.contains("cannot pull the image `127.0.0.1:1/no-such-image:7`"),
        "{said}"
    );
}

#[test]
fn an_engine_that_does_not_answer_is_reported() {
    let said = refused_with("executors: [{name: a, uses: 'docker://a'}]", |command| {
        command.env("DOCKER_HOST", "unix:///no/such/socket");
    });
    let output = "no Docker engine answers at `unix:///no/such/socket`";
    assert!(said.contains(output), "{said}");
    let said = refused_with("executors: [{name: a, uses: 'docker://a'}]", |command| {
        command.env("DOCKER_HOST", format!("tcp://127.0.0.1:{}", free_port()));
    });
    assert!(
        said.contains("no Docker engine answers at `tcp://"),
        "{said}"
    );
    let said = refused_with("executors: [{name: a, uses: 'docker://a'}]", |command| {
        command.env("DOCKER_HOST", "ssh://somewhere");
    });
    assert!(
        said.contains("`ssh://somewhere` is not the address"),
        "{said}"
    );
}

/// An unprivileged user, whose own folder contains the program.
struct Nobody {
    folder: tempfile::TempDir,
}

impl Nobody {
    /// His number on every Linux.
    const ID: u32 = 65534;

    /// `None` if this process is not root, so it cannot become that user.
    fn new() -> Option<Self> {
        if !can_run() || !rustix::process::geteuid().is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::copy(flow_command().get_program(), folder.path().join("flow")).unwrap();
        chown(folder.path(), Some(Self::ID), Some(Self::ID)).unwrap();
        Some(Self { folder })
    }

    /// `flow up` as he types it, in this group.
    fn up(&self, yaml: &str, group: u32) -> Program {
        fs::write(self.folder.path().join("flow.yml"), yaml).unwrap();
        let mut command = Command::new(self.folder.path().join("flow"));
        command
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("DOCKER_HOST", format!("unix://{SOCKET}"))
            .args(["up", "flow.yml", "--port", "0", "--ready-format", "json"])
            .uid(Self::ID)
            .gid(group);
        Program::start(command)
    }
}

const SOCKET: &str = "/var/run/docker.sock";

#[test]
fn a_user_without_access_to_the_engine_gets_the_remedy() {
    let Some(nobody) = Nobody::new() else { return };
    let yaml = "jtype: Flow\nexecutors: [{name: a, uses: 'docker://a'}]";
    let mut program = nobody.up(yaml, Nobody::ID);
    assert_eq!(program.end().code(), Some(1), "{}", program.said());
    let said = program.stderr();
    assert!(
        said.contains("this user may not talk to the Docker engine")
            && said.contains("sudo usermod -aG docker $USER"),
        "{said}"
    );
}

#[test]
fn a_container_runs_as_the_owner_of_a_folder_that_its_own_user_may_not_write() {
    let Some((nobody, programs)) = Nobody::new().zip(Programs::image()) else {
        return;
    };
    let group = fs::metadata(SOCKET).unwrap().gid();
    let cache = nobody.folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    chown(&cache, Some(Nobody::ID), Some(Nobody::ID)).unwrap();
    let options = ", volumes: 'cache:/cache', workspace: kept";
    let yaml = format!(
        "jtype: Flow\nexecutors: [{}]",
        programs.entry("echo", ECHO, options)
    );
    let mut program = nobody.up(&yaml, group);
    program.ready();
    let own = containers_of(program.pid());
    assert_eq!(
        inspect(&own[0], "{{.Config.User}}"),
        format!("{}:{group}", Nobody::ID)
    );
    assert_eq!(
        fs::metadata(nobody.folder.path().join("kept"))
            .unwrap()
            .uid(),
        Nobody::ID
    );
    program.signal(Signal::TERM);
    program.end();
}

#[test]
fn an_image_of_another_protocol_or_without_a_program_is_refused() {
    let Some(docker) = DockerTest::start() else {
        return;
    };
    let of = |image: &str| {
        refused(&format!(
            "executors: [{{name: a, uses: 'docker://{image}'}}]"
        ))
    };
    let said = of(&empty(&docker, "other-wire", &["LABEL dev.flow.wire=9"]));
    assert!(
        said.contains("uses version `9` of the protocol, and this flow uses `1`"),
        "{said}"
    );
    let said = of(&empty(&docker, "nothing", &["ENV A=b"]));
    assert!(
        said.contains("does not say which program it runs"),
        "{said}"
    );
}

#[tokio::test]
async fn a_stock_executor_of_python_runs_from_its_image() {
    let Some((python, docker)) = interpreter(DocArrayVersion::V1).zip(DockerTest::start()) else {
        return;
    };
    // The interpreter, its packages and the executor are too much to be copied: the image sees this
    // machine's folders instead.
    let interpreter = fs::canonicalize(&python).unwrap();
    let version = interpreter.ancestors().nth(2).unwrap();
    let venv = python.ancestors().nth(2).unwrap();
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let folders = [venv, &fs::canonicalize(venv).unwrap(), version, &peers];
    let mut volumes: Vec<String> = folders
        .iter()
        .map(|path| format!("'{}:{}:ro'", path.display(), path.display()))
        .collect();
    for system in ["/usr", "/lib", "/lib64"] {
        volumes.push(format!("'{system}:{system}:ro'"));
    }
    volumes.sort();
    volumes.dedup();
    let entrypoint = format!(
        "ENTRYPOINT [\"{}\", \"-B\", \"-m\", \"jina\", \"executor\", \"--uses\", \"executor.yml\"]",
        python.display()
    );
    let folder = format!("WORKDIR {}", peers.display());
    let image = empty(
        &docker,
        "jina",
        &[&entrypoint, &folder, "ENV JINA_OPTOUT_TELEMETRY=1"],
    );
    let flow = ContainerFlow::up(&format!(
        "executors: [{{name: stock, uses: 'docker://{image}', volumes: [{}], \
         docker_kwargs: {{tmpfs: {{/tmp: ''}}}}}}]",
        volumes.join(", ")
    ));
    let said = post(&flow, vec![texts("/upper", &["one"])]).await;
    assert_eq!(said[0].texts, ["ONE"], "{said:?}");
    let output = inspect(&container(&flow, "stock"), "{{.Config.Cmd}}");
    assert!(
        output.starts_with("[--native --name stock --host 0.0.0.0 --port 54321"),
        "{output}"
    );
}

#[test]
fn containers_get_their_gpus_or_the_error_says_what_to_install() {
    let Some(programs) = Programs::image() else {
        return;
    };
    let check = |gpus: &str, requests: &str| {
        let recorder = recorder::Recorder::start();
        let options = format!(", gpus: '{gpus}'");
        let yaml = format!("executors: [{}]", programs.entry("echo", ECHO, &options));
        let said = refused_with(&yaml, |command| {
            command.env("DOCKER_HOST", recorder.host());
        });
        assert_eq!(recorder.device_requests(), requests, "{gpus}");
        assert!(
            said.contains("the Docker engine has no NVIDIA runtime"),
            "{said}"
        );
        assert!(said.contains("install nvidia-container-toolkit"), "{said}");
    };
    if must(&["info", "-f", "{{json .Runtimes}}"]).contains("nvidia") {
        flow_tests::skipped("an engine without NVIDIA runtime");
        return;
    }
    let of = |count: i64, ids: &str| {
        format!(
            r#"[{{"Driver":"","Count":{count},"DeviceIDs":{ids},"Capabilities":[["gpu"]],"Options":{{}}}}]"#
        )
    };
    check("all", &of(-1, "null"));
    check("2", &of(2, "null"));
    check("device=0,1", &of(0, r#"["0","1"]"#));
    check("device=GPU-3a", &of(0, r#"["GPU-3a"]"#));
}

/// An engine's socket that looks at each container right before it is started.
mod recorder {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::{Arc, Mutex};
    use std::thread;

    const ENGINE: &str = "/var/run/docker.sock";

    pub(super) struct Recorder {
        folder: tempfile::TempDir,
        seen: Arc<Mutex<Option<String>>>,
    }

    impl Recorder {
        pub(super) fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let listener = UnixListener::bind(folder.path().join("engine")).unwrap();
            let seen = Arc::new(Mutex::new(None));
            let recorder = Self {
                folder,
                seen: seen.clone(),
            };
            // It ends with the test's process.
            thread::spawn(move || {
                for caller in listener.incoming() {
                    let seen = seen.clone();
                    thread::spawn(move || pass_on(caller.unwrap(), &seen));
                }
            });
            recorder
        }

        pub(super) fn host(&self) -> String {
            format!("unix://{}", self.folder.path().join("engine").display())
        }

        pub(super) fn device_requests(&self) -> String {
            self.seen.lock().unwrap().clone().unwrap()
        }
    }

    /// Each connection carries one request.
    fn pass_on(mut caller: UnixStream, seen: &Mutex<Option<String>>) {
        let mut engine = UnixStream::connect(ENGINE).unwrap();
        let mut first = vec![0; 64 << 10];
        let len = caller.read(&mut first).unwrap();
        look(&String::from_utf8_lossy(&first[..len]), seen);
        engine.write_all(&first[..len]).unwrap();
        let (mut rest, mut to_engine) = (caller.try_clone().unwrap(), engine.try_clone().unwrap());
        thread::spawn(move || {
            drop(std::io::copy(&mut rest, &mut to_engine));
            drop(to_engine.shutdown(Shutdown::Write));
        });
        drop(std::io::copy(&mut engine, &mut caller));
        drop(caller.shutdown(Shutdown::Both));
    }

    fn look(request: &str, seen: &Mutex<Option<String>>) {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let Some(path) = path.strip_suffix("/start") else {
            return;
        };
        let id = path.rsplit('/').next().unwrap();
        let found = super::inspect(id, "{{json .HostConfig.DeviceRequests}}");
        *seen.lock().unwrap() = Some(found);
    }
}
