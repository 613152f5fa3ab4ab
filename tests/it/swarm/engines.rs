//! Several Docker engines on this machine, each in a network of its own, as one Swarm.
//!
//! A bridge joins the networks. An engine runs in a network namespace with an address on that bridge, and keeps its files
//! and its control groups below names of the test. All of it is removed when the test ends, however it ends; what a run
//! left that was killed is removed by the next.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use flow_tests::{eventually, eventually_or, is_alive};

/// Prefix of the names of namespaces, followed by the process and the number of the Swarm: `flow-swarm-4711-0-1`.
const PREFIX: &str = "flow-swarm-";

/// Where `ip netns` keeps its namespaces.
const NAMESPACES: &str = "/run/netns";

/// Programs without which there are no engines.
const PROGRAMS: &[&str] = &["dockerd", "docker", "nsenter", "ip", "iptables"];

/// An engine and its machine, as far as others can see.
pub(super) struct Engine {
    number: usize,
    namespace: String,
    /// The end of its cable at the bridge.
    cable: String,
    pub(super) address: String,
    folder: PathBuf,
    process: Option<Child>,
}

/// The engines of a test. The first manages the Swarm.
pub(super) struct Swarm {
    name: String,
    bridge: String,
    pub(super) engines: Vec<Engine>,
    /// In memory: an engine writes each image several times.
    folder: tempfile::TempDir,
}

fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both).trim().to_owned();
    (output.status.success(), text)
}

#[track_caller]
fn must(program: &str, arguments: &[&str]) -> String {
    let (is_fine, text) = run(program, arguments);
    assert!(is_fine, "{program} {arguments:?}: {text}");
    text
}

/// What this machine lacks; `None` if nothing.
fn lack() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("engines in networks of their own need root".to_owned());
    }
    let is_there = |program: &&str| run("sh", &["-c", &format!("command -v {program}")]).0;
    let missing = PROGRAMS.iter().find(|program| !is_there(program));
    if let Some(program) = missing {
        return Some(format!("no `{program}`, with which engines are started"));
    }
    let bridges = ["link", "add", "flow-try", "type", "bridge"];
    let (is_fine, text) = run("ip", &bridges);
    run("ip", &["link", "del", "flow-try"]);
    (!is_fine).then(|| format!("no bridge can be made here: {text}"))
}

impl Swarm {
    /// A Swarm of this number of engines. `None` where there can be none, which is said.
    pub(super) fn start(count: usize) -> Option<Self> {
        if let Some(reason) = lack() {
            flow_tests::skipped(&reason);
            return None;
        }
        sweep();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let mut swarm = Self {
            name: format!("{PREFIX}{pid}-{number}"),
            bridge: format!("flow{pid}b{number}"),
            engines: Vec::new(),
            folder,
        };
        let memory = swarm.folder.path().display().to_string();
        must("mount", &["-t", "tmpfs", &swarm.name, &memory]);
        let network = format!("10.{}.{number}", 100 + pid % 100);
        swarm.connect(&network);
        for number in 1..=count {
            let engine = swarm.engine(number, &network);
            swarm.engines.push(engine);
        }
        for engine in &swarm.engines {
            engine.wait();
        }
        swarm.form();
        Some(swarm)
    }

    fn connect(&self, network: &str) {
        let bridge = self.bridge.as_str();
        must("ip", &["link", "add", bridge, "type", "bridge"]);
        let address = format!("{network}.1/24");
        must("ip", &["addr", "add", &address, "dev", bridge]);
        must("ip", &["link", "set", bridge, "up"]);
        must("iptables", &forwarding("-I", bridge));
    }

    fn engine(&self, number: usize, network: &str) -> Engine {
        let pid = std::process::id();
        let mut engine = Engine {
            number,
            namespace: format!("{}-{number}", self.name),
            cable: format!(
                "f{pid}{}e{number}",
                self.bridge.split('b').next_back().unwrap()
            ),
            address: format!("{network}.{}", 10 + number),
            folder: self.folder.path().join(number.to_string()),
            process: None,
        };
        fs::create_dir_all(&engine.folder).unwrap();
        fs::write(engine.file("daemon.json"), "{}").unwrap();
        engine.plug_in(&self.bridge, network);
        engine.boot();
        engine
    }

    /// Makes the engines one Swarm, each with a label `engine` by which tasks are placed.
    fn form(&self) {
        let [first, others @ ..] = self.engines.as_slice() else {
            return;
        };
        let address = first.address.as_str();
        // A manager notices within seconds that a node is gone.
        let beat = ["--dispatcher-heartbeat", "2s"];
        first.docker(&[&["swarm", "init", "--advertise-addr", address], &beat[..]].concat());
        let token = first.docker(&["swarm", "join-token", "-q", "worker"]);
        let manager = format!("{address}:2377");
        for engine in others {
            let own = engine.address.as_str();
            let join = ["swarm", "join", "--advertise-addr", own, "--token", &token];
            engine.docker(&[&join[..], &[&manager]].concat());
        }
        for engine in &self.engines {
            let node = engine.docker(&["info", "-f", "{{.Swarm.NodeID}}"]);
            let label = format!("engine={}", engine.number);
            first.docker(&["node", "update", "--label-add", &label, &node]);
        }
    }

    /// Runs `docker` at the manager.
    #[track_caller]
    pub(super) fn docker(&self, arguments: &[&str]) -> String {
        self.engines[0].docker(arguments)
    }

    /// Puts an image of this machine's engine into all others.
    pub(super) fn load(&self, image: &str) {
        let file = self.folder.path().join("image.tar");
        let path = file.display().to_string();
        must("docker", &["save", "-o", &path, image]);
        for engine in &self.engines {
            engine.docker(&["load", "-q", "-i", &path]);
        }
        fs::remove_file(file).unwrap();
    }

    /// Waits until each service has as many healthy tasks as it shall have.
    pub(super) fn settled(&self) {
        self.engines[0].settled();
    }
}

impl Engine {
    /// Of a manager: waits until each service has as many healthy tasks as it shall have.
    pub(super) fn settled(&self) {
        let services = ["service", "ls", "--format", "{{.Replicas}}"];
        let is_settled = || {
            let said = self.docker(&services);
            let mut lines = said.lines();
            lines.all(|line| {
                let counts = line.split(' ').next().unwrap_or_default();
                counts
                    .split_once('/')
                    .is_some_and(|(now, then)| now == then)
            })
        };
        eventually_or("all tasks run", is_settled, || self.tasks());
    }

    /// The tasks of all services, with the errors that ended them.
    fn tasks(&self) -> String {
        let services = self.docker(&["service", "ls", "--quiet"]);
        let services: Vec<_> = services.split_whitespace().collect();
        let format = "{{.Name}}: {{.CurrentState}} {{.Error}}";
        let shown = ["service", "ps", "--no-trunc", "--format", format];
        self.docker(&[&shown[..], &services].concat())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn socket(&self) -> String {
        format!("unix://{}", self.file("sock").display())
    }

    #[track_caller]
    pub(super) fn docker(&self, arguments: &[&str]) -> String {
        must("docker", &[&["-H", &self.socket()], arguments].concat())
    }

    fn plug_in(&self, bridge: &str, network: &str) {
        let (own, cable) = (self.namespace.as_str(), self.cable.as_str());
        must("ip", &["netns", "add", own]);
        let ends = ["type", "veth", "peer", "name", "eth0", "netns", own];
        must("ip", &[&["link", "add", cable], &ends[..]].concat());
        must("ip", &["link", "set", cable, "master", bridge, "up"]);
        let address = format!("{}/24", self.address);
        let gateway = format!("{network}.1");
        let inside = |arguments: &[&str]| must("ip", &[&["-n", own], arguments].concat());
        inside(&["link", "set", "lo", "up"]);
        inside(&["addr", "add", &address, "dev", "eth0"]);
        inside(&["link", "set", "eth0", "up"]);
        inside(&["route", "add", "default", "via", &gateway]);
    }

    /// Starts the engine, as a boot of its machine would.
    pub(super) fn boot(&mut self) {
        let log = fs::File::create(self.file("log")).unwrap();
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={NAMESPACES}/{}", self.namespace));
        command.arg("dockerd");
        for (option, name) in [
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
            ("--config-file", "daemon.json"),
        ] {
            command.arg(option).arg(self.file(name));
        }
        command.args(["--host", &self.socket()]);
        command.args(["--cgroup-parent", &format!("/{}", self.namespace)]);
        command.stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().unwrap());
    }

    pub(super) fn wait(&self) {
        eventually("the engine answers", || {
            run("docker", &["-H", &self.socket(), "version"]).0
        });
    }

    /// Takes its machine off the network, as a cable that is pulled out: nothing arrives, and nobody is told.
    pub(super) fn unplug(&self) {
        must("ip", &["link", "set", &self.cable, "down"]);
    }

    pub(super) fn plug(&self) {
        must("ip", &["link", "set", &self.cable, "up"]);
    }

    /// Ends the engine and all of its containers at once, as a machine that loses its power.
    pub(super) fn kill(&mut self) {
        self.unplug();
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.kill());
            drop(process.wait());
        }
        kill_all(&self.namespace);
    }

    /// Its machine has power again.
    pub(super) fn revive(&mut self) {
        unmount_below(&self.folder);
        drop(fs::remove_file(self.file("pid")));
        drop(fs::remove_dir_all(self.file("exec")));
        self.plug();
        self.boot();
        self.wait();
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        for engine in &mut self.engines {
            engine.end();
            unmount_below(&engine.folder);
            remove_namespace(&engine.namespace);
        }
        unmount_below(self.folder.path());
        remove_bridge(&self.bridge);
    }
}

fn forwarding<'a>(what: &'a str, bridge: &'a str) -> [&'a str; 8] {
    [what, "FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT"]
}

fn remove_bridge(bridge: &str) {
    run("iptables", &forwarding("-D", bridge));
    run("ip", &["link", "del", bridge]);
}

/// Ends all processes of an engine: those of its network, and its containers with networks of their own.
fn kill_all(namespace: &str) {
    let is_left = || {
        let (_, engine) = run("ip", &["netns", "pids", namespace]);
        let mut pids: BTreeSet<u32> = engine.lines().filter_map(|it| it.parse().ok()).collect();
        pids.extend(of_control_group(namespace));
        for pid in &pids {
            run("kill", &["-9", &pid.to_string()]);
        }
        !pids.is_empty()
    };
    eventually("the engine has ended", || !is_left());
}

/// The folders of a control group, in every hierarchy.
fn control_groups(namespace: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let hierarchies = entries.map(|entry| entry.path().join(namespace));
    let all = hierarchies.chain([root.join(namespace)]);
    all.filter(|path| path.is_dir()).collect()
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.map(|it| it.path()).filter(|path| path.is_dir());
    let mut all: Vec<PathBuf> = folders.flat_map(|it| below(&it)).collect();
    all.push(folder.to_owned());
    all
}

fn of_control_group(namespace: &str) -> Vec<u32> {
    let groups = control_groups(namespace);
    let folders = groups.iter().flat_map(|group| below(group));
    let lists = folders.filter_map(|it| fs::read_to_string(it.join("cgroup.procs")).ok());
    let pids = lists.flat_map(|list| {
        let pids = list.lines().filter_map(|it| it.parse().ok());
        pids.collect::<Vec<u32>>()
    });
    pids.collect()
}

fn remove_namespace(namespace: &str) {
    run("ip", &["netns", "del", namespace]);
    for group in control_groups(namespace) {
        for folder in below(&group) {
            drop(fs::remove_dir(folder));
        }
    }
}

/// The source and the folder of each mount.
fn mounts() -> Vec<(String, String)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let words = |line: &str| {
        let (source, rest) = line.split_once(' ')?;
        let (point, _) = rest.split_once(' ')?;
        Some((source.to_owned(), point.to_owned()))
    };
    mounts.lines().filter_map(words).collect()
}

fn unmount_below(folder: &Path) {
    let start = folder.display().to_string();
    let mut points = mounts();
    points.retain(|(_, point)| point.starts_with(&start));
    for (_, point) in points.iter().rev() {
        run("umount", &["-l", point]);
    }
}

/// Removes what tests left that were killed: namespaces whose process has ended.
fn sweep() {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let parts: Vec<&str> = rest.split('-').collect();
        let [pid, number, _] = parts[..] else {
            continue;
        };
        if pid.parse().is_ok_and(is_alive) {
            continue;
        }
        kill_all(&name);
        remove_namespace(&name);
        remove_bridge(&format!("flow{pid}b{number}"));
        let swarm = format!("{PREFIX}{pid}-{number}");
        let left = mounts().into_iter().filter(|(source, _)| *source == swarm);
        for (_, folder) in left {
            unmount_below(Path::new(&folder));
            drop(fs::remove_dir(folder));
        }
    }
}
