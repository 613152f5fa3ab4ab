//! What is special about exports for Kubernetes: Secrets, probes, routes and scaling.

use std::fs;

use flow_tests::Program;
use serde_json::{Value, json};

use super::{Exported, documents, files};

/// A flow whose gateway has these options, exported for Kubernetes.
struct Cluster(Exported);

impl Cluster {
    fn new(gateway: &str, executors: &str) -> Self {
        let flow = Exported::new(executors);
        let text = format!("jtype: Flow\nwith: {{{gateway}}}\nexecutors: [{executors}]");
        fs::write(flow.folder.path().join("flow.yml"), text).unwrap();
        Self(flow)
    }

    #[track_caller]
    fn export(&self, options: &[&str]) -> Vec<Value> {
        self.0.must(options);
        documents(&files(&self.0.out())).collect()
    }

    #[track_caller]
    fn refuses(&self, options: &[&str], expected: &str) {
        let (code, program) = self.0.kubernetes(options);
        assert_eq!(code, Some(2), "{}", program.said());
        assert_eq!(program.stderr(), format!("flow: {expected}\n"));
    }
}

/// The object of this kind and name.
#[track_caller]
fn object<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let mut all = objects.iter();
    let found = all.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} `{name}` in {objects:#?}"))
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

const TLS: &str = "port: 8443, ssl_certfile: c.pem, ssl_keyfile: k.pem";

#[test]
fn a_gateway_in_kubernetes_gets_its_certificate_and_keys_from_secrets() {
    let flow = Cluster::new(
        &format!("{TLS}, api_keys: keys.yml"),
        "{name: a, uses: echo}",
    );
    let secrets = ["--secret", "ssl_certfile=tls", "--secret", "api_keys=keys"];
    let objects = flow.export(&secrets);
    let placement = object(&objects, "ConfigMap", "gateway-placement");
    let placement = placement["data"]["placement.json"].as_str().unwrap();
    let placed: Value = serde_json::from_str(placement).unwrap();
    let placed = &placed["plan"]["gateway"];
    let own = json!({"certificate": "/run/secrets/tls/tls.crt", "key": "/run/secrets/tls/tls.key"});
    assert_eq!(placed["tls"]["own"], own);
    assert_eq!(placed["api_keys"]["file"], "/run/secrets/keys/keys.yml");

    let gateway = object(&objects, "Deployment", "gateway");
    let volumes = &gateway["spec"]["template"]["spec"]["volumes"];
    let tls = json!([{"key": "tls.crt", "path": "tls.crt"}, {"key": "tls.key", "path": "tls.key"}]);
    assert_eq!(volumes[2]["secret"]["items"], tls);
    let mounts = container(gateway)["volumeMounts"].as_array().unwrap();
    let of_secrets = mounts.iter().filter(|it| it["name"] != "tmp");
    for mount in of_secrets {
        assert!(mount["subPath"].is_null(), "stays as it was: {mount}");
        assert_eq!(mount["readOnly"], true, "{mount}");
    }
    let service = object(&objects, "Service", "gateway");
    assert_eq!(service["spec"]["ports"][0]["appProtocol"], "https");
    assert!(
        !object(&objects, "Deployment", "a")
            .to_string()
            .contains("secret")
    );
}

#[test]
fn a_secret_may_hold_the_files_under_other_names() {
    let gateway = format!("{TLS}, ssl_ca_certs: clients.pem");
    let flow = Cluster::new(&gateway, "{name: a, uses: echo}");
    let secrets = [
        "ssl_certfile=own:cert.pem",
        "ssl_keyfile=other:k",
        "ssl_ca_certs=own",
    ];
    let secrets: Vec<&str> = secrets.iter().flat_map(|it| ["--secret", it]).collect();
    let objects = flow.export(&secrets);
    let placement = object(&objects, "ConfigMap", "gateway-placement").to_string();
    for path in ["own/cert.pem", "other/k", "own/ca.crt"] {
        assert!(
            placement.contains(&format!("/run/secrets/{path}")),
            "{placement}"
        );
    }
}

#[test]
fn the_kubelet_asks_for_health_in_a_way_that_it_can() {
    let check = |gateway: &str, secrets: &[&str], expected: [Value; 3]| {
        let flow = Cluster::new(gateway, "{name: a, uses: echo}");
        let secrets: Vec<&str> = secrets.iter().flat_map(|it| ["--secret", it]).collect();
        let objects = flow.export(&secrets);
        let gateway = container(object(&objects, "Deployment", "gateway"));
        for (probe, expected) in ["startupProbe", "readinessProbe", "livenessProbe"]
            .iter()
            .zip(expected)
        {
            let mut found = gateway[probe].clone();
            let found = found.as_object_mut().unwrap();
            found.retain(|key, _| matches!(key.as_str(), "grpc" | "httpGet" | "tcpSocket"));
            assert_eq!(json!(found), expected, "{probe}");
        }
        let executor = container(object(&objects, "Deployment", "a"));
        assert_eq!(executor["readinessProbe"]["grpc"]["port"], 8080);
    };
    let all = |probe: Value| [probe.clone(), probe.clone(), probe];
    check("port: 8443", &[], all(json!({"grpc": {"port": 8443}})));
    let https = |path: &str| json!({"httpGet": {"path": path, "port": 8443, "scheme": "HTTPS"}});
    let [ready, live] = ["/v2/health/ready", "/v2/health/live"].map(https);
    check(TLS, &["ssl_certfile=tls"], [ready.clone(), ready, live]);
    let clients = format!("{TLS}, ssl_ca_certs: a.pem");
    let secrets = ["ssl_certfile=tls", "ssl_ca_certs=tls"];
    let connects = json!({"tcpSocket": {"port": 8443}});
    check(&clients, &secrets, all(connects.clone()));
    let keys = "port: 8443, api_keys: keys.yml, api_keys_health: true";
    check(keys, &["api_keys=keys"], all(connects));
}

#[test]
fn a_gateway_without_secrets_for_its_files_is_refused_with_the_remedy() {
    let gateway = format!("{TLS}, api_keys: keys.yml");
    let flow = Cluster::new(&gateway, "{name: a, uses: echo}");
    let missing = |key: &str| {
        format!(
            "`{key}` of the gateway names a file of this machine: keep the file in a secret, and name it with \
             `--secret {key}=SECRET`"
        )
    };
    flow.refuses(&[], &missing("ssl_certfile"));
    let certificate = ["--secret", "ssl_certfile=tls"];
    flow.refuses(&certificate, &missing("api_keys"));
    let plain = Cluster::new("port: 1", "{name: a, uses: echo}");
    plain.refuses(
        &certificate,
        "`--secret ssl_certfile=SECRET` is for `ssl_certfile`, which the flow file does not have",
    );
}

#[test]
fn compose_gives_the_gateway_the_files_of_the_machine() {
    let flow = Cluster::new(
        &format!("{TLS}, api_keys: keys.yml"),
        "{name: a, uses: echo}",
    )
    .0;
    let (code, program) = Program::run(flow.command("docker-compose", "-", &[]));
    assert_eq!(code, Some(0), "{}", program.said());
    let file: Value = serde_yaml::from_str(&program.stdout()).unwrap();
    let folder = flow.folder.path().canonicalize().unwrap();
    let key = folder.join("k.pem").display().to_string();
    assert_eq!(file["secrets"]["ssl_keyfile"]["file"], key);
    let gateway = &file["services"]["gateway"];
    let names = json!(["ssl_certfile", "ssl_keyfile", "api_keys"]);
    assert_eq!(gateway["secrets"], names);
    assert!(
        gateway["healthcheck"]["test"]
            .to_string()
            .contains("listening")
    );
    let placement = gateway["command"].to_string();
    assert!(
        placement.contains("/run/secrets/ssl_keyfile"),
        "{placement}"
    );
    assert!(
        program.stderr().contains("the user 65532"),
        "{}",
        program.said()
    );
}

/// What is wrong with an object, by the schema in this file.
fn faults(schema: &str, object: &Value) -> Vec<String> {
    let path = super::golden().join(schema);
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    schema
        .iter_errors(object)
        .map(|it| it.to_string())
        .collect()
}

/// The backends of a route's rules, each with the content types that lead to it.
fn backends(route: &Value) -> Vec<(u64, Vec<&str>)> {
    let rules = route["spec"]["rules"].as_array().unwrap();
    let mut backends = Vec::new();
    for rule in rules {
        let matches = rule["matches"].as_array().into_iter().flatten();
        let types = matches.map(|it| it["headers"][0]["value"].as_str().unwrap());
        let port = rule["backendRefs"][0]["port"].as_u64().unwrap();
        backends.push((port, types.collect()));
    }
    backends
}

#[test]
fn a_route_leads_grpc_and_http_of_one_host_to_the_gateways() {
    let flow = Cluster::new("port: 8000", "{name: a, uses: echo}");
    let routes = [
        "a.example.com=infra/public",
        "b.example.com=infra/public",
        "a.example.com=own",
    ];
    let routes: Vec<&str> = routes.iter().flat_map(|it| ["--route", it]).collect();
    let objects = flow.export(&routes);
    let route = object(&objects, "HTTPRoute", "gateway");
    assert_eq!(faults("http-route.schema.json", route), [""; 0]);
    let spec = &route["spec"];
    assert_eq!(spec["hostnames"], json!(["a.example.com", "b.example.com"]));
    let parents = json!([{"name": "public", "namespace": "infra"}, {"name": "own"}]);
    assert_eq!(spec["parentRefs"], parents);
    let grpc = vec!["application/grpc", "application/grpc+proto"];
    assert_eq!(backends(route), [(8000, grpc), (80, Vec::new())]);

    // Both are the gateway's port, each with the protocol that is spoken there.
    let ports = &object(&objects, "Service", "gateway")["spec"]["ports"];
    assert_eq!(ports[0]["appProtocol"], "kubernetes.io/h2c");
    assert_eq!(ports[1]["appProtocol"], "http");
    assert_eq!(ports[0]["targetPort"], ports[1]["targetPort"]);
    assert!(flow.0.names().contains(&"http-route.yml".to_owned()));
    flow.export(&[]);
    assert!(!flow.0.names().contains(&"http-route.yml".to_owned()));
}

#[test]
fn a_route_leads_only_to_ports_that_serve_the_protocol() {
    let check = |gateway: &str, expected: &[(u64, bool)]| {
        let flow = Cluster::new(gateway, "{name: a, uses: echo}");
        let objects = flow.export(&["--route", "a.example.com=own"]);
        let route = object(&objects, "HTTPRoute", "gateway");
        assert_eq!(faults("http-route.schema.json", route), [""; 0]);
        let found: Vec<_> = backends(route)
            .into_iter()
            .map(|(port, types)| (port, !types.is_empty()))
            .collect();
        assert_eq!(found, expected, "{gateway}");
    };
    check("port: 80", &[(80, true), (81, false)]);
    let both = "protocol: [grpc, http], port: [8000, 8001]";
    check(both, &[(8000, true), (80, false)]);
    let apart = format!("{both}, only_protocols: true");
    check(&apart, &[(8000, true), (8001, false)]);
    let only = "port: 8000, only_protocols: true";
    check(&format!("{only}, protocol: grpc"), &[(8000, true)]);
    check(&format!("{only}, protocol: http"), &[(8000, false)]);
}

#[test]
fn a_route_to_a_gateway_with_a_certificate_is_refused_with_the_remedy() {
    let flow = Cluster::new(TLS, "{name: a, uses: echo}");
    flow.refuses(
        &["--route", "a.example.com=own", "--secret", "ssl_certfile=tls"],
        "`--route` leads connections without TLS to the gateway, which has `ssl_certfile`: leave that out, and give \
         the certificate to the Gateway of the cluster",
    );
}

#[test]
fn replicas_are_spread_over_nodes_and_zones_without_those_of_the_version_before() {
    let flow = Cluster::new(
        "port: 1",
        "{name: a, uses: echo, replicas: 2, workspace: /data}",
    );
    let objects = flow.export(&["--gateways", "2"]);
    let check = |kind: &str, name: &str, version: &str| {
        let pod = &object(&objects, kind, name)["spec"]["template"]["spec"];
        let spread = pod["topologySpreadConstraints"].as_array().unwrap();
        let over: Vec<_> = spread
            .iter()
            .map(|it| it["topologyKey"].as_str().unwrap())
            .collect();
        assert_eq!(
            over,
            ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        );
        let versions = |it: &Value| it["matchLabelKeys"] == json!([version]);
        assert!(spread.iter().all(versions), "{spread:?}");
    };
    check("Deployment", "gateway", "pod-template-hash");
    check("StatefulSet", "a", "controller-revision-hash");
}

#[test]
fn containers_are_killed_only_after_the_time_that_requests_get_to_finish() {
    let flow = Cluster::new("port: 1", "{name: a, uses: echo}");
    let objects = flow.export(&["--grace", "2m"]);
    let check = |name: &str, expected: u64| {
        let deployment = object(&objects, "Deployment", name);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["terminationGracePeriodSeconds"], expected, "{name}");
        let arguments = container(deployment)["args"].to_string();
        assert!(arguments.contains(r#""--grace","120000ms""#), "{arguments}");
    };
    check("a", 125);
    // Before it ends, it waits until no node sends it new connections.
    check("gateway", 130);
    let gateway = container(object(&objects, "Deployment", "gateway"));
    assert_eq!(gateway["lifecycle"]["preStop"]["sleep"]["seconds"], 5);

    let compose = flow.0.command("docker-compose", "-", &["--grace", "2m"]);
    let (_, program) = Program::run(compose);
    assert_eq!(
        program
            .stdout()
            .matches("stop_grace_period: \"125s\"")
            .count(),
        2
    );
}

/// The expression with which KEDA asks Prometheus for the requests of a node.
pub(crate) fn keda_query(objects: &[Value], name: &str) -> String {
    let scaled = object(objects, "ScaledObject", name);
    let query = &scaled["spec"]["triggers"][0]["metadata"]["query"];
    query.as_str().unwrap().to_owned()
}

/// The objects of an export of a monitored flow whose executor `faulty` and gateway are scaled by their requests.
pub(crate) fn scaled_by_requests() -> Vec<Value> {
    let flow = Cluster::new(
        "monitoring: true",
        "{name: faulty, uses: my-faulty, shards: 2}",
    );
    let options = [
        "--image",
        "faulty=example.com/faulty",
        "--namespace",
        "search",
    ];
    let scaled = [
        "--autoscale",
        "faulty=2..9@requests:16",
        "--autoscale",
        "gateway=2..3@requests:500",
    ];
    flow.export(&[&options[..], &scaled].concat())
}

#[test]
fn an_executor_is_scaled_by_the_requests_in_progress_with_keda() {
    let objects = scaled_by_requests();
    for name in ["faulty-0", "faulty-1", "gateway"] {
        let scaled = object(&objects, "ScaledObject", name);
        assert_eq!(faults("scaled-object.schema.json", scaled), [""; 0]);
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
        assert_eq!(scaled["spec"]["scaleTargetRef"], target);
        let deployment = object(&objects, "Deployment", name);
        assert!(deployment["spec"]["replicas"].is_null(), "KEDA decides");
    }
    let spec = &object(&objects, "ScaledObject", "faulty-0")["spec"];
    assert_eq!(
        (&spec["minReplicaCount"], &spec["maxReplicaCount"]),
        (&json!(2), &json!(9))
    );
    let asked = &spec["triggers"][0]["metadata"];
    assert_eq!(asked["threshold"], "16");
    let address = "http://prometheus-operated.monitoring.svc:9090";
    assert_eq!(asked["serverAddress"], address);
    assert!(
        !objects
            .iter()
            .any(|it| it["kind"] == "HorizontalPodAutoscaler")
    );
}

#[test]
fn an_autoscaler_by_requests_needs_metrics() {
    let flow = Cluster::new("port: 1", "{name: a, uses: echo}");
    flow.refuses(
        &["--autoscale", "a=1..3@requests:16"],
        "`--autoscale a=…@requests:N` follows a metric of `a`: set `monitoring: true` for it in the flow file",
    );
}

#[test]
fn docker_kwargs_are_translated_for_kubernetes_and_the_others_are_named() {
    let options = "docker_kwargs: {shm_size: 1g, mem_limit: 2g, working_dir: /srv, user: '1000:1000', \
                   extra_hosts: {db: 10.0.0.1}, cap_add: [SYS_ADMIN]}";
    let executor = format!("{{name: a, uses: 'docker://example.com/a:1', {options}}}");
    let flow = Cluster::new("port: 1", &executor);
    let objects = flow.export(&[]);
    let deployment = object(&objects, "Deployment", "a");
    let pod = &deployment["spec"]["template"]["spec"];
    let memory = json!({"medium": "Memory", "sizeLimit": "1073741824"});
    assert_eq!(pod["volumes"][1]["emptyDir"], memory);
    assert_eq!(
        pod["hostAliases"],
        json!([{"ip": "10.0.0.1", "hostnames": ["db"]}])
    );
    assert_eq!(pod["securityContext"]["runAsUser"], 1000);
    let container = container(deployment);
    assert_eq!(container["volumeMounts"][1]["mountPath"], "/dev/shm");
    assert_eq!(container["workingDir"], "/srv");
    assert_eq!(container["resources"]["limits"]["memory"], "2147483648");
    assert_eq!(container["resources"]["requests"]["memory"], "2147483648");
    let said = flow.0.must(&["--resources", "a=memory:3Gi"]).stderr();
    let warning = "`a` does not get its `docker_kwargs.cap_add` in the export";
    assert!(said.contains(warning), "{said}");
    let text = fs::read_to_string(flow.0.out().join("a/a.yml")).unwrap();
    assert!(
        text.contains("memory: \"3Gi\"") && !text.contains("2147483648"),
        "{text}"
    );
}

#[test]
fn folders_of_the_machine_are_mounted_where_an_option_asks_for_it() {
    let executor = "{name: a, uses: 'docker://example.com/a:1', volumes: ['models:/models:ro']}";
    let flow = Cluster::new("port: 1", executor);
    let warning = "`a` does not get its `volumes` in the export";
    let said = flow.0.must(&[]).stderr();
    assert!(said.contains(warning), "{said}");
    let said = flow.0.must(&["--host-folders", "a"]).stderr();
    assert!(!said.contains("warning"), "{said}");
    let objects: Vec<Value> = documents(&files(&flow.0.out())).collect();
    let deployment = object(&objects, "Deployment", "a");
    let folder = flow.0.folder.path().canonicalize().unwrap().join("models");
    let path = json!({"path": folder, "type": "Directory"});
    assert_eq!(
        deployment["spec"]["template"]["spec"]["volumes"][1]["hostPath"],
        path
    );
    let mount = &container(deployment)["volumeMounts"][1];
    assert_eq!(
        (&mount["mountPath"], &mount["readOnly"]),
        (&json!("/models"), &json!(true))
    );
}

#[test]
fn a_cluster_needs_a_number_of_gpus() {
    let flow = Cluster::new(
        "port: 1",
        "{name: a, uses: 'docker://example.com/a:1', gpus: all}",
    );
    flow.refuses(
        &[],
        "`a` has `gpus: all`, and a cluster counts the GPUs of its nodes: set how many each replica needs, such as \
         `gpus: 1`",
    );
}

#[test]
fn kustomize_reads_every_export() {
    let Some(kubectl) = flow_tests::kubectl() else {
        return;
    };
    for case in super::cases() {
        let folder = tempfile::tempdir().unwrap();
        super::export("kubernetes", &case, &folder.path().display().to_string());
        let files = files(folder.path());
        let names = |objects: &[Value]| {
            let name = |it: &Value| format!("{} {}", it["kind"], it["metadata"]["name"]);
            let mut names: Vec<String> = objects.iter().map(name).collect();
            names.sort();
            names
        };
        let expected: Vec<Value> = documents(&files).collect();
        let resources: Vec<&String> = files.iter().map(|(name, _)| name).collect();
        let kustomization = json!({"resources": resources}).to_string();
        fs::write(folder.path().join("kustomization.yaml"), kustomization).unwrap();
        let mut command = std::process::Command::new(&kubectl);
        command.arg("kustomize").arg(folder.path());
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}", program.said());
        let read = program.stdout();
        let read: Vec<Value> = read
            .split("---\n")
            .map(|it| serde_yaml::from_str(it).unwrap())
            .collect();
        assert_eq!(names(&read), names(&expected), "{}", case.name);
    }
}
