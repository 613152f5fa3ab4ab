//! The stack of `flow export swarm`, on several Docker engines that form a Swarm.
//!
//! `cargo xtask swarm` runs this, and keeps what clients saw: `FLOW_SWARM_SECONDS` says for how long, `FLOW_SWARM_OUT` names the
//! folder for the figures.

mod engines;
mod load;
mod tutorial;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flow_tests::{Program, eventually, flow_command, skipped};

use self::engines::Swarm;
use self::load::{Gateways, Question};
use crate::RECORDER;
use crate::docker::{DockerTest, must, strip};

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

    /// An image of the executor that records what it runs, on all engines.
    fn recorder_image(&self, version: u32) -> String {
        let name = self.docker.name(&format!("recorder-{version}"));
        let folder = self.docker.folder().join(format!("recorder-{version}"));
        fs::create_dir_all(&folder).unwrap();
        strip(Path::new(RECORDER), &folder.join("recorder"));
        let dockerfile = format!(
            "FROM {}\nCOPY recorder /usr/local/bin/\nLABEL version={version}\n\
             ENV FLOW_LISTEN_PORT={PORT} FLOW_LOG_TO=stdout\n\
             ENTRYPOINT [\"/usr/local/bin/recorder\"]\nCMD []\n",
            self.image
        );
        fs::write(folder.join("Dockerfile"), dockerfile).unwrap();
        must(&["build", "-q", "-t", &name, &folder.display().to_string()]);
        self.swarm.load(&name);
        name
    }

    /// A folder that all containers may write to: the engines share the files of this machine.
    fn shared_folder(&self) -> PathBuf {
        let folder = self.docker.folder().join("shared");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        folder
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
    let Some(deployed) = Deployed::prepare(3) else {
        return;
    };
    let folder_of_runs = deployed.shared_folder();
    // Requests must not run twice, so each that is lost by an executor fails.
    let echo = |version| {
        format!(
            "{{name: echo, uses: 'docker://{}', replicas: 3, volumes: ['{}:/runs'], \
             uses_with: {{file: /runs/texts, prefixes: [text], pause_ms: 0}}}}",
            deployed.recorder_image(version),
            folder_of_runs.display()
        )
    };
    let (before, changed) = (echo(1), echo(2));
    let after = format!("{changed}, {{name: last, uses: echo, env: {{VERSION: two}}}}");
    // All engines have the folder with the runs, because they run on this machine.
    let anywhere = "echo=node.platform.os == linux";
    let options = ["--gateways", "3", "--place", anywhere];
    deployed.deploy(&deployed.image, &before, &options);
    deployed.swarm.settled();
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
        deployed.deploy(&image, &changed, &options);
        deployed.updated(&["flow_echo", "flow_gateway"]);
        std::thread::sleep(quiet);
        events.note("new flow file");
        deployed.deploy(&image, &after, &options);
        deployed.updated(&["flow_gateway"]);
        events.note("all tasks run again");
        std::thread::sleep(quiet);
    });
    events.finish(&folder, &outcomes);
    check_runs(&folder_of_runs.join("texts"), &outcomes);
}

/// Checks that the executors ran each request once, and a request that was sent again no more often than it was sent.
fn check_runs(file: &Path, outcomes: &[load::Outcome]) {
    let texts = fs::read_to_string(file).unwrap();
    let mut runs = BTreeMap::<&str, u32>::new();
    for text in texts.lines() {
        *runs.entry(text).or_default() += 1;
    }
    for (number, outcome) in outcomes.iter().enumerate() {
        let count = runs.remove(load::text(number).as_str()).unwrap_or_default();
        let attempts = outcome.attempts;
        assert!(
            (1..=attempts).contains(&count),
            "request {number} ran {count} times after {attempts} attempts: {outcome:?}"
        );
    }
    assert!(runs.is_empty(), "nobody sent {runs:?}");
}
