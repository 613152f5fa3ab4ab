use flow_spec::{Plan, Run, Telemetry, TextFile, Variables, load};

use super::*;
use crate::spec::invocation::{Invocation, Programs, SharedOptions};
use crate::supervisor::backoff::RestartPolicy;

/// The start of the only executor, which has these options.
fn invocation(options: &str) -> Invocation {
    let text = format!("jtype: Flow\nexecutors: [{{name: a, uses: 'docker://x:1', {options}}}]");
    let file = TextFile {
        path: Path::new("flow.yml"),
        text: &text,
    };
    let plan = Plan::from(load(file, &Variables::default()).unwrap().flow);
    let Run::Local(run) = &plan.nodes[0].run else {
        panic!("it is not external")
    };
    let shared = SharedOptions {
        programs: Programs {
            flow: "/bin/flow".into(),
            built_in: Vec::new(),
        },
        grace: std::time::Duration::from_secs(10),
        log: flow_spec::LogStyle::Text,
        restart_policy: RestartPolicy::default(),
        flow: None,
        state_directory: None,
    };
    Invocation::executor(&shared, run)
}

fn config(options: &str, kind: ImageKind) -> ContainerConfig {
    let ports = Ports {
        serving: 7,
        metrics: None,
    };
    config_at(&invocation(options), kind, ports)
}

fn config_at(it: &Invocation, kind: ImageKind, ports: Ports) -> ContainerConfig {
    let at = StartArguments {
        name: "a/rep-0",
        ports,
        user: None,
    };
    let container = it.container.as_ref().unwrap();
    container.config(kind, &it.arguments, &it.env, at)
}

fn mounts(config: &ContainerConfig) -> Vec<String> {
    let mode = |mount: &Mount| if mount.read_only { ", read-only" } else { "" };
    let mounts = config.mounts.iter();
    let shown = mounts.map(|it| format!("{} → {}{}", it.source, it.target, mode(it)));
    shown.collect()
}

fn image(labels: &[(&str, &str)], entrypoint: &[&str]) -> ImageInfo {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ImageInfo {
        labels: labels.iter().map(owned).collect(),
        entrypoint: entrypoint.iter().map(|it| (*it).to_owned()).collect(),
        ..ImageInfo::default()
    }
}

#[test]
fn an_image_of_flow_gets_the_arguments_of_a_process_except_for_the_address() {
    let found = config(
        "uses_with: {device: cpu}, workers: 2, workspace: /w",
        ImageKind::Flow,
    );
    assert_eq!(
        found.arguments.reveal().join(" "),
        "--host 0.0.0.0 --workspace /workspace --grace 10000ms --log text --uses-with \
         {\"device\":\"cpu\"} --workers 2 --port 54321 --name a/rep-0 --to-launcher"
    );
    assert_eq!(mounts(&found), ["/w → /workspace"]);
    let published = Network::Published {
        ip: Ipv4Addr::LOCALHOST.into(),
        ports: vec![PublishedPort {
            port: 7,
            container_port: 54321,
        }],
    };
    assert_eq!(found.network, published);
}

#[test]
fn a_monitored_container_publishes_a_second_port() {
    let ports = Ports {
        serving: 7,
        metrics: Some(8),
    };
    let monitored = |kind, options| {
        let mut it = invocation(options);
        it.observe(true, &Telemetry::default(), "a/rep-0");
        let found = config_at(&it, kind, ports);
        (found.arguments.reveal().join(" "), found.network)
    };
    let (line, network) = monitored(ImageKind::Flow, "");
    let found = "--monitoring --runtime-name a/rep-0 --port 54321 --name a/rep-0 --to-launcher \
        --port-monitoring 54322";
    assert!(line.ends_with(found), "{line}");
    let published = [(7, 54321), (8, 54322)];
    let published = published.map(|(port, container_port)| PublishedPort {
        port,
        container_port,
    });
    let expected = Network::Published {
        ip: Ipv4Addr::LOCALHOST.into(),
        ports: published.to_vec(),
    };
    assert_eq!(network, expected);
    let (line, _) = monitored(ImageKind::Jina, "");
    let found = "--port 54321 --monitoring --port-monitoring 54322";
    assert!(line.contains(found), "{line}");
    let (line, network) = monitored(ImageKind::Flow, "force_network_mode: HOST");
    assert!(line.ends_with("--port-monitoring 8"), "{line}");
    assert_eq!(network, Network::Host);
}

#[test]
fn an_image_of_jina_gets_jinas_arguments() {
    let found = config(
        "uses_with: {a: 1}, exit_on_exceptions: [A, B], workspace: /w, env: {X: y}",
        ImageKind::Jina,
    );
    assert_eq!(
        found.arguments.reveal().join(" "),
        "--native --name a/rep-0 --host 0.0.0.0 --port 54321 --workspace /workspace --uses-with \
         {\"a\":1} --exit-on-exceptions A B"
    );
    assert!(
        found
            .env
            .reveal()
            .contains(&"JINA_OPTOUT_TELEMETRY=1".to_owned())
    );
    assert_eq!(found.env.reveal().last().unwrap(), "X=y");
}

#[test]
fn on_the_host_network_the_port_is_the_machines() {
    let found = config("force_network_mode: HOST", ImageKind::Flow);
    assert_eq!(found.network, Network::Host);
    let line = found.arguments.reveal().join(" ");
    assert!(
        line.contains("--host 127.0.0.1") && line.contains("--port 7 "),
        "{line}"
    );
}

#[test]
fn folders_and_gpus_are_passed_to_the_engine() {
    let found = config(
        "volumes: [/a:/b, /c:/d:ro], gpus: 'device=0,1', disable_auto_volume: true, workspace: w",
        ImageKind::Flow,
    );
    assert_eq!(mounts(&found), ["/a → /b", "/c → /d, read-only"]);
    let gpus = found.gpus.unwrap();
    assert_eq!(
        (gpus.count, gpus.devices),
        (None, vec!["0".to_owned(), "1".to_owned()])
    );
}

#[test]
fn named_volumes_are_mounted_also_in_place_of_the_workspace() {
    let cache = "{type: volume, source: cache, target: /cache}";
    let kept = "{type: volume, source: kept, target: /workspace}";
    let found = config(
        &format!("volumes: [{cache}], workspace: /w"),
        ImageKind::Flow,
    );
    assert_eq!(mounts(&found), ["cache → /cache", "/w → /workspace"]);
    let found = config(
        &format!("volumes: [{kept}], workspace: /w"),
        ImageKind::Flow,
    );
    assert_eq!(mounts(&found), ["kept → /workspace"]);
    let line = found.arguments.reveal().join(" ");
    assert!(line.contains("--workspace /workspace"), "{line}");
}

#[test]
fn a_label_says_which_kind_an_image_is() {
    let container = |options: &str| invocation(options).container.unwrap();
    let check = |options: &str, image: &ImageInfo, expected: Result<ImageKind, &str>| {
        let found = container(options)
            .kind(image)
            .map_err(|error| error.to_string());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, expected) => panic!("{found:?} and not {expected:?}"),
        }
    };
    let ours = image(&[(labels::IMAGE_WIRE, labels::WIRE)], &["/x"]);
    check("replicas: 1", &ours, Ok(ImageKind::Flow));
    check("workers: 2", &ours, Ok(ImageKind::Flow));
    let jina = image(&[], &["jina", "executor", "--uses", "config.yml"]);
    check("replicas: 1", &jina, Ok(ImageKind::Jina));
    check("workers: 2", &jina, Err("do not support `workers`"));
    let newer = image(&[(labels::IMAGE_WIRE, "9")], &["/x"]);
    check(
        "replicas: 1",
        &newer,
        Err("`x:1` uses version `9` of the protocol"),
    );
    check(
        "replicas: 1",
        &image(&[], &[]),
        Err("set the program with `entrypoint`"),
    );
    check(
        "entrypoint: jina executor",
        &image(&[], &[]),
        Ok(ImageKind::Jina),
    );
}
