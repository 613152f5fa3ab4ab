//! The restricted profile of the Pod Security Standards, as its page lists it, over every pod of the recorded exports.

use std::fs;

use serde_json::{Value, json};

use super::{Exported, documents, files, golden};

/// Volumes that the restricted profile allows.
const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Kernel parameters that the baseline profile allows; none is needed.
const SYSCTLS: &[&str] = &[];

/// Capabilities that a container may add.
const CAPABILITIES: &[&str] = &["NET_BIND_SERVICE"];

/// What the profile forbids in a pod.
fn violations(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |is_fine: bool, rule: &str| {
        if !is_fine {
            found.push(rule.to_owned());
        }
    };
    for namespace in ["hostNetwork", "hostPID", "hostIPC"] {
        check(!is_true(&pod[namespace]), namespace);
    }
    for volume in list(&pod["volumes"]) {
        let kinds = volume.as_object().unwrap().keys();
        let mut kinds = kinds.filter(|key| *key != "name");
        check(
            kinds.all(|kind| VOLUMES.contains(&kind.as_str())),
            "volumes",
        );
    }
    let own = &pod["securityContext"];
    for sysctl in list(&own["sysctls"]) {
        let name = sysctl["name"].as_str().unwrap();
        check(SYSCTLS.contains(&name), "sysctls");
    }
    check_context(own, &mut check);
    let kinds = ["containers", "initContainers", "ephemeralContainers"];
    for container in kinds.iter().flat_map(|kind| list(&pod[*kind])) {
        check_container(container, own, &mut check);
    }
    found
}

/// The rules that hold for pods and containers.
fn check_context(context: &Value, check: &mut impl FnMut(bool, &str)) {
    check(
        !is_true(&context["windowsOptions"]["hostProcess"]),
        "hostProcess",
    );
    check(context["runAsUser"] != 0, "runAsUser");
    check(context["seLinuxOptions"].is_null(), "seLinuxOptions");
    let profile = context["seccompProfile"]["type"].as_str();
    check(profile != Some("Unconfined"), "seccompProfile");
    let profile = context["appArmorProfile"]["type"].as_str();
    check(profile != Some("Unconfined"), "appArmorProfile");
}

fn check_container(container: &Value, pod: &Value, check: &mut impl FnMut(bool, &str)) {
    let context = &container["securityContext"];
    check_context(context, check);
    let or_pod = |key: &str| match &context[key] {
        Value::Null => pod[key].clone(),
        own => own.clone(),
    };
    check(!is_true(&context["privileged"]), "privileged");
    check(
        context["allowPrivilegeEscalation"] == false,
        "allowPrivilegeEscalation",
    );
    check(or_pod("runAsNonRoot") == true, "runAsNonRoot");
    check(or_pod("seccompProfile").is_object(), "seccompProfile");
    check(context["procMount"].is_null(), "procMount");
    let capabilities = &context["capabilities"];
    check(capabilities["drop"] == json!(["ALL"]), "capabilities.drop");
    let mut added = list(&capabilities["add"]);
    let is_allowed = |it: &Value| it.as_str().is_some_and(|it| CAPABILITIES.contains(&it));
    check(added.all(is_allowed), "capabilities.add");
    check(
        list(&container["ports"]).all(|it| it["hostPort"].is_null()),
        "hostPort",
    );
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        for action in ["httpGet", "tcpSocket"] {
            check(
                container[probe][action]["host"].is_null(),
                "host of a probe",
            );
        }
    }
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The pods of workloads, each with the name of its workload.
fn pods(documents: impl Iterator<Item = Value>) -> Vec<(String, Value)> {
    let pod = |document: Value| {
        let pod = document["spec"]["template"]["spec"].clone();
        let name = document["metadata"]["name"].as_str()?.to_owned();
        pod.is_object().then_some((name, pod))
    };
    documents.filter_map(pod).collect()
}

#[test]
fn every_pod_of_the_recorded_exports_meets_the_restricted_profile() {
    let mut count = 0;
    for (name, path) in files(&golden()) {
        if !name.ends_with(".kubernetes.yml") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let parts = text.split("# ---------- ").flat_map(|it| it.split("---\n"));
        let parts = parts.map(|part| match part.split_once('\n') {
            // The name of the file.
            Some((first, rest)) if first.ends_with(".yml") => rest,
            _ => part,
        });
        let documents = parts.filter_map(|it| serde_yaml::from_str(it).ok());
        for (workload, pod) in pods(documents) {
            count += 1;
            // Those of the recorded exports that the options give more rights.
            let expected: &[&str] = match (name.as_str(), workload.as_str()) {
                ("everything.kubernetes.yml", "ranker") => &["runAsNonRoot", "capabilities.drop"],
                ("everything.kubernetes.yml", "boxed") => &["volumes"],
                _ => &[],
            };
            assert_eq!(violations(&pod), expected, "{workload} of {name}");
        }
    }
    assert!(count > 30, "{count} pods");
}

#[test]
fn a_custom_image_meets_the_restricted_profile_unless_an_option_says_otherwise() {
    let flow = Exported::new(
        "{name: a, uses: 'docker://example.com/a:1', volumes: ['/srv/a:/a'], docker_kwargs: {shm_size: 1g, user: '7'}}",
    );
    let check = |options: &[&str], expected: &[&str]| {
        flow.must(options);
        let pods = pods(documents(&files(&flow.out())));
        let (_, pod) = pods.iter().find(|(name, _)| name == "a").unwrap();
        assert_eq!(violations(pod), expected, "{options:?}");
    };
    check(&[], &[]);
    check(&["--host-folders", "a"], &["volumes"]);
    check(&["--as-root", "a"], &["runAsNonRoot", "capabilities.drop"]);
}
