//! The stack of `flow export swarm`, on several Docker engines that form a Swarm.
//!
//! `cargo xtask swarm` runs this, and keeps what clients saw: `FLOW_SWARM_SECONDS` says for how long, `FLOW_SWARM_OUT` names the
//! folder for the figures.

mod engines;
mod load;
mod tutorial;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flow_tests::{Program, eventually, flow_command, skipped};

use self::engines::Swarm;
use self::load::{Gateways, Question};
use crate::docker::{DockerTest, must};

/// The port of the gateways at the engines' addresses.
const PORT: u16 = 54321;

/// Requests a second.
const RATE: u32 = 100;

/// Options of the export for two gateways, on the engines that do not manage the Swarm.
const TWO_GATEWAYS: [&str; 4] = [
    "--gateways",
    "2",
    "--place",
    "gateway=node.labels.engine!=1",
];

/// A flow whose stack runs in a Swarm.
struct Deployed {
    swarm: Swarm,
    gateways: Gateways,
    docker: DockerTest,
    image: String,
}

impl Deployed {
    /// `None` where there can be no Swarm.
    fn start(engines: usize, executors: &str, options: &[&str]) -> Option<Self> {
        let it = Self::prepare(engines)?;
        it.deploy(&it.image, executors, options);
        it.swarm.settled();
        Some(it)
    }

    /// A Swarm whose engines have the image of the gateway, and no stack. `None` where there can be no Swarm.
    fn prepare(engines: usize) -> Option<Self> {
        let docker = DockerTest::start()?;
        let swarm = Swarm::start(engines)?;
        let image = docker.target("gateway", &[]);
        swarm.load(&image);
        let urls = swarm.engines.iter();
        let urls = urls.map(|it| format!("grpc://{}:{PORT}", it.address));
        Some(Self {
            gateways: Gateways::new(urls.collect::<Vec<_>>().into_iter()),
            swarm,
            docker,
            image,
        })
    }

    /// Exports a flow with these executors, and deploys its stack with this image.
    fn deploy(&self, image: &str, executors: &str, options: &[&str]) {
        let flow = self.docker.folder().join("flow.yml");
        let text = format!("jtype: Flow\nwith: {{port: {PORT}}}\nexecutors: [{executors}]");
        fs::write(&flow, text).unwrap();
        let out = self.docker.folder().join("stack");
        let mut export = flow_command();
        export.args(["export", "swarm"]).arg(&flow).arg(&out);
        export.args(["--image-gateway", image, "--publish", "host"]);
        export.args(options);
        let (code, program) = Program::run(export);
        assert_eq!(code, Some(0), "{}", program.said());
        let stack = out.join("stack.yml").display().to_string();
        let never = ["--resolve-image", "never"];
        let deploy = [&["stack", "deploy", "-c", &stack], &never[..], &["flow"]].concat();
        self.swarm.docker(&deploy);
    }

    /// An image with the same files as the first and another identity, on all engines.
    fn new_image(&self) -> String {
        let name = self.docker.name("gateway-2");
        let folder = self.docker.folder().join("new-image");
        fs::create_dir_all(&folder).unwrap();
        let dockerfile = format!("FROM {}\nLABEL version=2\n", self.image);
        fs::write(folder.join("Dockerfile"), dockerfile).unwrap();
        must(&["build", "-q", "-t", &name, &folder.display().to_string()]);
        self.swarm.load(&name);
        name
    }

    /// Waits until the last change of these services is complete.
    fn updated(&self, services: &[&str]) {
        for service in services {
            let state = "{{if .UpdateStatus}}{{.UpdateStatus.State}}{{end}}";
            let inspect = ["service", "inspect", "-f", state, service];
            eventually(&format!("`{service}` has changed"), || {
                let state = self.swarm.docker(&inspect);
                assert!(!state.contains("rollback"), "{service}: {state}");
                state == "completed"
            });
        }
        self.swarm.settled();
    }
}

/// Requests to any gateway while something happens to the Swarm; gives back what became of them.
fn while_it_changes(
    gateways: &Gateways,
    question: Question,
    changes: impl FnOnce() + Send,
) -> Vec<load::Outcome> {
    /// Ends the load, also when what happens meanwhile fails.
    struct Ends<'e>(&'e AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let _ends = Ends(&ends);
            changes();
        });
        let outcomes = runtime.block_on(gateways.load(RATE, question, &ends));
        changes.join().unwrap();
        outcomes
    })
}

/// Seconds of load, and the folder for the figures. `None` in the suite of all tests: engines of Docker that are killed and
/// cut off take minutes, and load that other tests do not expect.
fn wished() -> Option<(u32, PathBuf)> {
    let seconds = std::env::var_os("FLOW_SWARM_SECONDS")?.into_string();
    let folder = std::env::var_os("FLOW_SWARM_OUT")?;
    Some((seconds.unwrap().parse().unwrap(), folder.into()))
}

/// When what happened, for the figures.
struct Events {
    begun: Instant,
    lines: Mutex<String>,
}

impl Events {
    fn begin() -> Self {
        Self {
            begun: Instant::now(),
            lines: Mutex::new("second,event\n".to_owned()),
        }
    }

    fn note(&self, event: &str) {
        let line = format!("{:.2},{event}\n", self.begun.elapsed().as_secs_f64());
        self.lines.lock().unwrap().push_str(&line);
    }

    /// Writes requests and events, and checks the requests.
    fn finish(&self, folder: &Path, outcomes: &[load::Outcome]) {
        load::write(&folder.join("requests.csv"), outcomes);
        fs::write(folder.join("events.csv"), &*self.lines.lock().unwrap()).unwrap();
        load::check(outcomes);
    }
}

#[test]
fn every_request_is_answered_once_though_an_engine_dies_and_one_is_cut_off() {
    let Some((seconds, folder)) = wished() else {
        skipped("three engines of Docker take minutes; `cargo xtask swarm` runs this test");
        return;
    };
    let executors = "{name: echo, uses: echo, replicas: 4, idempotent: true}";
    let Some(mut deployed) = Deployed::start(3, executors, &TWO_GATEWAYS) else {
        return;
    };
    let length = Duration::from_secs(seconds.into());
    let (events, outcomes) = while_engines_fail(&mut deployed, Question::Echo, length);
    events.finish(&folder, &outcomes);
}

/// Requests while one engine of three is killed and started again, and while another is disconnected and connected again.
fn while_engines_fail(
    deployed: &mut Deployed,
    question: Question,
    length: Duration,
) -> (Events, Vec<load::Outcome>) {
    let [manager, cut_off, dies] = &mut deployed.swarm.engines[..] else {
        unreachable!("there are three")
    };
    let gateways = deployed.gateways.clone();
    let events = Events::begin();
    let until = |part: f64| {
        let at = events.begun + length.mul_f64(part);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
    };
    let outcomes = while_it_changes(&gateways, question, || {
        events.note("all engines run");
        until(0.15);
        events.note("engine killed");
        dies.kill();
        until(0.4);
        events.note("engine started again");
        dies.revive();
        // Its gateway must serve before the other one is cut off: with neither there is nobody to answer.
        until(0.6);
        manager.settled();
        events.note("all tasks run again");
        until(0.65);
        events.note("engine cut off");
        cut_off.unplug();
        until(0.85);
        events.note("engine connected again");
        cut_off.plug();
        until(1.0);
    });
    (events, outcomes)
}

#[test]
fn nothing_is_lost_while_image_flow_file_and_number_of_tasks_change() {
    let Some((seconds, folder)) = wished() else {
        skipped("three engines of Docker take minutes; `cargo xtask swarm changes` runs this test");
        return;
    };
    // Requests must not run twice, so each that is lost by an executor fails.
    let before = "{name: echo, uses: echo, replicas: 3}";
    let after = format!("{before}, {{name: last, uses: echo, env: {{VERSION: two}}}}");
    let options = ["--gateways", "3"];
    let Some(deployed) = Deployed::start(3, before, &options) else {
        return;
    };
    let image = deployed.new_image();
    let quiet = Duration::from_secs(seconds.into()).div_f64(10.0);
    let scale = |tasks: &str| {
        deployed.swarm.docker(&["service", "scale", "-d", tasks]);
        deployed.swarm.settled();
    };
    let events = Events::begin();
    let outcomes = while_it_changes(&deployed.gateways, Question::Echo, || {
        events.note("all tasks run");
        std::thread::sleep(quiet);
        events.note("echo from 3 to 5 tasks");
        scale("flow_echo=5");
        std::thread::sleep(quiet);
        events.note("echo from 5 to 3 tasks");
        scale("flow_echo=3");
        std::thread::sleep(quiet);
        events.note("new image");
        deployed.deploy(&image, before, &options);
        deployed.updated(&["flow_echo", "flow_gateway"]);
        std::thread::sleep(quiet);
        events.note("new flow file");
        deployed.deploy(&image, &after, &options);
        deployed.updated(&["flow_gateway"]);
        events.note("all tasks run again");
        std::thread::sleep(quiet);
    });
    events.finish(&folder, &outcomes);
}
