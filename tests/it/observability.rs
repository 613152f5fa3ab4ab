//! `docker/observability`: the files for Prometheus and Grafana, with a real Prometheus.

mod dashboard;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use flow_tests::{Program, TestFlow, eventually, free_port, post, prometheus, texts};
use rustix::process::Signal;
use serde_json::Value;

use crate::FAULTY;
use crate::export::kubernetes::{keda_query, scaled_by_requests};
use crate::monitoring::{of_executor, of_gateway};

/// How long requests are sent until Prometheus has a rate.
const LIMIT: Duration = Duration::from_secs(60);

/// A file of `docker/observability`.
fn file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("docker/observability").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap()
}

/// Runs `promtool`, which must find nothing wrong. `None` if this machine has none.
#[track_caller]
fn promtool(arguments: &[&str], path: &Path) -> Option<()> {
    let mut command = Command::new(prometheus("promtool")?);
    command.args(arguments).arg(path);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    Some(())
}

#[test]
fn the_files_for_prometheus_are_valid_and_the_rules_pass_their_tests() {
    promtool(&["check", "config"], &file("prometheus.yml"));
    promtool(&["test", "rules"], &file("rules_test.yml"));
}

#[test]
fn each_alert_has_a_test() {
    let tests = read("rules_test.yml");
    let names = read("rules.yml");
    let names = names
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let untested: Vec<&str> = names
        .filter(|name| !tests.contains(&format!("alertname: {name}\n")))
        .collect();
    assert!(untested.is_empty(), "{untested:?}");
}

#[test]
fn compose_mounts_files_that_exist_and_the_flow_has_the_scraped_ports() {
    let compose: Value = serde_yaml::from_str(&read("compose.yml")).unwrap();
    let services = compose["services"].as_object().unwrap();
    let volumes = services
        .values()
        .flat_map(|it| it["volumes"].as_array().unwrap());
    let mounted = volumes.filter_map(|it| it.as_str().unwrap().strip_prefix("./"));
    let mounted: Vec<&str> = mounted.map(|it| it.split(':').next().unwrap()).collect();
    assert!(mounted.len() >= 5, "{mounted:?}");
    assert!(
        mounted.iter().all(|it| file(it).exists()),
        "one of {mounted:?} does not exist"
    );

    let flow: Value = serde_yaml::from_str(&read("flow.yml")).unwrap();
    let executor = &flow["executors"][0]["port_monitoring"];
    let ports = [&flow["with"]["port_monitoring"], &executor[0], &executor[1]];
    let scraped: Value = serde_yaml::from_str(&read("targets/flow.yml")).unwrap();
    let expected: Vec<Value> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}").into())
        .collect();
    assert_eq!(scraped[0]["targets"], Value::Array(expected));
}

/// A running Prometheus with the project's rules. It looks often, and alerts do not wait.
struct Prometheus {
    port: u16,
    _program: Program,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(targets: &[String]) -> Option<Self> {
        Self::of(&format!(
            "[{{targets: {targets:?}, labels: {{flow: tested}}}}]"
        ))
    }

    /// It reads these targets, in YAML.
    fn of(targets: &str) -> Option<Self> {
        let program = prometheus("prometheus")?;
        let folder = tempfile::tempdir().unwrap();
        let config = read("prometheus.yml").replace(": 5s", ": 200ms");
        let rules = read("rules.yml");
        let is_wait = |line: &&str| !line.trim_start().starts_with("for: ");
        let rules: Vec<&str> = rules.lines().filter(is_wait).collect();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("targets")).unwrap();
        write("prometheus.yml", &config);
        write("rules.yml", &rules.join("\n"));
        write("targets/flow.yml", targets);

        let port = free_port();
        let mut command = Command::new(program);
        command
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!(
                "--config.file={}",
                folder.path().join("prometheus.yml").display()
            ));
        let program = Program::start(command);
        program.line("Server is ready to receive web requests.");
        Some(Self {
            port,
            _program: program,
            _folder: folder,
        })
    }

    /// The values of an expression, each with its labels.
    fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let found = self.get(&format!("/api/v1/query?query={}", escaped(expression)));
        let found = found["data"]["result"].as_array().unwrap().clone();
        let value = |it: &Value| it["value"][1].as_str().unwrap().parse().unwrap();
        found
            .iter()
            .map(|it| (it["metric"].clone(), value(it)))
            .collect()
    }

    fn value(&self, expression: &str) -> Option<f64> {
        self.query(expression).first().map(|(_, value)| *value)
    }

    fn alerts(&self) -> Vec<String> {
        let firing = self.query("ALERTS{alertstate=\"firing\"}");
        let names = firing.iter().map(|(labels, _)| &labels["alertname"]);
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }

    /// HTTP 1.0, so that the body ends with the connection.
    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{reply}");
        serde_json::from_str(body).unwrap()
    }
}

/// An expression as part of a URL.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Host and port of a URL of metrics.
fn host(url: &str) -> String {
    let url = url.strip_prefix("http://").unwrap();
    url.split('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_reads_a_flow_under_load_and_alerts_when_requests_fail_and_when_it_ends() {
    let mut flow = TestFlow::up(&format!(
        "with: {{monitoring: true}}\nexecutors: [{{name: faulty, uses: {FAULTY}, uses_with: {{mark: '!'}}}}]"
    ));
    let targets = [of_gateway(&flow), of_executor(&flow, "faulty")];
    let Some(prometheus) = Prometheus::start(&targets.map(|url| host(&url))) else {
        return;
    };
    let rate = || prometheus.value("flow:requests:rate5m").unwrap_or_default();
    // A rate needs two values: requests arrive until it has them.
    let limit = Instant::now() + LIMIT;
    while rate() <= 0.0 {
        assert!(Instant::now() < limit, "no rate of requests");
        post(&flow, vec![texts("/mark", &["a"])]).await;
    }
    let node = "sum by (node) (flow_node_duration_seconds_count{flow=\"tested\"})";
    eventually("the node's calls are read", || {
        prometheus.value(node) > Some(0.0)
    });
    assert_eq!(prometheus.query("up{flow=\"tested\"} == 1").len(), 2);
    assert_eq!(prometheus.alerts(), [""; 0]);

    // So few that the gateway logs each of them.
    let failed = "sum(flow_request_duration_seconds_count{code=\"executor_failed\"})";
    for count in [10.0, 20.0] {
        post(&flow, vec![texts("/fail", &["a"]); 10]).await;
        eventually("the failures are read", || {
            prometheus.value(failed) == Some(count)
        });
    }
    eventually("failures alert", || {
        prometheus.alerts() == ["FlowRequestsFail"]
    });

    flow.program().signal(Signal::TERM);
    assert!(flow.program_mut().end().success());
    eventually("both processes are away", || {
        let alerts = prometheus.alerts();
        alerts.iter().filter(|it| *it == "FlowProcessDown").count() == 2
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_by_which_keda_scales_are_found_in_prometheus() {
    let flow = TestFlow::up(&format!(
        "with: {{monitoring: true}}\nexecutors: [{{name: faulty, uses: {FAULTY}, uses_with: {{mark: '!'}}}}]"
    ));
    // The labels that Prometheus' operator adds.
    let processes = [
        ("gateway", of_gateway(&flow)),
        ("faulty-0", of_executor(&flow, "faulty")),
    ];
    let target = |(job, url): &(&str, String)| {
        let address = host(url);
        format!("{{targets: ['{address}'], labels: {{namespace: search, job: {job}}}}}")
    };
    let targets = processes.each_ref().map(target).join(", ");
    let Some(prometheus) = Prometheus::of(&format!("[{targets}]")) else {
        return;
    };
    let objects = scaled_by_requests();
    for (name, _) in &processes {
        let query = keda_query(&objects, name);
        let requests = || prometheus.value(&query).unwrap_or_default();
        let limit = Instant::now() + LIMIT;
        while requests() <= 0.0 {
            assert!(Instant::now() < limit, "no requests in {query}");
            post(&flow, vec![texts("/mark", &["a"])]).await;
        }
        let elsewhere = query.replace("\"search\"", "\"other\"");
        assert_eq!(prometheus.value(&elsewhere), None);
    }
}
