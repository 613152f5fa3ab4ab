//! The second half of Jina's tutorial, in its order and on the CPU: an executor is scaffolded, becomes an image, runs
//! alone, runs from a flow with a cache that outlives it and with replicas, and is shared by name.

use std::fs;
use std::path::{Path, PathBuf};

use flow_tests::{Program, eventually, flow_command};

use crate::containers::{Boxed, containers_of};
use crate::docker::{self, Container, must};
use crate::images;
use crate::model_hub::ModelHub;
use crate::registry::Registry;
use crate::scaffold;

/// The image of the scaffolded executor, and that of the encoder.
const GREETER: &str = "flow-test-tutorial-greeter";
const ENCODER: &str = "flow-test-tutorial-encoder";

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

/// `flow new executor`, its tests left to others, and `docker build`.
fn scaffold(folder: &Path) -> PathBuf {
    let package = scaffold::written(folder, "TutorialGreeter");
    scaffold::built(&package, "tutorial-greeter");
    docker::make_base(&folder.join("base"));
    let base = format!("BASE={}", docker::BASE);
    let context = package.display().to_string();
    must(&["build", "-q", "--build-arg", &base, "-t", GREETER, &context]);
    package
}

fn runs_alone() {
    let container = Container::run(&["--read-only"], GREETER, &["--uses-with", "greeting:hi"]);
    let reply = post(&container.ready(), "/greet", "world");
    assert!(reply.contains("hi, world"), "{reply}");
    container.stop();
}

fn runs_in_a_flow() {
    let uses = format!("uses: docker://{GREETER}, uses_with: {{greeting: good morning}}");
    let flow = Boxed::up(&format!("executors: [{{name: tutorial-greeter, {uses}}}]"));
    let reply = post(&flow.url(), "/greet", "world");
    assert!(reply.contains("good morning, world"), "{reply}");
}

/// A hub of models that containers reach.
fn model_hub(folder: &Path) -> ModelHub {
    let model = folder.join("model");
    images::copy_model(&model);
    ModelHub::start(&model)
}

/// An encoder in a container, whose models stay in `cache`.
fn encoder(image: &str, cache: &Path, hub: &ModelHub, more: &str) -> String {
    let (cache, hub) = (cache.display(), hub.url());
    format!(
        "executors: [{{name: tutorial-encoder, uses: {image}, volumes: '{cache}:/cache', \
         env: {{HF_ENDPOINT: '{hub}'}}, timeout_ready: 120000, idempotent: true{more}}}]"
    )
}

fn keeps_its_models_in_a_volume(cache: &Path, hub: &ModelHub) {
    let yaml = encoder(&format!("docker://{ENCODER}"), cache, hub, "");
    let first = Boxed::up(&yaml);
    images::encodes(&first.url());
    drop(first);
    let asked = hub.asked();
    assert!(asked > 0, "the first start fetches the model");

    let second = Boxed::up(&yaml);
    images::encodes(&second.url());
    assert_eq!(hub.asked(), asked, "the second start finds it in the cache");
}

fn loses_nothing_when_a_container_is_killed(folder: &Path, cache: &Path, hub: &ModelHub) {
    let yaml = encoder(&format!("docker://{ENCODER}"), cache, hub, ", replicas: 2");
    let flow = Boxed::up(&yaml);
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
fn is_shared_by_name(package: &Path, registry: &Registry) {
    let base = format!("BASE={}", docker::BASE);
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
    let flow = Boxed::up(&format!(
        "{with}\nexecutors: [{{name: tutorial-greeter, {uses}}}]"
    ));
    let reply = post(&flow.url(), "/greet", "world");
    assert!(reply.contains("hello, world"), "{reply}");
}

/// The tutorial's last executor, under its own name and with its own parameters.
fn runs_transformer_torch_encoder(registry: &Registry, cache: &Path, hub: &ModelHub) {
    let mut push = flow_command();
    push.env("FLOW_HUB", registry.hub());
    let name = ["--name", "TransformerTorchEncoder", "-t", "gpu"];
    run(
        push,
        &[&["hub", "push", "--image", ENCODER], &name[..]].concat(),
    );

    let with = "pretrained_model_name_or_path: sentence-transformers/all-MiniLM-L6-v2, \
        pooling_strategy: mean, layer_index: -1, max_length: 128, device: cpu, \
        embedding_fn_name: __call__, traversal_paths: '@r', batch_size: 32";
    let image = "'jinahub+docker://TransformerTorchEncoder/gpu'";
    let yaml = encoder(image, cache, hub, &format!(", uses_with: {{{with}}}"));
    let flow = Boxed::up(&format!("with: {{hub: '{}'}}\n{yaml}", registry.hub()));
    images::encodes(&flow.url());
}

#[test]
fn the_tutorials_containers_from_the_scaffold_to_the_hub() {
    let Some(registry) = Registry::open() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let package = scaffold(folder.path());
    runs_alone();
    runs_in_a_flow();

    docker::build_target(folder.path(), "executor-cpu", ENCODER, &[]);
    let hub = model_hub(folder.path());
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    images::open_to_all(&cache);
    keeps_its_models_in_a_volume(&cache, &hub);
    loses_nothing_when_a_container_is_killed(folder.path(), &cache, &hub);

    is_shared_by_name(&package, &registry);
    runs_transformer_torch_encoder(&registry, &cache, &hub);
}
