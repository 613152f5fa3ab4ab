//! `flow export`: what it writes is what lies in `golden/export/`, and what Kubernetes itself calls valid.
//!
//! `FLOW_GOLDEN=write cargo test -p flow-tests --test it export` writes these files anew; look at what
//! changed before it is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{Program, flow_command};
use serde_json::Value;

/// The oldest version with everything that is used, and one of those that came after it.
const VERSIONS: &[&str] = &["1.30", "1.33", "1.37"];

/// What Prometheus' operator is told.
const SERVICE_MONITOR: &str = "service-monitor.yml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn golden() -> PathBuf {
    root().join("tests/golden/export")
}

/// A flow file to be exported, and the options it is exported with.
struct Case {
    file: PathBuf,
    compose: &'static [&'static str],
    kubernetes: &'static [&'static str],
}

/// The gallery as it is, and one flow that has what the gallery lacks.
fn cases() -> Vec<Case> {
    let entries = fs::read_dir(root().join("flows")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let is_flow = |path: &PathBuf| path.extension().is_some_and(|it| it == "yml");
    let mut files: Vec<_> = files.filter(is_flow).collect();
    files.sort();
    let plain = |file| Case {
        file,
        compose: &[],
        kubernetes: &[],
    };
    let mut cases: Vec<_> = files.into_iter().map(plain).collect();
    cases.push(Case {
        file: golden().join("everything.yml"),
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
            "--resources",
            "index=cpu:2,memory:4Gi",
            "--env-from-secret",
            "Seg_menter=HF_TOKEN:hub:token",
            "--storage",
            "50Gi",
            "--storage-class",
            "fast",
            "--pull-secret",
            "registry",
            "--monitor-label",
            "release=prometheus",
        ],
    });
    cases
}

#[track_caller]
fn export(target: &str, case: &Case, out: &str) -> Program {
    let options = match target {
        "kubernetes" => [&["--namespace", "search"], case.kubernetes].concat(),
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
        "`{}` differs at line {}: now `{}`; `FLOW_GOLDEN=write` writes it anew",
        path.display(),
        line + 1,
        text.lines().nth(line).unwrap_or_default()
    );
}

fn stem(case: &Case) -> String {
    case.file.file_stem().unwrap().display().to_string()
}

#[test]
fn every_flow_becomes_the_compose_file_that_was_looked_at() {
    for case in cases() {
        let said = export("docker-compose", &case, "-");
        check(&format!("{}.compose.yml", stem(&case)), &said.stdout());
    }
}

#[test]
fn every_flow_becomes_the_kubernetes_files_that_were_looked_at() {
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        export("kubernetes", &case, &folder.path().display().to_string());
        let texts = files(folder.path()).into_iter().map(|(name, path)| {
            let text = fs::read_to_string(path).unwrap();
            format!("# ---------- {name}\n{text}")
        });
        let text: String = texts.collect();
        check(&format!("{}.kubernetes.yml", stem(&case)), &text);
    }
}

#[test]
fn kubernetes_own_schemas_find_nothing_wrong_and_no_field_too_many() {
    let Some(python) = flow_tests::kubernetes() else {
        return;
    };
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        export("kubernetes", &case, &folder.path().display().to_string());
        let mut files = files(folder.path());
        // A kind of Prometheus' operator, which Kubernetes itself does not know.
        files.retain(|(name, _)| name != SERVICE_MONITOR);
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
}

#[test]
fn a_flow_that_is_monitored_tells_prometheus_operator_what_it_understands() {
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
fn what_cannot_be_exported_is_told_with_what_would_help() {
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
        "`--image` names `main`, which is no executor that the flow starts",
    );
    check(
        "{name: a_b, uses: echo}, {name: a-b, uses: echo}",
        &[],
        "two containers would be named `a-b`: rename an executor",
    );
    check(
        "{name: a, uses: echo, env: {CUDA_VISIBLE_DEVICES: RR}}",
        &[],
        "the replicas of `a` cannot be given devices: `CUDA_VISIBLE_DEVICES: RR` shares out the machine's \
         devices: say how many it has with `--devices N`",
    );
}

#[test]
fn an_image_is_exported_with_its_container_and_what_has_no_words_there_is_told() {
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
    let told = "`a` does not get its `docker_kwargs` in the export";
    assert!(compose.stderr().contains(told), "{}", compose.stderr());
    let kubernetes = export("kubernetes", &out);
    let told = "`a` does not get its `gpus: all`, `volumes`, `docker_kwargs` in the export";
    assert!(
        kubernetes.stderr().contains(told),
        "{}",
        kubernetes.stderr()
    );
}
