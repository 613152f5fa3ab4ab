//! The second half of Jina's tutorial, in its order and on the CPU: an executor is scaffolded, becomes an image, runs
//! alone, runs from a flow with a cache that outlives it and with replicas, and is shared by name.

use std::fs;
use std::path::{Path, PathBuf};

use flow_tests::{Program, eventually, flow_command};

use crate::containers::{ContainerFlow, containers_of};
use crate::docker::{Container, DockerTest, must};
use crate::images;
use crate::model_hub::ModelHub;
use crate::registry::Registry;
use crate::scaffold;

/// Documents that are under way when a container is killed.
const DOCUMENTS: usize = 1000;

#[track_caller]
fn run(mut command: std::process::Command, arguments: &[&str]) -> String {
    command.args(arguments);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    program.stdout()
}

/// Posts one text, and gives what is shown of the reply.
#[track_caller]
fn post(url: &str, on: &str, text: &str) -> String {
    run(flow_command(), &["post", url, "--on", on, "--text", text])
}

/// `flow new executor`, its tests left to others, and `docker build`: the package's folder, and the image.
fn scaffold(docker: &DockerTest) -> (PathBuf, String) {
    let package = scaffold::written(docker.folder(), "TutorialGreeter");
    scaffold::built(&package, "tutorial-greeter");
    let (image, base) = (docker.name("greeter"), docker.base_argument());
    let context = package.display().to_string();
    must(&["build", "-q", "--build-arg", &base, "-t", &image, &context]);
    (package, image)
}

fn runs_alone(greeter: &str) {
    let container = Container::run(&["--read-only"], greeter, &["--uses-with", "greeting:hi"]);
    let reply = post(&container.ready(), "/greet", "world");
    assert!(reply.contains("hi, world"), "{reply}");
    container.stop();
}

fn runs_in_a_flow(greeter: &str) {
    let uses = format!("uses: docker://{greeter}, uses_with: {{greeting: good morning}}");
    let flow = ContainerFlow::up(&format!("executors: [{{name: tutorial-greeter, {uses}}}]"));
    let reply = post(&flow.url(), "/greet", "world");
    assert!(reply.contains("good morning, world"), "{reply}");
}

/// A hub of models that containers reach.
pub(crate) fn model_hub(folder: &Path) -> ModelHub {
    let model = folder.join("model");
    images::copy_model(&model);
    ModelHub::start(&model)
}

/// An encoder's image, a volume of the engine that its models stay in, and where they come from.
struct Encoder {
    image: String,
    cache: String,
    hub: ModelHub,
}

impl Encoder {
    /// A flow of it.
    fn flow(&self, more: &str) -> String {
        self.flow_of(&format!("docker://{}", self.image), more)
    }

    fn flow_of(&self, uses: &str, more: &str) -> String {
        let (cache, hub) = (&self.cache, self.hub.url());
        format!(
            "executors: [{{name: tutorial-encoder, uses: {uses}, \
             volumes: {{type: volume, source: {cache}, target: /cache}}, \
             env: {{HF_ENDPOINT: '{hub}'}}, timeout_ready: 120000, idempotent: true{more}}}]"
        )
    }
}

fn keeps_its_models_in_a_volume(encoder: &Encoder) {
    let yaml = encoder.flow("");
    let first = ContainerFlow::up(&yaml);
    images::encodes(&first.url());
    drop(first);
    let asked = encoder.hub.asked();
    assert!(asked > 0, "the first start fetches the model");

    let second = ContainerFlow::up(&yaml);
    images::encodes(&second.url());
    let again = encoder.hub.asked();
    assert_eq!(again, asked, "the second start finds it in the cache");
}

fn loses_nothing_when_a_container_is_killed(folder: &Path, encoder: &Encoder) {
    let flow = ContainerFlow::up(&encoder.flow(", replicas: 2"));
    flow.expect("tutorial-encoder");
    let running = || {
        let up = must(&["ps", "-q"]);
        let mut all = containers_of(flow.program().pid());
        all.retain(|id| up.contains(id.as_str()));
        all
    };
    let both = running();
    assert_eq!(both.len(), 2, "{both:?}");

    let texts: String = (0..DOCUMENTS)
        .map(|number| format!("sentence {number}\n"))
        .collect();
    fs::write(folder.join("texts"), texts).unwrap();
    let out = folder.join("vectors.jsonl");
    let mut command = flow_command();
    command.args([
        "post",
        &flow.url(),
        "--on",
        "/encode",
        "--lines",
        "--request-size",
        "4",
    ]);
    command
        .arg("--input")
        .arg(folder.join("texts"))
        .arg("--output")
        .arg(&out);
    let mut posting = Program::start(command);
    let written = || fs::read_to_string(&out).map_or(0, |text| text.lines().count());
    eventually("replies come", || written() > 0);
    must(&["kill", &both[0]]);
    assert!(posting.end().success(), "{}", posting.said());
    assert_eq!(written(), DOCUMENTS);
    eventually("there are two containers again", || {
        let now = running();
        now.len() == 2 && !now.contains(&both[0])
    });
}

/// `flow hub push`, and a flow that names what it pushed.
fn is_shared_by_name(docker: &DockerTest, package: &Path, registry: &Registry) {
    let base = docker.base_argument();
    let mut push = flow_command();
    scaffold::cargo_s(&mut push).env("FLOW_HUB", registry.hub());
    let package = package.display().to_string();
    run(
        push,
        &["hub", "push", &package, "-t", "v1", "--build-arg", &base],
    );
    must(&[
        "rmi",
        "-f",
        &format!("{}/tutorial-greeter:v1", registry.hub()),
    ]);

    let uses = "uses: 'jinaai+docker://TutorialGreeter:v1'";
    let with = format!("with: {{hub: '{}'}}", registry.hub());
    let flow = ContainerFlow::up(&format!(
        "{with}\nexecutors: [{{name: tutorial-greeter, {uses}}}]"
    ));
    let reply = post(&flow.url(), "/greet", "world");
    assert!(reply.contains("hello, world"), "{reply}");
}

/// The tutorial's last executor, under its own name and with its own parameters.
fn runs_transformer_torch_encoder(registry: &Registry, encoder: &Encoder) {
    let mut push = flow_command();
    push.env("FLOW_HUB", registry.hub());
    let name = ["--name", "TransformerTorchEncoder", "-t", "gpu"];
    run(
        push,
        &[&["hub", "push", "--image", &encoder.image], &name[..]].concat(),
    );

    let with = "pretrained_model_name_or_path: sentence-transformers/all-MiniLM-L6-v2, \
        pooling_strategy: mean, layer_index: -1, max_length: 128, device: cpu, \
        embedding_fn_name: __call__, traversal_paths: '@r', batch_size: 32";
    let image = "'jinahub+docker://TransformerTorchEncoder/gpu'";
    let yaml = encoder.flow_of(image, &format!(", uses_with: {{{with}}}"));
    let flow = ContainerFlow::up(&format!("with: {{hub: '{}'}}\n{yaml}", registry.hub()));
    images::encodes(&flow.url());
}

#[test]
fn the_tutorials_containers_from_the_scaffold_to_the_hub() {
    let Some((registry, docker)) = Registry::open().zip(DockerTest::start()) else {
        return;
    };
    let (package, greeter) = scaffold(&docker);
    runs_alone(&greeter);
    runs_in_a_flow(&greeter);

    let encoder = Encoder {
        image: docker.target("executor-cpu", &[]),
        cache: docker.volume("cache"),
        hub: model_hub(docker.folder()),
    };
    keeps_its_models_in_a_volume(&encoder);
    loses_nothing_when_a_container_is_killed(docker.folder(), &encoder);

    is_shared_by_name(&docker, &package, &registry);
    runs_transformer_torch_encoder(&registry, &encoder);
}
