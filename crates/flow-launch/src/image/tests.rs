use flow_spec::{Plan, Run, TextFile, Variables, load};

use super::*;
use crate::backoff::Restarts;
use crate::command::{Common, Invocation, Programs};

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
    let common = Common {
        programs: Programs {
            flow: "/bin/flow".into(),
            built_in: Vec::new(),
        },
        grace: std::time::Duration::from_secs(10),
        log: flow_spec::Log::Text,
        restarts: Restarts::default(),
        flow: None,
    };
    Invocation::executor(&common, run)
}

fn wanted(options: &str, maker: Maker) -> Wanted {
    let ports = Ports {
        serving: 7,
        metrics: None,
    };
    wanted_at(&invocation(options), maker, ports)
}

fn wanted_at(it: &Invocation, maker: Maker, ports: Ports) -> Wanted {
    let at = AtStart {
        name: "a/rep-0",
        ports,
        user: None,
    };
    let contained = it.contained.as_ref().unwrap();
    contained.wanted(maker, &it.arguments, &it.env, at)
}

fn image(labels: &[(&str, &str)], entrypoint: &[&str]) -> Image {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Image {
        labels: labels.iter().map(owned).collect(),
        entrypoint: entrypoint.iter().map(|it| (*it).to_owned()).collect(),
        ..Image::default()
    }
}

#[test]
fn our_images_are_told_what_a_process_is_told_but_for_their_own_address() {
    let told = wanted(
        "uses_with: {device: cpu}, workers: 2, workspace: /w",
        Maker::Flow,
    );
    assert_eq!(
        told.arguments.join(" "),
        "--host 0.0.0.0 --workspace /workspace --grace 10000ms --log text --uses-with \
         {\"device\":\"cpu\"} --workers 2 --port 54321 --name a/rep-0 --to-launcher"
    );
    assert_eq!(told.binds, ["/w:/workspace"]);
    let published = Network::Published {
        ip: Ipv4Addr::LOCALHOST.into(),
        ports: vec![PublishedPort {
            port: 7,
            inside: 54321,
        }],
    };
    assert_eq!(told.network, published);
}

#[test]
fn who_is_monitored_has_a_second_port() {
    let ports = Ports {
        serving: 7,
        metrics: Some(8),
    };
    let monitored = |maker, options| {
        let mut it = invocation(options);
        it.monitor("a/rep-0");
        let told = wanted_at(&it, maker, ports);
        (told.arguments.join(" "), told.network)
    };
    let (line, network) = monitored(Maker::Flow, "");
    let told = "--monitoring --runtime-name a/rep-0 --port 54321 --name a/rep-0 --to-launcher \
        --port-monitoring 54322";
    assert!(line.ends_with(told), "{line}");
    let published = [(7, 54321), (8, 54322)];
    let published = published.map(|(port, inside)| PublishedPort { port, inside });
    let expected = Network::Published {
        ip: Ipv4Addr::LOCALHOST.into(),
        ports: published.to_vec(),
    };
    assert_eq!(network, expected);
    let (line, _) = monitored(Maker::Jina, "");
    let told = "--port 54321 --monitoring --port-monitoring 54322";
    assert!(line.contains(told), "{line}");
    let (line, network) = monitored(Maker::Flow, "force_network_mode: HOST");
    assert!(line.ends_with("--port-monitoring 8"), "{line}");
    assert_eq!(network, Network::Host);
}

#[test]
fn images_of_jina_are_told_the_same_in_its_words() {
    let told = wanted(
        "uses_with: {a: 1}, exit_on_exceptions: [A, B], workspace: /w, env: {X: y}",
        Maker::Jina,
    );
    assert_eq!(
        told.arguments.join(" "),
        "--native --name a/rep-0 --host 0.0.0.0 --port 54321 --workspace /workspace --uses-with \
         {\"a\":1} --exit-on-exceptions A B"
    );
    assert!(told.env.contains(&"JINA_OPTOUT_TELEMETRY=1".to_owned()));
    assert_eq!(told.env.last().unwrap(), "X=y");
}

#[test]
fn on_the_machines_network_the_port_is_the_machines() {
    let told = wanted("force_network_mode: HOST", Maker::Flow);
    assert_eq!(told.network, Network::Host);
    let line = told.arguments.join(" ");
    assert!(
        line.contains("--host 127.0.0.1") && line.contains("--port 7 "),
        "{line}"
    );
}

#[test]
fn folders_and_gpus_are_written_as_the_engine_takes_them() {
    let told = wanted(
        "volumes: [/a:/b, /c:/d:ro], gpus: 'device=0,1', disable_auto_volume: true, workspace: w",
        Maker::Flow,
    );
    assert_eq!(told.binds, ["/a:/b", "/c:/d:ro"]);
    let gpus = told.gpus.unwrap();
    assert_eq!(gpus.device_ids.unwrap(), ["0", "1"]);
    assert_eq!(
        (gpus.count, gpus.capabilities.unwrap()),
        (None, vec![vec!["gpu".to_owned()]])
    );
}

#[test]
fn volumes_of_the_engine_are_mounted_by_their_names_also_in_place_of_the_workspace() {
    let cache = "{type: volume, source: cache, target: /cache}";
    let kept = "{type: volume, source: kept, target: /workspace}";
    let told = wanted(&format!("volumes: [{cache}], workspace: /w"), Maker::Flow);
    assert_eq!(told.binds, ["cache:/cache", "/w:/workspace"]);
    let told = wanted(&format!("volumes: [{kept}], workspace: /w"), Maker::Flow);
    assert_eq!(told.binds, ["kept:/workspace"]);
    let line = told.arguments.join(" ");
    assert!(line.contains("--workspace /workspace"), "{line}");
}

#[test]
fn who_made_an_image_stands_on_its_label() {
    let contained = |options: &str| invocation(options).contained.unwrap();
    let check = |options: &str, image: &Image, expected: Result<Maker, &str>| {
        let found = contained(options)
            .maker(image)
            .map_err(|error| error.to_string());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, expected) => panic!("{found:?} and not {expected:?}"),
        }
    };
    let ours = image(&[(labels::IMAGE_WIRE, labels::WIRE)], &["/x"]);
    check("replicas: 1", &ours, Ok(Maker::Flow));
    check("workers: 2", &ours, Ok(Maker::Flow));
    let jina = image(&[], &["jina", "executor", "--uses", "config.yml"]);
    check("replicas: 1", &jina, Ok(Maker::Jina));
    check("workers: 2", &jina, Err("those know no `workers`"));
    let newer = image(&[(labels::IMAGE_WIRE, "9")], &["/x"]);
    check("replicas: 1", &newer, Err("`x:1` speaks wire `9`"));
    check(
        "replicas: 1",
        &image(&[], &[]),
        Err("name it with `entrypoint`"),
    );
    check(
        "entrypoint: jina executor",
        &image(&[], &[]),
        Ok(Maker::Jina),
    );
}
