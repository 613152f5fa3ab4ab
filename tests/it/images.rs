//! The images that `docker/Dockerfile` makes: their user, their labels, their size, and
//! that an executor's image serves alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{Program, flow_command, measured};
use serde_json::{Value, json};

use crate::docker::{Container, DockerTest, must};

/// What an image may weigh on top of its base, without a model: a program and a few folders. The program of the tests is compiled
/// without optimization, and is about three times as large as that of a release.
const BYTES_MAX: u64 = 90_000_000;

/// What the engine knows of an image.
fn inspect(image: &str) -> Value {
    let text = must(&["inspect", image]);
    serde_json::from_str::<Value>(&text).unwrap()[0].take()
}

fn size(image: &str) -> u64 {
    inspect(image)["Size"].as_u64().unwrap()
}

/// Checks what is true of every image of ours.
#[track_caller]
fn is_ours(image: &str, labels: &Value) {
    let config = inspect(image)["Config"].take();
    assert_eq!(config["User"], "65532:65532", "{image}");
    let health = json!(["CMD", "/usr/local/bin/flow", "ping"]);
    assert_eq!(config["Healthcheck"]["Test"], health, "{image}");
    let version = &config["Labels"]["org.opencontainers.image.version"];
    assert_eq!(*version, env!("CARGO_PKG_VERSION"), "{image}");
    for (name, value) in labels.as_object().unwrap() {
        assert_eq!(config["Labels"][name], *value, "{image}: {name}");
    }
    let variables = config["Env"].to_string();
    assert!(
        variables.contains("HF_HOME=/cache/huggingface"),
        "{variables}"
    );
}

/// The folder of the default model, fetched on first use as any user's would be.
pub(crate) fn model() -> PathBuf {
    let mut command = flow_command();
    command.args(["model", "pull"]);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    program.stdout().trim().into()
}

/// A copy of it that every user of an image can read.
pub(crate) fn copy_model(to: &Path) {
    fs::create_dir_all(to).unwrap();
    let files = Command::new("cp")
        .arg("-rL")
        .arg(format!("{}/.", model().display()))
        .arg(to)
        .status();
    assert!(files.unwrap().success());
    let open = Command::new("chmod").args(["-R", "a+rX"]).arg(to).status();
    assert!(open.unwrap().success());
}

/// A text's vector.
#[track_caller]
pub(crate) fn encodes(url: &str) {
    let mut post = flow_command();
    post.args(["post", url, "--on", "/encode", "--text", "hello world"]);
    let (code, program) = Program::run(post);
    assert_eq!(code, Some(0), "{}", program.said());
    let said = program.stdout();
    assert!(said.contains("384 numbers: -0.0344"), "{said}");
}

#[test]
fn images_say_what_they_are_run_without_root_and_are_small() {
    let Some(docker) = DockerTest::start() else {
        return;
    };
    let gateway = docker.target("gateway", &[]);
    let encoder = docker.target("executor-cpu", &[]);
    let cuda = docker.target("executor-cuda", &[]);

    is_ours(&gateway, &json!({"org.opencontainers.image.title": "flow"}));
    let about = |devices: &str| {
        json!({
            "dev.flow.wire": "1",
            "dev.flow.executor": "sentence-encoder",
            "dev.flow.devices": devices,
            "dev.flow.keywords": "embeddings,text,sentence-transformers",
            "org.opencontainers.image.title": "sentence-encoder",
            "org.opencontainers.image.description":
                "Turns texts into vectors with a sentence-transformers model",
        })
    };
    is_ours(&encoder, &about("cpu"));
    is_ours(&cuda, &about("cpu,cuda"));
    let variables = inspect(&cuda)["Config"]["Env"].to_string();
    assert!(
        variables.contains("NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
        "{variables}"
    );

    let base = size(docker.base());
    for image in [gateway, encoder, cuda] {
        let bytes = size(&image) - base;
        measured(&format!(
            "{image}: {bytes} bytes on top of a base of {base}"
        ));
        assert!(bytes <= BYTES_MAX, "{image} has {bytes} bytes");
    }
}

#[test]
fn an_image_has_its_licence_and_the_notices_of_a_release() {
    let Some(docker) = DockerTest::start() else {
        return;
    };
    // The base has no program that shows a file.
    let copy = docker.context().join("copy");
    let notice = |image: &str, name: &str| {
        let container = must(&["create", image]);
        let from = format!("{}:/usr/share/doc/flow/{name}", container.trim());
        must(&["cp", &from, copy.to_str().unwrap()]);
        must(&["rm", container.trim()]);
        fs::read_to_string(&copy).unwrap()
    };
    let image = docker.target("gateway", &[]);
    assert!(notice(&image, "LICENSE").contains("Apache License"));

    let notices = docker.context().join("notices");
    fs::create_dir_all(&notices).unwrap();
    for name in ["LICENSE", "THIRD-PARTY-LICENSES.txt", "flow.cdx.json"] {
        fs::write(notices.join(name), name).unwrap();
    }
    let image = docker.target("gateway", &["NOTICES=notices"]);
    for name in ["LICENSE", "THIRD-PARTY-LICENSES.txt", "flow.cdx.json"] {
        assert_eq!(notice(&image, name), name);
    }
}

#[test]
fn an_executors_image_is_the_executor() {
    let Some(docker) = DockerTest::start() else {
        return;
    };
    let image = docker.target("executor-cpu", &["EXECUTOR=echo"]);
    let help = must(&["run", "--rm", &image, "--help"]);
    assert!(
        help.contains("--uses-with") && help.contains("FLOW_USES=echo"),
        "{help}"
    );

    let container = Container::run(&["--read-only"], &image, &["--name", "alone"]);
    let url = container.ready();
    let mut post = flow_command();
    post.args(["post", &url, "--on", "/any", "--text", "hello"]);
    let (code, posted) = Program::run(post);
    assert_eq!(code, Some(0), "{}", posted.said());

    container.healthy();
    container.stop();
}

#[test]
fn an_image_with_a_model_serves_without_any_network_and_logs_to_stdout() {
    let Some(docker) = DockerTest::start() else {
        return;
    };
    copy_model(&docker.context().join("model"));
    let image = docker.target("executor-with-model", &[]);
    let model = size(&image) - size(docker.base());
    measured(&format!("{image}: {model} bytes on top of its base"));

    let offline = ["--read-only", "-e", "HF_HUB_OFFLINE=1"];
    let container = Container::run(&offline, &image, &[]);
    encodes(&container.ready());
    let logs = Command::new("docker").args(["logs", &container.0]).output();
    let logs = logs.unwrap();
    let text = String::from_utf8_lossy(&logs.stdout);
    assert!(text.contains("model loaded"), "{text}");
    assert!(text.contains("ready and listening on [::]:54321"), "{text}");
    assert_eq!(String::from_utf8_lossy(&logs.stderr), "");
    container.stop();

    // As the exports of `flow export` start it, which name the program and not the image's entrypoint.
    let entrypoint = [&offline[..], &["--entrypoint", "/usr/local/bin/flow"]].concat();
    let line = "executor --uses sentence-encoder --uses-with {\"device\":\"cpu\"} --port 54321";
    let arguments: Vec<&str> = line.split(' ').collect();
    let container = Container::run(&entrypoint, &image, &arguments);
    encodes(&container.ready());
}
