//! A flow: its file, its ports, its executors and models, and its certificates.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::SystemTime;

use flow_core::Chain;
use flow_models::source::{self, SourceEnvironment, SourceError};
use flow_spec::{Env, LocalRun, Plan, PythonSource, Run, Uses};
use reranker::RerankerConfig;
use sentence_encoder::SentenceEncoderConfig;
use serde_json::Value;
use sparse_encoder::SparseEncoderConfig;
use text_classifier::TextClassifierConfig;

use super::certificate::{days_left, expiry};
use super::finding::Finding;
use crate::cmd::flows::running;
use crate::credentials;
use crate::flow_file::{self, ReadOptions};
use crate::folder::python::PythonRuntime;
use crate::port_owner;
use crate::resolve::{resolve_folders, resolve_uses_unbuilt};
use crate::shell::Shell;

/// A certificate is renewed this long before it expires.
const RENEW_DAYS: i64 = 14;

/// The name and the revision of the model of a built-in executor that loads one. Invalid options are reported where the flow file is
/// checked.
fn model_and_revision(run: &LocalRun) -> Option<(String, Option<String>)> {
    let Uses::Named(executor) = &run.uses else {
        return None;
    };
    let with = Value::Object(run.with.reveal().clone());
    match executor.as_str() {
        "sentence-encoder" => {
            let with: SentenceEncoderConfig = serde_json::from_value(with).ok()?;
            Some((with.model, with.revision))
        }
        "reranker" => {
            let with: RerankerConfig = serde_json::from_value(with).ok()?;
            Some((with.model, with.revision))
        }
        "sparse-encoder" => {
            let with: SparseEncoderConfig = serde_json::from_value(with).ok()?;
            Some((with.model, with.revision))
        }
        "text-classifier" => {
            let with: TextClassifierConfig = serde_json::from_value(with).ok()?;
            Some((with.model, with.revision))
        }
        _ => None,
    }
}

/// What a flow needs of the machine.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// There is a flow.
    pub(super) is_flow: bool,
    /// An executor computes on a GPU.
    pub(super) gpu: bool,
    /// An executor is in an image.
    pub(super) docker: bool,
}

/// Examines a flow, and says what it needs.
pub(super) fn examine(file: &Path, shell: &Shell) -> (Vec<Finding>, Needs) {
    const SUBJECT: &str = "flow file";
    let shown = file.display();
    match plan(file, shell) {
        Err(error) => {
            let text = format!("{error:#}");
            let remedy = format!("`flow check {shown}` says where");
            let needs = Needs {
                is_flow: true,
                ..Needs::default()
            };
            (vec![Finding::problem(SUBJECT, text, remedy)], needs)
        }
        Ok((plan, warnings)) => {
            let mut findings = vec![match warnings {
                0 => Finding::ok(SUBJECT, format!("`{shown}` is fine")),
                1 => Finding::warning(
                    SUBJECT,
                    format!("`{shown}` has a warning"),
                    format!("`flow check {shown}` shows it"),
                ),
                some => Finding::warning(
                    SUBJECT,
                    format!("`{shown}` has {some} warnings"),
                    format!("`flow check {shown}` lists them"),
                ),
            }];
            findings.extend(of_credentials(&plan));
            let is_running = running::find(Some(file), shell).is_ok_and(|all| !all.is_empty());
            findings.extend(of_ports(&plan, is_running));
            let runs = runs(&plan);
            findings.extend(
                runs.iter()
                    .filter_map(|(name, run)| of_python(name, run, shell)),
            );
            findings.extend(
                runs.iter()
                    .filter_map(|(name, run)| of_model(name, run, shell)),
            );
            (findings, needs(&runs))
        }
    }
}

/// The plan of a flow, and the number of warnings about its file.
fn plan(file: &Path, shell: &Shell) -> anyhow::Result<(Plan, usize)> {
    let checked = flow_file::load_to_start(file, ReadOptions::default(), shell, &|_| {})?;
    let warnings = checked.warnings.len();
    let mut plan = Plan::from(checked.flow);
    resolve_folders(&mut plan, file, shell)?;
    resolve_uses_unbuilt(&mut plan, file, shell)?;
    Ok((plan, warnings))
}

/// The executors that the flow starts.
fn runs(plan: &Plan) -> Vec<(&str, &LocalRun)> {
    let local = |node: &'_ flow_spec::NodePlan| matches!(node.run, Run::Local(_));
    let nodes = plan.nodes.iter().filter(|node| local(node));
    nodes
        .filter_map(|node| match &node.run {
            Run::Local(run) => Some((node.name.as_str(), &**run)),
            Run::External { .. } => None,
        })
        .collect()
}

fn needs(runs: &[(&str, &LocalRun)]) -> Needs {
    let is_on_gpu = |run: &LocalRun| {
        let device = run.with.reveal().get("device").and_then(Value::as_str);
        device.is_some_and(|it| it.starts_with("cuda"))
    };
    Needs {
        is_flow: true,
        gpu: runs.iter().any(|(_, run)| is_on_gpu(run)),
        docker: runs
            .iter()
            .any(|(_, run)| matches!(run.uses, Uses::Image(_))),
    }
}

fn of_credentials(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = credentials::check(plan) {
        let remedy = "correct the paths in the flow file, or the files";
        findings.push(Finding::problem(
            "credentials",
            format!("{error:#}"),
            remedy,
        ));
    }
    let own = plan.gateway.tls.iter().map(|tls| &tls.own.certificate);
    let calls = plan.nodes.iter().filter_map(|node| node.calls.tls.as_ref());
    let calls = calls.filter_map(|tls| tls.own.as_ref().map(|it| &it.certificate));
    for file in own.chain(calls) {
        // One that cannot be read is reported above.
        let end = fs::read_to_string(file).ok().and_then(|pem| expiry(&pem));
        findings
            .extend(end.map(|end| of_expiry(&file.display().to_string(), end, SystemTime::now())));
    }
    findings
}

fn of_expiry(file: &str, end: SystemTime, now: SystemTime) -> Finding {
    const SUBJECT: &str = "certificate";
    const REMEDY: &str = "renew it; a running gateway takes the new file by itself";
    let day = humantime::format_rfc3339_seconds(end).to_string();
    let day = day.split('T').next().unwrap_or_default().to_owned();
    match days_left(end, now) {
        ..0 => Finding::problem(SUBJECT, format!("`{file}` expired on {day}"), REMEDY),
        days @ 0..RENEW_DAYS => {
            let text = format!("`{file}` expires on {day}, in {days} days");
            Finding::warning(SUBJECT, text, REMEDY)
        }
        _ => Finding::ok(SUBJECT, format!("`{file}` expires on {day}")),
    }
}

/// The ports that the file names. Those of a flow that runs are its own.
fn of_ports(plan: &Plan, is_running: bool) -> Vec<Finding> {
    let gateway = &plan.gateway;
    let host = gateway.host.clone();
    let own = std::iter::once(gateway.port).chain(gateway.more_ports.iter().map(|it| it.port));
    let metrics = gateway.monitoring.iter().map(|it| it.port(0));
    let own = own.flatten().chain(metrics);
    let mut ports: Vec<(String, Option<String>, u16)> = own
        .map(|port| ("gateway".to_owned(), host.clone(), port))
        .collect();
    for (name, run) in runs(plan) {
        let metrics = run.monitoring.iter().flat_map(|it| it.ports.clone());
        let all = run.ports.iter().copied().chain(metrics);
        ports.extend(all.map(|port| (name.to_owned(), run.host.clone(), port)));
    }
    ports.retain(|(_, _, port)| *port != 0);
    let finding = |(name, host, port): &(String, Option<String>, u16)| {
        of_port(name, host.as_deref(), *port, is_running)
    };
    ports.iter().map(finding).collect()
}

fn of_port(name: &str, host: Option<&str>, port: u16, is_running: bool) -> Finding {
    let subject = format!("port {port}");
    let ip: Result<IpAddr, _> = host.unwrap_or("127.0.0.1").parse();
    let Ok(ip) = ip else {
        return Finding::ok(subject, format!("of `{name}`; its host is a name"));
    };
    match TcpListener::bind(SocketAddr::new(ip, port)) {
        Ok(_) => Finding::ok(subject, format!("of `{name}`, free")),
        Err(_) if is_running => Finding::ok(subject, format!("of `{name}`; the flow is running")),
        Err(error) => {
            let owner = port_owner::find(port);
            let owner = owner.map(|it| format!("{it} listens there"));
            let why = owner.unwrap_or_else(|| error.to_string());
            let text = format!("of `{name}`, cannot be used: {why}");
            Finding::problem(subject, text, "stop it, or write another port")
        }
    }
}

/// The interpreter of an executor in Python.
fn of_python(name: &str, run: &LocalRun, shell: &Shell) -> Option<Finding> {
    let Uses::Path(path) = &run.uses else {
        return None;
    };
    let is_config = path
        .extension()
        .is_some_and(|it| it == "yml" || it == "yaml");
    if !is_config && PythonSource::of(path).is_none() {
        return None;
    }
    let subject = format!("Python of `{name}`");
    Some(
        match PythonRuntime::find(path, variables(&run.env, shell)) {
            Ok(PythonRuntime::Flow(python)) => {
                let text = format!("`{}` has `flow_serve`", python.display());
                Finding::ok(subject, text)
            }
            Ok(PythonRuntime::Jina(_)) => {
                Finding::ok(subject, "an interpreter has Jina, which runs it")
            }
            Err(error) => Finding::problem(
                subject,
                format!("{error:#}"),
                "`pip install flow-serve` in the environment of the executor",
            ),
        },
    )
}

/// The variables that an executor will have.
fn variables<'v>(env: &'v Env, shell: &'v Shell) -> impl Fn(&str) -> Option<String> + 'v {
    |name| {
        env.reveal(name)
            .map(str::to_owned)
            .or_else(|| shell.variable(name))
    }
}

/// The model of a built-in executor that loads one.
fn of_model(name: &str, run: &LocalRun, shell: &Shell) -> Option<Finding> {
    let (model, revision) = model_and_revision(run)?;
    let environment = SourceEnvironment::from_variables(variables(&run.env, shell));
    let subject = format!("model of `{name}`");
    Some(
        match source::find(&model, revision.as_deref(), &environment) {
            Ok(folder) => Finding::ok(subject, format!("`{model}` in `{}`", folder.display())),
            Err(SourceError::NotFound { .. }) if !environment.offline => Finding::warning(
                subject,
                format!("`{model}` is not on this machine, and is fetched at the first start"),
                format!("`flow model pull {model}` fetches it now"),
            ),
            Err(error) => Finding::problem(
                subject,
                Chain(&error).to_string().replace('\n', ";"),
                "correct `model`, copy the model here, or unset HF_HUB_OFFLINE",
            ),
        },
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_certificate_is_renewed_before_it_expires() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let days = |days: u64| now + Duration::from_secs(days * 24 * 3600 + 60);
        let check = |end, level, part: &str| {
            let found = of_expiry("a.pem", end, now);
            assert_eq!(found.level, level, "{found:?}");
            assert!(found.text.contains(part), "{found:?}");
        };
        check(days(90), Level::Ok, "expires on 2027-04-15");
        check(days(13), Level::Warning, "in 13 days");
        check(
            now - Duration::from_secs(1),
            Level::Problem,
            "expired on 2027-01-15",
        );
    }

    #[test]
    fn a_port_in_use_is_a_problem_unless_the_flow_runs() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let found = of_port("gateway", None, port, false);
        assert_eq!(found.level, Level::Problem);
        let own = format!("process {}", std::process::id());
        assert!(found.text.contains(&own), "{found:?}");
        assert_eq!(of_port("gateway", None, port, true).level, Level::Ok);
        drop(taken);
        assert_eq!(
            of_port("gateway", Some("127.0.0.1"), port, false).level,
            Level::Ok
        );
    }
}
