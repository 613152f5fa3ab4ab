//! The tutorial in a Swarm: texts become vectors through two gateways and four encoders on three engines, while one engine is
//! killed and another is disconnected.
//!
//! Before anything fails, the same requests go through the stack and through flows of one gateway on this machine, whose executors
//! have the same number of replicas and threads. Requests one at a time use one gateway of the stack. So their times differ by what
//! containers and the network between them cost.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_net::Client;
use flow_tests::{Program, TUTORIAL_SENTENCE, TestFlow, flow_command, said, skipped, texts};

use super::load::Question;
use super::{Deployed, PORT, TWO_GATEWAYS, while_engines_fail, wished};
use crate::images;

/// Documents of the tutorial, of which each of two clients sends half.
const DOCUMENTS: usize = 10_000;

/// Requests of one document, one after another.
const ALONE: usize = 1_000;

/// How often everything is measured, in turn.
const ROUNDS: usize = 3;

/// Replicas of the encoder.
const REPLICAS: usize = 4;

/// Numbers in a vector.
const NUMBERS: usize = 384;

/// Where requests enter a flow: two addresses, which may be the same.
struct Entrance {
    name: &'static str,
    urls: [String; 2],
}

/// What was measured of an entrance in one round.
struct Figures {
    documents_per_s: f64,
    /// Times of requests of one document, in ms, in ascending order.
    alone_ms: Vec<f64>,
}

impl Entrance {
    fn new(name: &'static str, url: &str) -> Self {
        Self {
            name,
            urls: [url.to_owned(), url.to_owned()],
        }
    }

    fn measure(&self, folder: &Path) -> Figures {
        Figures {
            documents_per_s: self.documents_per_s(folder),
            alone_ms: self.alone_ms(),
        }
    }

    /// Two clients at once, from their start to the end of the second.
    fn documents_per_s(&self, folder: &Path) -> f64 {
        let input = folder.join("tutorial");
        fs::write(
            &input,
            format!("{TUTORIAL_SENTENCE}\n").repeat(DOCUMENTS / 2),
        )
        .unwrap();
        let outputs = [0, 1].map(|number| folder.join(format!("vectors-{number}.jsonl")));
        let begun = Instant::now();
        let posts = self.urls.iter().zip(&outputs).map(|(url, output)| {
            let mut post = flow_command();
            post.args(["post", url, "--on", "/encode", "--lines"]);
            post.args(["--request-size", "32", "--input"]).arg(&input);
            post.arg("--output").arg(output);
            Program::start(post)
        });
        for mut post in posts.collect::<Vec<_>>() {
            assert!(post.end().success(), "{}", post.said());
        }
        let took = begun.elapsed();
        for output in &outputs {
            let vectors = fs::read_to_string(output).unwrap().lines().count();
            assert_eq!(vectors, DOCUMENTS / 2, "{}", self.name);
        }
        f64::from(u32::try_from(DOCUMENTS).unwrap()) / took.as_secs_f64()
    }

    #[tokio::main(flavor = "current_thread")]
    async fn alone_ms(&self) -> Vec<f64> {
        let client = Client::connect(&self.urls[0]).await.unwrap();
        let request = texts("/encode", &[TUTORIAL_SENTENCE]);
        let mut times = Vec::with_capacity(ALONE);
        for _ in 0..ALONE {
            let begun = Instant::now();
            let deadline = Deadline::after(begun, Some(Duration::from_secs(10)));
            let reply = client.single(request.clone(), deadline).await.unwrap();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            assert_eq!(said(&reply).failure, None);
        }
        times.sort_by(f64::total_cmp);
        times
    }
}

/// Executors that listen on TCP, as containers do, but on this machine.
struct TcpExecutors(Vec<Program>);

impl TcpExecutors {
    fn start(model: &Path) -> Self {
        let executor = |_| {
            let mut command = flow_command();
            command.args(["executor", "--uses", "sentence-encoder", "--log", "json"]);
            command.args(["--uses-with", "threads:1", "--uses-with"]);
            command.arg(format!("model:{}", model.display()));
            Program::start(command)
        };
        Self((0..REPLICAS).map(executor).collect())
    }

    fn flow(&self) -> TestFlow {
        let ports: Vec<u16> = self.0.iter().map(|it| it.address().port()).collect();
        TestFlow::up(&format!(
            "executors: [{{name: encoder, external: true, idempotent: true, host: 127.0.0.1, port: {ports:?}}}]"
        ))
    }
}

/// Exports and starts the stack, in which an image holds the model.
fn deploy(deployed: &Deployed) {
    images::copy_model(&deployed.docker.context().join("model"));
    let image = deployed.docker.target("executor-with-model", &[]);
    deployed.swarm.load(&image);
    let executors = format!(
        "{{name: encoder, uses: sentence-encoder, replicas: {REPLICAS}, idempotent: true, \
         uses_with: {{model: /model, threads: 1}}}}"
    );
    let image = format!("encoder={image}");
    let options = [&TWO_GATEWAYS[..], &["--image", &image]].concat();
    deployed.deploy(&deployed.image, &executors, &options);
    deployed.swarm.settled();
}

/// Measures all entrances in turn; gives a line for each round and entrance.
fn measure_all(entrances: &[Entrance], folder: &Path) -> String {
    let mut lines =
        "round,entrance,documents_per_s,alone_p50_ms,alone_p90_ms,alone_p99_ms\n".to_owned();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for entrance in entrances {
            let it = entrance.measure(folder);
            if round > 0 {
                let [p50, p90, p99] = [50, 90, 99].map(|part| it.alone_ms[ALONE * part / 100]);
                let (name, speed) = (entrance.name, it.documents_per_s);
                writeln!(
                    lines,
                    "{round},{name},{speed:.1},{p50:.3},{p90:.3},{p99:.3}"
                )
                .unwrap();
            }
        }
    }
    lines
}

#[test]
fn the_tutorial_loses_nothing_though_an_engine_dies_and_one_is_cut_off() {
    let Some((seconds, folder)) = wished() else {
        skipped(
            "three engines of Docker take minutes; `cargo xtask swarm tutorial` runs this test",
        );
        return;
    };
    let Some(mut deployed) = Deployed::prepare(3) else {
        return;
    };
    deploy(&deployed);
    let model = images::model();
    let executors = TcpExecutors::start(&model);
    let (tcp, sockets) = (
        executors.flow(),
        TestFlow::up(&format!(
            "executors: [{{name: encoder, uses: sentence-encoder, replicas: {REPLICAS}, idempotent: true, \
         uses_with: {{model: '{}', threads: 1}}}}]",
            model.display()
        )),
    );
    let gateway =
        |engine: usize| format!("grpc://{}:{PORT}", deployed.swarm.engines[engine].address);
    let entrances = [
        Entrance::new("one machine over Unix sockets", &sockets.url()),
        Entrance::new("one machine over TCP", &tcp.url()),
        Entrance {
            name: "Swarm",
            urls: [gateway(1), gateway(2)],
        },
    ];
    let figures = measure_all(&entrances, deployed.docker.folder());
    fs::write(folder.join("figures.csv"), figures).unwrap();
    drop((sockets, tcp, executors));

    let length = Duration::from_secs(seconds.into());
    let (events, outcomes) = while_engines_fail(&mut deployed, Question::Vector(NUMBERS), length);
    events.finish(&folder, &outcomes);
}
