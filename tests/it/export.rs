//! `flow export`: its files equal those in `golden/export/`, and the schemas of Kubernetes accept them.
//!
//! `FLOW_GOLDEN=write cargo test -p flow-tests --test it export` rewrites these files; look at what
//! changed before it is kept.

mod helm;
pub(crate) mod kubernetes;
mod pod_security;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{Program, flow_command};
use serde_json::Value;

/// The oldest version with everything that is used, and the four that are supported today.
const VERSIONS: &[&str] = &["1.30", "1.34", "1.35", "1.36", "1.37"];

/// The `ServiceMonitor` for Prometheus' operator.
const SERVICE_MONITOR: &str = "service-monitor.yml";

/// Files of kinds that Kubernetes itself does not know.
const EXTENSIONS: &[&str] = &[SERVICE_MONITOR, "http-route.yml", "scaled-objects.yml"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn golden() -> PathBuf {
    root().join("tests/golden/export")
}

/// A flow file to be exported, and the options it is exported with.
struct Case {
    file: PathBuf,
    /// What its golden files are called.
    name: String,
    compose: &'static [&'static str],
    kubernetes: &'static [&'static str],
    swarm: &'static [&'static str],
}

/// The gallery as it is, and flows with options.
fn cases() -> Vec<Case> {
    let entries = fs::read_dir(root().join("flows")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let is_flow = |path: &PathBuf| path.extension().is_some_and(|it| it == "yml");
    let mut files: Vec<_> = files.filter(is_flow).collect();
    files.sort();
    let plain = |file: PathBuf| Case {
        name: file.file_stem().unwrap().display().to_string(),
        file,
        compose: &[],
        kubernetes: &[],
        swarm: &[],
    };
    let mut cases: Vec<_> = files.into_iter().map(plain).collect();
    cases.extend([encode_for_many(), everything(), secured()]);
    cases
}

/// A flow of the gallery for many clients.
fn encode_for_many() -> Case {
    Case {
        file: root().join("flows/encode.yml"),
        name: "encode-for-many".to_owned(),
        compose: &[],
        kubernetes: &[
            "--existing-namespace",
            "--gateways",
            "2",
            "--cache",
            "shared",
            "--cache-size",
            "1Gi",
            "--resources",
            "encoder=cpu:4",
            "--autoscale",
            "encoder=2..8",
        ],
        swarm: &[
            "--gateways",
            "2",
            "--publish",
            "host",
            "--resources",
            "encoder=cpu:2,cpu-limit:4,memory:2Gi",
            "--secret-file",
            "encoder=HF_TOKEN_PATH:hub-token",
        ],
    }
}

/// A flow whose gateway has a certificate and API keys.
fn secured() -> Case {
    Case {
        file: golden().join("secured.yml"),
        name: "secured".to_owned(),
        compose: &[],
        kubernetes: &[
            "--secret",
            "ssl_certfile=gateway-tls",
            "--secret",
            "ssl_ca_certs=gateway-tls",
            "--secret",
            "api_keys=flow-keys",
        ],
        swarm: &[
            "--secret",
            "ssl_certfile=cert",
            "--secret",
            "ssl_keyfile=key",
            "--secret",
            "ssl_ca_certs=clients",
            "--secret",
            "api_keys=keys",
        ],
    }
}

/// A flow that has what the gallery lacks.
fn everything() -> Case {
    Case {
        file: golden().join("everything.yml"),
        name: "everything".to_owned(),
        compose: &["--devices", "3", "--image", "ranker=example.com/ranker:3"],
        kubernetes: &[
            "--image",
            "ranker=example.com/ranker:3",
            "--as-root",
            "ranker",
            "--autoscale",
            "gateway=2..5@60",
            "--autoscale",
            "Seg_menter=1..4",
            "--autoscale",
            "index=2..6@requests:16",
            "--host-folders",
            "boxed",
            "--resources",
            "index=cpu:2,memory:4Gi",
            "--resources",
            "gateway=cpu:1",
            "--resources",
            "Seg_menter=cpu:500m",
            "--env-from-secret",
            "Seg_menter=HF_TOKEN:hub:token",
            "--route",
            "search.example.com=infra/public",
            "--storage",
            "50Gi",
            "--storage-class",
            "fast",
            "--pull-secret",
            "registry",
            "--monitor-label",
            "release=prometheus",
        ],
        swarm: &[
            "--image",
            "ranker=example.com/ranker:3",
            "--place",
            "boxed=node.hostname==gpu-1",
            "--place",
            "index=node.labels.disk==fast",
            "--place",
            "index=node.role==worker",
            "--gpu-resource",
            "gpu",
        ],
    }
}

#[track_caller]
fn export(target: &str, case: &Case, out: &str) -> Program {
    let options = match target {
        "kubernetes" => [&["--namespace", "search"], case.kubernetes].concat(),
        "swarm" => case.swarm.to_vec(),
        _ => case.compose.to_vec(),
    };
    let mut command = flow_command();
    command.args(["export", target]).arg(&case.file).arg(out);
    // The same after the next release.
    command.args(["--image-gateway", "flow:test"]).args(options);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    program
}

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, path));
            }
        }
    }
    found.sort();
    found
}

fn check(name: &str, text: &str) {
    let path = golden().join(name);
    if std::env::var_os("FLOW_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(text.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| expected.lines().count().min(text.lines().count()));
    assert!(
        expected == text,
        "`{}` differs at line {}: now `{}`; `FLOW_GOLDEN=write` rewrites it",
        path.display(),
        line + 1,
        text.lines().nth(line).unwrap_or_default()
    );
}

#[test]
fn every_flow_is_exported_as_the_recorded_compose_file() {
    for case in cases() {
        let said = export("docker-compose", &case, "-");
        check(&format!("{}.compose.yml", case.name), &said.stdout());
    }
}

#[test]
fn every_flow_is_exported_as_the_recorded_kubernetes_files() {
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        export("kubernetes", &case, &folder.path().display().to_string());
        let texts = files(folder.path()).into_iter().map(|(name, path)| {
            let text = fs::read_to_string(path).unwrap();
            format!("# ---------- {name}\n{text}")
        });
        let text: String = texts.collect();
        check(&format!("{}.kubernetes.yml", case.name), &text);
    }
}

#[test]
fn every_flow_is_exported_as_the_recorded_stack() {
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        export("swarm", &case, &folder.path().display().to_string());
        let texts = files(folder.path()).into_iter().map(|(name, path)| {
            let text = fs::read_to_string(path).unwrap();
            format!("# ---------- {name}\n{text}")
        });
        let text: String = texts.collect();
        check(&format!("{}.swarm.yml", case.name), &text);
    }
}

#[test]
fn docker_itself_reads_every_stack() {
    let mut help = Command::new("docker");
    help.args(["stack", "config", "--help"]);
    if !help.output().is_ok_and(|output| output.status.success()) {
        flow_tests::skipped("no Docker with `docker stack config`");
        return;
    }
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        export("swarm", &case, &folder.path().display().to_string());
        let mut command = Command::new("docker");
        command.args(["stack", "config", "-c"]);
        command.arg(folder.path().join("stack.yml"));
        // A variable that looks like a secret, to which the stack refers.
        command.env("HF_TOKEN", "token");
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}: {}", case.name, program.said());
        // Docker says which keys of a stack it ignores.
        assert_eq!(program.stderr(), "", "{}", case.name);
        let read: Value = serde_yaml::from_str(&program.stdout()).unwrap();
        let gateway = &read["services"]["gateway"];
        assert!(gateway["deploy"]["endpoint_mode"].is_string(), "{read}");
    }
}

#[test]
fn options_that_swarm_does_not_support_are_refused_with_the_remedy() {
    let check = |text: &str, options: &[&str], expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        fs::write(&file, format!("jtype: Flow\n{text}")).unwrap();
        let mut command = flow_command();
        command.args(["export", "swarm"]).arg(file);
        command.arg(folder.path().join("stack")).args(options);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(2), "{}", program.said());
        assert_eq!(program.stderr(), format!("flow: {expected}\n"));
    };
    let boxed = |options: &str| {
        format!("executors: [{{name: a, uses: 'docker://example.com/a:1', {options}}}]")
    };
    check(
        &boxed("gpus: all"),
        &[],
        "`a` has `gpus: all`, and Swarm counts the GPUs of its nodes: set how many each replica needs, such as `gpus: 1`",
    );
    check(
        &boxed("docker_kwargs: {mem_limit: 1g}"),
        &[],
        "`a` has `docker_kwargs`, which `docker stack deploy` does not take: leave them out; `--resources` limits \
         memory and CPU",
    );
    check(
        &boxed("volumes: ['/srv/b:/b']"),
        &[],
        "`a` has `volumes`, folders that other nodes may not have: put the files into its image, or choose nodes \
         that have the folders with `--place NODE=CONSTRAINT`",
    );
    let echo = "executors: [{name: a, uses: echo}]";
    check(
        &format!("with: {{api_keys: keys.yml}}\n{echo}"),
        &[],
        "`api_keys` of the gateway names a file of this machine: keep the file in a secret, and name it with \
         `--secret api_keys=SECRET`",
    );
    check(
        &format!("with: {{jwt_keys: keys.json, jwt_audience: a}}\n{echo}"),
        &[],
        "`jwt_keys` or `jwt_ca_certs` of the gateway names a file of this machine, which cannot be exported: write the \
         `https://` address of the identity provider's keys",
    );
    check(
        echo,
        &["--secret", "api_keys=keys"],
        "`--secret api_keys=SECRET` is for `api_keys`, which the flow file does not have",
    );
    check(
        echo,
        &["--place", "b=node.role==worker"],
        "`--place` names `b`, which is not an executor that the flow starts",
    );
}

#[test]
fn a_gateway_in_a_swarm_gets_its_certificate_and_keys_from_secrets() {
    let flow = Exported::new("{name: a, uses: echo}");
    let text = "jtype: Flow\nwith: {port: 8443, ssl_certfile: c.pem, ssl_keyfile: k.pem, api_keys: keys.yml}\n\
                executors: [{name: a, uses: echo}]";
    fs::write(flow.folder.path().join("flow.yml"), text).unwrap();
    let secrets = ["ssl_certfile=cert", "ssl_keyfile=key", "api_keys=keys"];
    let secrets: Vec<&str> = secrets.iter().flat_map(|it| ["--secret", it]).collect();
    let (code, program) = Program::run(flow.command("swarm", "stack", &secrets));
    assert_eq!(code, Some(0), "{}", program.said());
    let read = |name: &str| {
        let path = flow.folder.path().join("stack").join(name);
        serde_yaml::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let placed = &read("placement.json")["plan"]["gateway"];
    assert_eq!(
        placed["tls"]["own"]["certificate"],
        "/run/secrets/ssl_certfile"
    );
    assert_eq!(placed["tls"]["own"]["key"], "/run/secrets/ssl_keyfile");
    assert_eq!(placed["api_keys"]["file"], "/run/secrets/api_keys");
    let stack = read("stack.yml");
    assert_eq!(stack["secrets"]["key"]["external"], true);
    let mounted = &stack["services"]["gateway"]["secrets"][1];
    assert_eq!(mounted["source"], "key");
    assert_eq!(mounted["target"], "ssl_keyfile");
    assert_eq!(mounted["mode"], 0o400);
}

#[test]
fn kubernetes_own_schemas_find_nothing_wrong_and_no_field_too_many() {
    let Some(python) = flow_tests::kubernetes() else {
        return;
    };
    // One call for each version: reading the schemas takes longer than checking an export.
    let folder = tempfile::tempdir().unwrap();
    for case in cases() {
        let out = folder.path().join(&case.name);
        export("kubernetes", &case, &out.display().to_string());
    }
    let mut files = files(folder.path());
    let is_known = |path: &Path| !EXTENSIONS.iter().any(|name| path.ends_with(name));
    files.retain(|(_, path)| is_known(path));
    for version in VERSIONS {
        let mut command = Command::new(&python);
        command.args(["-B", "-m", "kubernetes_validate", "--strict", "-k", version]);
        command.args(files.iter().map(|(_, path)| path));
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}", program.said());
        let passed = program.said().matches(" passed for resource ").count();
        assert!(passed >= files.len(), "{}", program.said());
    }
}

#[test]
fn a_monitored_flow_is_exported_with_a_pod_monitor() {
    let schema = include_str!("../golden/export/service-monitor.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        export("kubernetes", &case, &folder.path().display().to_string());
        let all = files(folder.path());
        let text = |name: &str| {
            let path = all
                .iter()
                .find(|(file, _)| file == name)
                .map(|(_, path)| path);
            path.map(|path| fs::read_to_string(path).unwrap())
        };
        let is_monitored = fs::read_to_string(&case.file)
            .unwrap()
            .contains("monitoring: true");
        let monitor = text(SERVICE_MONITOR);
        assert_eq!(monitor.is_some(), is_monitored, "{}", case.file.display());
        let Some(monitor) = monitor else { continue };
        let monitor: Value = serde_yaml::from_str(&monitor).unwrap();
        let wrong: Vec<String> = schema
            .iter_errors(&monitor)
            .map(|it| it.to_string())
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");

        // Each Service that has the port is one that is chosen.
        let chosen = monitor["spec"]["selector"]["matchLabels"]
            .as_object()
            .unwrap();
        let port = monitor["spec"]["endpoints"][0]["port"].as_str().unwrap();
        let mut services = 0;
        for document in documents(&all).filter(|it| it["kind"] == "Service") {
            let ports = document["spec"]["ports"].as_array().unwrap();
            let labels = &document["metadata"]["labels"];
            if ports.iter().any(|it| it["name"] == port) {
                assert!(chosen.iter().all(|(name, value)| labels[name] == *value));
                services += 1;
            }
        }
        // The gateway, and the executors but the one that is not monitored.
        assert_eq!(services, 6, "{}", case.file.display());
    }
}

/// All documents of these files.
fn documents(files: &[(String, PathBuf)]) -> impl Iterator<Item = Value> {
    files.iter().flat_map(|(_, path)| {
        let text = fs::read_to_string(path).unwrap();
        let documents = text
            .split("---\n")
            .map(|it| serde_yaml::from_str(it).unwrap());
        documents.collect::<Vec<Value>>()
    })
}

#[test]
fn a_flow_that_cannot_be_exported_is_refused_with_the_remedy() {
    let check = |entry: &str, options: &[&str], expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flow.yml");
        fs::write(&file, format!("jtype: Flow\nexecutors: [{entry}]")).unwrap();
        let mut command = flow_command();
        command.args(["export", "docker-compose"]).arg(file);
        command.arg("-").args(options);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(2), "{}", program.said());
        assert_eq!(program.stderr(), format!("flow: {expected}\n"));
    };
    check(
        "{name: mine, uses: my-program}",
        &[],
        "`my-program` of `mine` is not in flow's own image: name one that holds it with `--image mine=IMAGE`",
    );
    check(
        "{name: mine, uses: echo}",
        &["--image", "main=x"],
        "`--image` names `main`, which is not an executor that the flow starts",
    );
    check(
        "{name: a_b, uses: echo}, {name: a-b, uses: echo}",
        &[],
        "two containers would be named `a-b`: rename an executor",
    );
    check(
        "{name: a, uses: echo, env: {CUDA_VISIBLE_DEVICES: RR}}",
        &[],
        "the replicas of `a` cannot be given devices: `CUDA_VISIBLE_DEVICES: RR` distributes the machine's \
         devices: set their number with `--devices N`",
    );
}

/// `flow export` of a flow with these executors, in a folder of its own.
struct Exported {
    folder: tempfile::TempDir,
}

impl Exported {
    fn new(executors: &str) -> Self {
        let it = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        it.change(executors);
        it
    }

    /// Rewrites the flow.
    fn change(&self, executors: &str) {
        let text = format!("jtype: Flow\nexecutors: [{executors}]");
        fs::write(self.folder.path().join("flow.yml"), text).unwrap();
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("k8s")
    }

    fn command(&self, target: &str, out: &str, options: &[&str]) -> Command {
        let mut command = flow_command();
        command.current_dir(self.folder.path());
        command.args(["export", target, "flow.yml", out]);
        command.args(options);
        command
    }

    fn kubernetes(&self, options: &[&str]) -> (Option<i32>, Program) {
        Program::run(self.command("kubernetes", "k8s", options))
    }

    #[track_caller]
    fn must(&self, options: &[&str]) -> Program {
        let (code, program) = self.kubernetes(options);
        assert_eq!(code, Some(0), "{}", program.said());
        program
    }

    fn names(&self) -> Vec<String> {
        let files = files(&self.out()).into_iter();
        files.map(|(name, _)| name).collect()
    }
}

#[test]
fn exporting_again_removes_what_the_flow_no_longer_has() {
    let flow = Exported::new("{name: a, uses: echo}, {name: b, uses: echo, shards: 2}");
    flow.must(&["--namespace", "search"]);
    fs::write(flow.out().join("ingress.yml"), "# My own.\n").unwrap();
    let others = "# Made from other.yml by `flow export kubernetes`.\n";
    fs::create_dir(flow.out().join("other")).unwrap();
    fs::write(flow.out().join("other/other.yml"), others).unwrap();
    let all = [
        "00-namespace.yml",
        "a/a.yml",
        "b/b-0.yml",
        "b/b-1.yml",
        "gateway/gateway.yml",
        "ingress.yml",
        "network-policy.yml",
        "other/other.yml",
    ];
    assert_eq!(flow.names(), all);

    flow.change("{name: a, uses: echo}");
    let said = flow.must(&["--namespace", "search", "--existing-namespace"]);
    let kept = ["a/a.yml", "gateway/gateway.yml", "ingress.yml"];
    let kept = [&kept[..], &["network-policy.yml", "other/other.yml"]].concat();
    assert_eq!(flow.names(), kept);
    assert!(!flow.out().join("b").exists());
    for gone in ["00-namespace.yml", "b/b-0.yml", "b/b-1.yml"] {
        let output = format!("k8s/{gone}: removed");
        assert!(said.stdout().contains(&output), "{}", said.said());
    }
}

#[test]
fn an_image_is_asked_for_before_anything_is_built() {
    let flow = Exported::new("{name: ranker, uses: ./ranker}, {name: py, uses: ./py}");
    let write = |path: &str, text: &str| {
        let path = flow.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("ranker/Cargo.toml", "this is not a manifest");
    write("ranker/config.yml", "jtype: Ranker\nwith: {top: 3}");
    write("py/config.yml", "jtype: Py\npy_modules: [py.py]");
    let export = |options: &[&str]| {
        let mut command = flow.command("kubernetes", "k8s", options);
        // Neither Cargo nor Jina is found.
        command.env("PATH", "/nowhere").env_remove("FLOW_PYTHON");
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(2), "{}", program.said());
        program.stderr()
    };
    let missing = |uses: &str, name: &str| {
        format!(
            "flow: `{uses}` of `{name}` is not in flow's own image: name one that holds it with `--image {name}=IMAGE`\n"
        )
    };
    assert_eq!(export(&[]), missing("./ranker", "ranker"));
    let ranker = ["--image", "ranker=example.com/ranker"];
    assert_eq!(export(&ranker), missing("./py", "py"));
}

#[test]
fn a_config_beside_a_package_goes_into_the_export_without_a_build() {
    let flow = Exported::new("{name: cut, uses: ./cut}");
    fs::create_dir(flow.folder.path().join("cut")).unwrap();
    let config = "jtype: Segmenter\nwith: {copy_tags: true}";
    fs::write(flow.folder.path().join("cut/config.yml"), config).unwrap();
    flow.must(&[]);
    let text = fs::read_to_string(flow.out().join("cut/cut.yml")).unwrap();
    assert!(text.contains("copy_tags"), "{text}");
}

#[test]
fn an_autoscaler_needs_an_explicit_resource_request() {
    let flow = Exported::new("{name: a, uses: echo}");
    let check = |options: &[&str], expected: &str| {
        let (code, program) = flow.kubernetes(options);
        assert_eq!(code, Some(2), "{}", program.said());
        assert_eq!(program.stderr(), format!("flow: {expected}\n"));
    };
    let no_cpu = |name: &str| {
        format!(
            "`--autoscale {name}=…` compares the CPU time of a pod with the CPU that the pod requests: set it, such as `--resources {name}=cpu:2`"
        )
    };
    check(&["--autoscale", "a=1..3"], &no_cpu("a"));
    let only_memory = ["--autoscale", "a=1..3", "--resources", "a=memory:1Gi"];
    check(&only_memory, &no_cpu("a"));
    check(&["--autoscale", "gateway=2..3"], &no_cpu("gateway"));
    let gateway = [
        "--autoscale",
        "gateway=2..3",
        "--resources",
        "gateway=cpu:1",
    ];
    check(
        &[&gateway[..], &["--gateways", "2"]].concat(),
        "`--gateways 2` and `--autoscale gateway=…` both say how many gateways there are: keep one of them",
    );
    flow.must(&["--autoscale", "a=1..3", "--resources", "a=cpu:1"]);
}

/// The memory that the pods of a file request, and its limit.
fn memory(text: &str) -> (Option<String>, Option<String>) {
    let mut documents = text.split("---\n");
    let pods = documents.find_map(|it| {
        let object: Value = serde_yaml::from_str(it).unwrap();
        let resources = &object["spec"]["template"]["spec"]["containers"][0]["resources"];
        resources.is_object().then(|| resources.clone())
    });
    let pods = pods.unwrap();
    let of = |key: &str| pods[key]["memory"].as_str().map(str::to_owned);
    (of("requests"), of("limits"))
}

#[test]
fn pods_request_the_memory_that_an_executor_is_known_to_need() {
    let flow = Exported::new(
        "{name: a, uses: echo}, {name: encoder, uses: sentence-encoder, replicas: 2}, \
         {name: large, uses: sentence-encoder, replicas: 2, uses_with: {model: nobody/has-this}}",
    );
    let check = |name: &str, expected: (Option<&str>, Option<&str>)| {
        let path = flow.out().join(name).join(format!("{name}.yml"));
        let found = memory(&fs::read_to_string(path).unwrap());
        let found = (found.0.as_deref(), found.1.as_deref());
        assert_eq!(found, expected, "{name}");
    };
    let said = flow.must(&["--resources", "a=memory:2Gi"]);
    check("a", (Some("2Gi"), Some("2Gi")));
    check("encoder", (Some("224Mi"), None));
    check("gateway", (Some("128Mi"), None));
    check("large", (None, None));
    let output = "`large` requests no memory, because its need is not known: set it with `--resources large=memory:SIZE`";
    assert!(said.stderr().contains(output), "{}", said.said());
    assert_eq!(said.stderr().matches("requests no memory").count(), 1);
}

#[test]
fn a_pod_finds_the_model_of_the_pod_that_it_replaces() {
    let flow = Exported::new("{name: encoder, uses: sentence-encoder}, {name: a, uses: echo}");
    let text = |name: &str| {
        let path = flow.out().join(name).join(format!("{name}.yml"));
        fs::read_to_string(path).unwrap()
    };
    let said = flow.must(&[]);
    let output = "`encoder` keeps its model in a volume that only one pod at a time can use";
    assert!(said.stderr().contains(output), "{}", said.said());
    assert!(text("encoder").contains("kind: StatefulSet"));
    assert!(text("encoder").contains("volumeClaimTemplates"));
    assert!(!text("a").contains("/cache"), "it downloads nothing");

    let said = flow.must(&["--cache", "shared"]);
    assert!(!said.stderr().contains("warning"), "{}", said.said());
    assert!(text("encoder").contains("claimName: flow-cache"));
    assert!(flow.names().contains(&"cache.yml".to_owned()));

    flow.must(&["--cache", "none"]);
    assert!(text("encoder").contains("kind: Deployment"));
    assert!(!flow.names().contains(&"cache.yml".to_owned()));

    flow.change("{name: encoder, uses: sentence-encoder, uses_with: {model: /model}}");
    flow.must(&[]);
    assert!(
        !text("encoder").contains("/cache"),
        "its image has the model"
    );
}

#[test]
fn pods_without_a_volume_for_their_model_are_warned_of_unless_an_image_has_it() {
    let flow = Exported::new("{name: encoder, uses: sentence-encoder}");
    let warning = "name an image that holds the model with `--image encoder=IMAGE`";
    let said = flow.must(&["--cache", "none"]);
    assert!(said.stderr().contains(warning), "{}", said.said());
    let said = flow.must(&["--cache", "none", "--image", "encoder=mine:1"]);
    assert!(!said.stderr().contains(warning), "{}", said.said());
    let said = flow.must(&["--cache", "shared"]);
    assert!(!said.stderr().contains(warning), "{}", said.said());
}

#[test]
fn exporting_without_the_gateway_is_refused_with_the_reason() {
    let flow = Exported::new("{name: a, uses: echo}");
    let (code, program) = flow.kubernetes(&["--gateways", "0"]);
    assert_eq!(code, Some(2), "{}", program.said());
    let expected = "invalid value '0' for '--gateways <N>': needs to be 1 or more";
    assert!(program.stderr().contains(expected), "{}", program.said());
}

#[test]
fn a_compose_file_says_which_flow_file_it_was_made_from() {
    let flow = Exported::new("{name: a, uses: echo}");
    let folder = flow.folder.path().join("flows");
    fs::create_dir(&folder).unwrap();
    fs::rename(flow.folder.path().join("flow.yml"), folder.join("a.yml")).unwrap();
    for given in [
        "flows/a.yml",
        "./flows/a.yml",
        folder.join("a.yml").to_str().unwrap(),
    ] {
        let mut command = flow_command();
        command.current_dir(flow.folder.path());
        command.args(["export", "docker-compose", given, "-"]);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}", program.said());
        let start = "# Made from flows/a.yml by `flow export docker-compose`.";
        assert!(
            program.stdout().starts_with(start),
            "{given}: {}",
            program.said()
        );
    }
}

#[test]
fn an_export_says_how_the_image_of_flow_is_built() {
    let flow = Exported::new("{name: a, uses: echo}");
    let export = |target: &str, out: &str, options: &[&str]| {
        let (code, program) = Program::run(flow.command(target, out, options));
        assert_eq!(code, Some(0), "{}", program.said());
        program.stdout()
    };
    let image = concat!("flow:", env!("CARGO_PKG_VERSION"));
    let build =
        |image: &str| format!("docker build -f docker/Dockerfile --target gateway -t {image} .");
    for (target, out) in [("docker-compose", "compose.yml"), ("kubernetes", "k8s")] {
        let output = export(target, out, &[]);
        assert!(output.contains(&build(image)), "{output}");
        let own = export(target, out, &["--image-gateway", "mine:1"]);
        assert!(!own.contains("docker build"), "{own}");
    }
    let text = export("docker-compose", "-", &["--image-gateway", "mine:1"]);
    let head: String = text.lines().take_while(|it| it.starts_with('#')).collect();
    assert!(head.contains(&build("mine:1")), "{text}");
}

#[test]
fn an_image_is_exported_with_its_container_and_unsupported_options_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    let yaml = "jtype: Flow\nexecutors: [{name: a, uses: 'docker://example.com/a:1', gpus: all, \
                volumes: ['b:/b:ro'], entrypoint: /bin/a, docker_kwargs: {mem_limit: 1g}}]";
    fs::write(&file, yaml).unwrap();
    let out = folder.path().join("k8s").display().to_string();
    let export = |target: &str, out: &str| {
        let mut command = flow_command();
        command.args(["export", target, file.to_str().unwrap(), out]);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}", program.said());
        program
    };
    let compose = export("docker-compose", "-");
    let mount = format!("{}:/b:ro", folder.path().join("b").display());
    for part in ["example.com/a:1", "count: all", "/bin/a", &mount] {
        assert!(compose.stdout().contains(part), "{}", compose.stdout());
    }
    let output = "`a` does not get its `docker_kwargs` in the export";
    assert!(compose.stderr().contains(output), "{}", compose.stderr());
    fs::write(&file, yaml.replace("gpus: all", "gpus: 1")).unwrap();
    let kubernetes = export("kubernetes", &out);
    let output = "`a` does not get its `volumes` in the export";
    assert!(
        kubernetes.stderr().contains(output),
        "{}",
        kubernetes.stderr()
    );
}
