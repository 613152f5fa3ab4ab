//! `flow hub` against a real registry: a pushed image is found by its name, described, and pulled.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flow_tests::{Program, flow_command, post, texts};
use serde_json::{Value, json};

use crate::containers::{ContainerFlow, ECHO, Programs, refused_with};
use crate::docker::{DockerTest, must};
use crate::registry::{PASSWORD, Registry, USER};
use crate::tokens::IDENTITY;

/// An executor's folder whose Dockerfile needs nothing but a base.
fn folder(root: &Path) -> PathBuf {
    let folder = root.join("shout");
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "config.yml",
        "jtype: Shout\nmetas:\n  name: Shout\n  description: Upper-cases every text.\n  version: 0.3.0\n  \
         keywords: [text, loud]\n  url: https://example.com/shout\n",
    );
    write(
        "Dockerfile",
        "ARG BASE\nFROM ${BASE}\nLABEL dev.flow.devices=\"cpu\"\nCOPY config.yml /config.yml\n",
    );
    write(".dockerignore", "*\n!config.yml\n");
    folder
}

/// `flow hub` with this hub, as the user whose credentials are in this folder.
fn hub(registry: &Registry, config: &Path, arguments: &[&str]) -> (Option<i32>, Program) {
    let mut command = flow_command();
    command
        .env("FLOW_HUB", registry.hub())
        .env("DOCKER_CONFIG", config)
        .arg("hub")
        .args(arguments);
    Program::run(command)
}

#[track_caller]
fn must_hub(registry: &Registry, config: &Path, arguments: &[&str]) -> String {
    let (code, program) = hub(registry, config, arguments);
    assert_eq!(code, Some(0), "{}", program.said());
    program.stdout()
}

fn push<'a>(folder: &'a str, base: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let push = ["push", folder, "--build-arg", base];
    [&push, more].concat()
}

#[test]
fn a_pushed_image_is_listed_shown_and_pulled_by_its_name() {
    let Some((registry, docker)) = Registry::open().zip(DockerTest::start()) else {
        return;
    };
    let folder = folder(docker.folder()).display().to_string();
    let base = docker.base_argument();
    let image = |tag: &str| format!("{}/shout:{tag}", registry.hub());
    let nobody = Path::new("/nowhere");

    let said = must_hub(
        &registry,
        nobody,
        &push(&folder, &base, &["-t", "v1", "-t", "latest"]),
    );
    assert!(
        said.contains("use it in a flow: `uses: hub://shout:v1`"),
        "{said}"
    );

    let listed = must_hub(&registry, nobody, &["list"]);
    let row = listed.lines().nth(1).unwrap_or_default().split_whitespace();
    let row: Vec<&str> = row.collect();
    let expected = [
        "shout",
        "latest,",
        "v1",
        "0.3.0",
        "cpu",
        "Upper-cases",
        "every",
        "text.",
    ];
    assert_eq!(row, expected, "{listed}");
    assert_eq!(must_hub(&registry, nobody, &["list", "LOUD"]), listed);
    assert!(!must_hub(&registry, nobody, &["list", "quiet"]).contains("shout"));

    let info = must_hub(&registry, nobody, &["info", "Shout:v1", "--json"]);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["uses"], "hub://shout:v1");
    assert_eq!(info["image"], image("v1"));
    assert_eq!(info["tags"], json!(["latest", "v1"]));
    let labels = json!({
        "org.opencontainers.image.title": "Shout",
        "org.opencontainers.image.description": "Upper-cases every text.",
        "org.opencontainers.image.version": "0.3.0",
        "org.opencontainers.image.url": "https://example.com/shout",
        "dev.flow.executor": "shout",
        "dev.flow.wire": "1",
        "dev.flow.devices": "cpu",
        "dev.flow.keywords": "text,loud",
    });
    let mut found = info["labels"].clone();
    // Of the base.
    found.as_object_mut().unwrap().remove("dev.flow.test");
    assert_eq!(found, labels);
    let shown = must_hub(&registry, nobody, &["info", "Shout:v1"]);
    assert!(
        shown.contains("linux/amd64") && shown.contains("sha256:"),
        "{shown}"
    );

    must(&["rmi", &image("v1"), &image("latest")]);
    must_hub(&registry, nobody, &["pull", "jinahub+docker://Shout/v1"]);
    let label = "{{index .Config.Labels \"dev.flow.executor\"}}";
    assert_eq!(must(&["inspect", "-f", label, &image("v1")]), "shout");
}

#[test]
fn an_image_gets_another_name_in_the_hub_and_says_so() {
    let Some((registry, docker)) = Registry::open().zip(DockerTest::start()) else {
        return;
    };
    let nobody = Path::new("/nowhere");
    let name = ["--name", "TransformerTorchEncoder", "-t", "gpu"];
    let more = ["--description", "Encodes texts", "--devices", "cpu,cuda"];
    let image = format!("{}/transformer-torch-encoder:gpu", registry.hub());
    let push = [&["push", "--image", docker.base()], &name[..], &more].concat();
    must_hub(&registry, nobody, &push);
    let info = must_hub(
        &registry,
        nobody,
        &["info", "TransformerTorchEncoder:gpu", "--json"],
    );
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["image"], image);
    let label = |name: &str| info["labels"][name].clone();
    assert_eq!(
        label("org.opencontainers.image.title"),
        "TransformerTorchEncoder"
    );
    assert_eq!(label("dev.flow.devices"), "cpu,cuda");
}

#[test]
fn a_private_registry_requires_a_login() {
    let Some((registry, docker)) = Registry::locked().zip(DockerTest::start()) else {
        return;
    };
    let folder = folder(docker.folder()).display().to_string();
    let base = docker.base_argument();
    let image = format!("{}/shout:latest", registry.hub());
    let nobody = Path::new("/nowhere");
    let login = "`docker login`";
    let login_there = format!("docker login {}", registry.host);

    let (code, refused) = hub(&registry, nobody, &push(&folder, &base, &[]));
    assert_eq!(code, Some(1), "{}", refused.said());
    assert!(refused.stderr().contains(login), "{}", refused.said());
    for question in [&["list"][..], &["info", "shout"]] {
        let (code, refused) = hub(&registry, nobody, question);
        assert_eq!(code, Some(1), "{}", refused.said());
        assert!(
            refused.stderr().contains(&login_there),
            "{}",
            refused.said()
        );
    }

    let config = registry.login();
    must_hub(&registry, config, &push(&folder, &base, &[]));
    assert!(must_hub(&registry, config, &["list"]).contains("shout"));
    must(&["rmi", &image]);
    must_hub(&registry, config, &["pull", "shout"]);
}

/// A folder for PATH with a helper that knows the password, and Docker's config that names it.
fn helper(registry: &Registry) -> tempfile::TempDir {
    let helper = tempfile::tempdir().unwrap();
    let output = json!({"ServerURL": registry.host, "Username": USER, "Secret": PASSWORD});
    let script = helper.path().join("docker-credential-test");
    let text = format!("#!/bin/sh\ncat >/dev/null; echo '{output}'\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let config = json!({"credHelpers": {(registry.host.as_str()): "test"}});
    registry.config(&config.to_string());
    helper
}

/// PATH with this folder before the others.
fn path_with(folder: &Path) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    let joined = std::env::join_paths(all).unwrap();
    joined.into_string().unwrap()
}

#[test]
fn a_credential_helper_of_dockers_is_asked() {
    let Some(registry) = Registry::locked() else {
        return;
    };
    let helper = helper(&registry);
    let mut command = flow_command();
    command
        .args(["hub", "list"])
        .env("PATH", path_with(helper.path()))
        .env("FLOW_HUB", registry.hub())
        .env("DOCKER_CONFIG", registry.folder());
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
}

#[tokio::test]
async fn a_flow_pulls_its_executors_from_a_private_registry() {
    let Some((registry, programs)) = Registry::locked().zip(Programs::image()) else {
        return;
    };
    let image = format!("{}/shout:v1", registry.hub());
    let push = [
        "push",
        "--image",
        &programs.image,
        "--name",
        "shout",
        "-t",
        "v1",
    ];
    must_hub(&registry, registry.login(), &push);
    let by_image =
        format!("executors: [{{name: a, uses: 'docker://{image}', entrypoint: {ECHO}}}]");
    let by_name = format!(
        "with: {{hub: {}}}\nexecutors: [{{name: a, uses: 'hub://Shout:v1', entrypoint: {ECHO}}}]",
        registry.hub()
    );

    must(&["rmi", &image]);
    let output = refused_with(&by_image, |command| {
        command.env("DOCKER_CONFIG", "/nowhere");
    });
    assert!(output.contains("`docker login"), "{output}");

    let folder = registry.login().display().to_string();
    let login = [("DOCKER_CONFIG", folder.as_str())];
    let flow = ContainerFlow::up_in(&by_image, &login);
    assert_eq!(
        post(&flow, vec![texts("/x", &["one"])]).await[0].texts,
        ["one"]
    );
    drop(flow);

    must(&["rmi", "-f", &image]);
    let helper = helper(&registry);
    let path = path_with(helper.path());
    let asks = [("DOCKER_CONFIG", folder.as_str()), ("PATH", path.as_str())];
    let flow = ContainerFlow::up_in(&by_name, &asks);
    assert_eq!(
        post(&flow, vec![texts("/x", &["two"])]).await[0].texts,
        ["two"]
    );
}

#[test]
fn a_registry_gets_tokens_from_the_server_that_it_names() {
    let Some((registry, docker)) = Registry::by_tokens().zip(DockerTest::start()) else {
        return;
    };
    let folder = folder(docker.folder()).display().to_string();
    let base = docker.base_argument();
    let image = format!("{}/shout:latest", registry.hub());
    let nobody = Path::new("/nowhere");
    for question in [
        &["list"][..],
        &["info", "shout"],
        &push(&folder, &base, &[]),
    ] {
        let (code, refused) = hub(&registry, nobody, question);
        assert_eq!(code, Some(1), "{}", refused.said());
        let output = refused.stderr();
        assert!(output.contains("`docker login"), "{output}");
    }
    let tokens = registry.tokens.as_ref().unwrap();
    assert_eq!(tokens.asked(), [""; 0], "nobody gets a token");

    let config = registry.login();
    must_hub(&registry, config, &push(&folder, &base, &[]));
    assert!(must_hub(&registry, config, &["list"]).contains("shout"));
    let info = must_hub(&registry, config, &["info", "shout", "--json"]);
    assert!(info.contains("Upper-cases every text."), "{info}");
    must(&["rmi", &image]);
    must_hub(&registry, config, &["pull", "shout"]);
    let asked = tokens.asked();
    for scope in ["registry:catalog:*", "repository:team/shout:pull"] {
        assert!(asked.iter().any(|it| it == scope), "{asked:?}");
    }
    let is_push = |it: &String| it.starts_with("repository:team/shout:") && it.contains("push");
    assert!(asked.iter().any(is_push), "{asked:?}");

    // A login that was given a token keeps that, and no password.
    let auths = json!({"auths": {(registry.host.as_str()): {"identitytoken": IDENTITY}}});
    let config = registry.config(&auths.to_string());
    assert!(must_hub(&registry, config, &["list"]).contains("shout"));
}

/// A certificate where the engine looks for it; gone when the test is.
struct Trusted(PathBuf);

impl Trusted {
    /// `None` if this process is not root, which may put it there.
    fn by_engine(registry: &Registry) -> Option<Self> {
        let folder = Path::new("/etc/docker/certs.d").join(&registry.host);
        if fs::create_dir_all(&folder).is_err() {
            flow_tests::skipped("only root may tell the engine whom to trust");
            return None;
        }
        fs::copy(registry.authority(), folder.join("ca.crt")).unwrap();
        Some(Self(folder))
    }
}

impl Drop for Trusted {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn a_registry_is_trusted_if_docker_has_the_certificate_of_its_authority() {
    let Some((registry, docker)) = Registry::private().zip(DockerTest::start()) else {
        return;
    };
    let nobody = Path::new("/nowhere");
    let (code, refused) = hub(&registry, nobody, &["list"]);
    assert_eq!(code, Some(1), "{}", refused.said());
    let output = refused.stderr();
    assert!(
        output.contains("certificate") && output.contains("certs.d"),
        "{output}"
    );

    let mut by_variable = flow_command();
    by_variable
        .args(["hub", "list"])
        .env("FLOW_HUB", registry.hub())
        .env("DOCKER_CONFIG", nobody)
        .env("SSL_CERT_FILE", registry.authority());
    let (code, listed) = Program::run(by_variable);
    assert_eq!(code, Some(0), "{}", listed.said());

    let of_user = tempfile::tempdir().unwrap();
    let folder_of = of_user.path().join("certs.d").join(&registry.host);
    fs::create_dir_all(&folder_of).unwrap();
    fs::copy(registry.authority(), folder_of.join("ca.crt")).unwrap();
    must_hub(&registry, of_user.path(), &["list"]);

    let Some(_trusted) = Trusted::by_engine(&registry) else {
        return;
    };
    let folder = folder(docker.folder()).display().to_string();
    let base = docker.base_argument();
    let image = format!("{}/shout:latest", registry.hub());
    must_hub(&registry, nobody, &push(&folder, &base, &[]));
    assert!(must_hub(&registry, nobody, &["list"]).contains("shout"));
    must(&["rmi", &image]);
    must_hub(&registry, nobody, &["pull", "shout"]);
}

#[test]
fn a_missing_setting_is_reported_with_the_remedy() {
    let check = |arguments: &[&str], hub: Option<&str>, code: i32, part: &str| {
        let mut command = flow_command();
        command
            .env_remove("FLOW_HUB")
            .env("DOCKER_CONFIG", "/nowhere");
        command.arg("hub").args(arguments);
        if let Some(hub) = hub {
            command.env("FLOW_HUB", hub);
        }
        let (ended, program) = Program::run(command);
        assert_eq!(ended, Some(code), "{}", program.said());
        assert!(program.stderr().contains(part), "{}", program.said());
    };
    check(&["list"], None, 2, "set FLOW_HUB");
    check(
        &["list"],
        Some("https://r.example.com"),
        2,
        "without `https://`",
    );
    check(
        &["info", "a b"],
        Some("localhost:1"),
        2,
        "is not a valid name of an executor",
    );
    check(
        &["list"],
        Some("localhost:1"),
        1,
        "no registry answers at `localhost:1`",
    );
    let empty = tempfile::tempdir().unwrap();
    let folder = empty.path().display().to_string();
    check(
        &["push", &folder],
        Some("localhost:1"),
        2,
        "has no `Dockerfile`",
    );
}

#[test]
fn an_executor_that_the_hub_does_not_have_is_reported() {
    let Some(registry) = Registry::open() else {
        return;
    };
    let (code, program) = hub(&registry, Path::new("/nowhere"), &["info", "Nobody"]);
    assert_eq!(code, Some(1), "{}", program.said());
    assert!(
        program.stderr().contains("has no repository `team/nobody`"),
        "{}",
        program.said()
    );
}
