//! `flow export helm`: charts as the code of Helm itself renders them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flow_tests::{Program, flow_command, helm_chart};
use serde_json::{Value, json};

use super::{Case, Exported, cases, documents, export, files};

/// Objects without the annotations of their order, by kind and name.
fn by_name(objects: impl Iterator<Item = Value>) -> BTreeMap<String, Value> {
    let named = objects.map(|it| {
        let name = format!("{} {}", it["kind"], it["metadata"]["name"]);
        (name, it)
    });
    named.collect()
}

fn chart(case: &Case, out: &Path) {
    let own = ["--existing-namespace"];
    let options = case.kubernetes.iter().filter(|it| !own.contains(it));
    let mut command = flow_command();
    command.args(["export", "helm"]).arg(&case.file).arg(out);
    command.args(["--image-gateway", "flow:test"]).args(options);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
}

/// The objects of a chart, rendered with these values.
fn rendered(chart: &Path, values: &Value) -> Option<BTreeMap<String, Value>> {
    let found = helm_chart(chart, "search", values)?;
    assert_eq!(found["faults"], json!([]), "{}", chart.display());
    let templates = found["templates"].as_object().unwrap().values();
    let documents = templates.flat_map(|text| text.as_str().unwrap().split("---\n"));
    let objects = documents.map(|it| serde_yaml::from_str::<Value>(it).unwrap());
    Some(by_name(objects.filter(|it| !it.is_null())))
}

#[test]
fn a_chart_with_its_own_values_is_what_the_kubernetes_export_writes() {
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        let (chart_folder, plain) = (folder.path().join("chart"), folder.path().join("k8s"));
        chart(&case, &chart_folder);
        let Some(mut found) = rendered(&chart_folder, &json!({})) else {
            return;
        };
        export("kubernetes", &case, &plain.display().to_string());
        let mut expected = by_name(documents(&files(&plain)));
        // Helm makes the namespace.
        expected.retain(|name, _| !name.starts_with("\"Namespace\""));
        // The configuration is hashed before the namespace is known.
        for object in found.values_mut().chain(expected.values_mut()) {
            if let Some(hash) = object.pointer_mut("/spec/template/metadata/annotations") {
                hash.take();
            }
        }
        assert_eq!(found, expected, "{}", case.name);
    }
}

#[test]
fn the_values_of_a_chart_change_what_people_change() {
    let gateway = "monitoring: true, api_keys: keys.yml";
    let flow = Exported::new("");
    let text = format!(
        "jtype: Flow\nwith: {{{gateway}}}\nexecutors: [{{name: a, uses: echo, workspace: /w}}]"
    );
    fs::write(flow.folder.path().join("flow.yml"), text).unwrap();
    let options = [
        ["--secret", "api_keys=keys"],
        ["--route", "a.example.com=public"],
        ["--autoscale", "a=1..3@requests:8"],
    ];
    let (code, program) = Program::run(flow.command("helm", "chart", options.as_flattened()));
    assert_eq!(code, Some(0), "{}", program.said());
    let values = json!({
        "image": "registry.example.com/flow:2",
        "pods": {
            "gateway": {"replicas": 3, "resources": {"requests": {"cpu": "2"}}},
            "a": {"autoscale": {"min": 2, "max": 9, "requests": 16}, "storage": {"workspace": "99Gi"}},
        },
        "secrets": {"keys": "other-keys"},
        "route": {"hosts": ["b.example.com"]},
        "prometheus": "http://other:9090",
    });
    let Some(found) = rendered(&flow.folder.path().join("chart"), &values) else {
        return;
    };
    let check = |name: &str, pointer: &str, expected: Value| {
        let value = found[name].pointer(pointer);
        assert_eq!(value, Some(&expected), "{pointer} of {name}");
    };
    let gateway = "\"Deployment\" \"gateway\"";
    check(gateway, "/spec/replicas", json!(3));
    let container = "/spec/template/spec/containers/0";
    let image = json!("registry.example.com/flow:2");
    check(gateway, &format!("{container}/image"), image);
    check(
        gateway,
        &format!("{container}/resources/requests/cpu"),
        json!("2"),
    );
    let secret = "/spec/template/spec/volumes/2/secret/secretName";
    check(gateway, secret, json!("other-keys"));
    check(
        "\"HTTPRoute\" \"gateway\"",
        "/spec/hostnames",
        json!(["b.example.com"]),
    );
    let claim = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
    check("\"StatefulSet\" \"a\"", claim, json!("99Gi"));
    let scaled = "\"ScaledObject\" \"a\"";
    check(scaled, "/spec/maxReplicaCount", json!(9));
    let trigger = "/spec/triggers/0/metadata";
    check(scaled, &format!("{trigger}/threshold"), json!("16"));
    check(
        scaled,
        &format!("{trigger}/serverAddress"),
        json!("http://other:9090"),
    );
}

#[test]
fn a_chart_that_is_exported_again_loses_what_the_flow_no_longer_has() {
    let flow = Exported::new("{name: a, uses: echo}, {name: b, uses: echo}");
    let export = || {
        let (code, program) = Program::run(flow.command("helm", "chart", &[]));
        assert_eq!(code, Some(0), "{}", program.said());
        let chart = files(&flow.folder.path().join("chart"));
        chart.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let own = ["Chart.yaml", "templates/a/a.yml", "templates/b/b.yml"];
    let more = [
        "templates/gateway/gateway.yml",
        "templates/network-policy.yml",
        "values.yaml",
    ];
    assert_eq!(export(), [&own[..], &more].concat());
    flow.change("{name: a, uses: echo}");
    assert_eq!(export(), [&own[..2], &more].concat());
}

#[test]
fn text_of_a_flow_file_is_not_expanded_as_a_template() {
    let flow = Exported::new("{name: a, uses: echo, env: {TEXT: '{{ .Values.image }} {{{x}}}'}}");
    let (code, program) = Program::run(flow.command("helm", "chart", &[]));
    assert_eq!(code, Some(0), "{}", program.said());
    let Some(found) = rendered(&flow.folder.path().join("chart"), &json!({})) else {
        return;
    };
    let variables = &found["\"ConfigMap\" \"a-env\""]["data"];
    assert_eq!(variables["TEXT"], "{{ .Values.image }} {{{x}}}");
}
