use std::path::Path;

use serde_json::{Value, json};

use crate::{Plan, Run, TextFile, Variables, load};

/// What the only executor's container is, as JSON; or the problems and the warnings.
fn container(options: &str) -> Result<(Value, Vec<String>), String> {
    let text = format!("jtype: Flow\nexecutors: [{{name: a, {options}}}]");
    let file = TextFile {
        path: Path::new("flow.yml"),
        text: &text,
    };
    let checked = load(file, &Variables::default()).map_err(|error| match error {
        crate::LoadError::Invalid { problems, .. } => problems[0].to_string(),
        other @ crate::LoadError::Syntax { .. } => other.to_string(),
    })?;
    let warnings = checked.warnings.iter().map(ToString::to_string).collect();
    let plan = Plan::from(checked.flow);
    let Run::Local(run) = &plan.nodes[0].run else {
        panic!("it is not external")
    };
    Ok((serde_json::to_value(&run.container).unwrap(), warnings))
}

#[track_caller]
fn check(options: &str, expected: &Value) {
    let found = container(&format!("uses: 'docker://x', {options}"));
    assert_eq!(found, Ok((expected.clone(), Vec::new())), "{options}");
}

#[test]
fn container_options_are_read_from_their_keys() {
    check("replicas: 2", &json!({}));
    check("gpus: all", &json!({"gpus": {"count": -1}}));
    check(
        "volumes: ['~/a:/b:ro', c]",
        &json!({"volumes": [
            {"host": "~/a", "inside": "/b", "read_only": true},
            {"host": "c", "inside": "/c", "read_only": false},
        ]}),
    );
    check("force_update: true", &json!({"is_refetched": true}));
    check("force: true", &json!({"is_refetched": true}));
    check(
        "disable_auto_volume: true",
        &json!({"without_workspace": true}),
    );
    check(
        "prefer_platform: linux/arm64",
        &json!({"platform": "linux/arm64"}),
    );
    check(
        "docker_kwargs: {platform: linux/arm64, user: '5'}",
        &json!({"platform": "linux/arm64", "options": {"user": {"text": "5"}}}),
    );
}

#[test]
fn the_machines_network_is_asked_for_in_two_ways() {
    check(
        "force_network_mode: HOST",
        &json!({"on_host_network": true}),
    );
    let of_kwargs = &json!({"on_host_network": true});
    check("docker_kwargs: {network_mode: host}", of_kwargs);
    check("force_network_mode: BRIDGE", &json!({}));
    let both = "uses: 'docker://x', force_network_mode: HOST, docker_kwargs: {network: team}";
    assert_eq!(
        container(both).unwrap_err(),
        "`force_network_mode: HOST` and the network `team`; keep one of them"
    );
}

#[test]
fn container_options_have_no_effect_on_a_process() {
    let warned = |options: &str| container(&format!("uses: echo, {options}")).unwrap().1;
    assert_eq!(
        warned("gpus: 1"),
        ["`gpus` has no effect: `uses` names no image (`docker://…`)"]
    );
    for nothing in [
        "gpus: ''",
        "volumes: []",
        "docker_kwargs: {}",
        "force_update: false",
    ] {
        assert_eq!(warned(nothing), [""; 0], "{nothing}");
    }
}

#[test]
fn a_gateway_runs_in_no_container() {
    let text = "jtype: Flow\ngateway: {gpus: 1}\nexecutors: [{uses: echo}]";
    let file = TextFile {
        path: Path::new("flow.yml"),
        text,
    };
    let error = load(file, &Variables::default()).unwrap_err();
    let crate::LoadError::Invalid { problems, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        problems[0].to_string(),
        "`gpus` is not supported: the gateway is a process of this machine, and runs in no container"
    );
}
