//! The graph of the flow with the positions of its parts, and its options.
//!
//! Environment variables, metadata and values of `uses_with` are left out: they may be secret.

use std::time::{Duration, SystemTime};

use flow_spec::plot::{Drawing, Room};
use flow_spec::{DocumentSource, Gateway, LocalRun, NodePlan, Plan, Protocol, Run, Uses};
use serde::Serialize;
use serde_json::{Value, json};

use crate::console::History;
use crate::snapshot::Snapshot;

/// Room in each card for two lines of numbers and the states of the replicas.
const ROOM: Room = Room {
    width: 190.0,
    height: 62.0,
};

/// What the flow is.
#[derive(Debug, Serialize)]
pub(super) struct FlowReport {
    drawing: Drawing,
    /// In the order of the plan.
    nodes: Vec<NodeOptions>,
    gateway: Value,
    /// Most bytes that the history takes.
    history_bytes_max: usize,
}

/// The options of a node.
#[derive(Debug, Serialize)]
struct NodeOptions {
    name: String,
    /// The nodes whose documents it reads.
    needs: Vec<String>,
    /// Names and values of options that are not the default.
    options: Vec<(&'static str, String)>,
}

impl FlowReport {
    pub(super) fn of(_: &History, snapshot: &Snapshot, _: SystemTime) -> Self {
        let plan = &snapshot.plan;
        Self {
            drawing: Drawing::of(plan, ROOM),
            nodes: plan
                .nodes
                .iter()
                .map(|it| NodeOptions::of(it, plan))
                .collect(),
            gateway: gateway(&plan.gateway),
            history_bytes_max: History::BYTES_MAX,
        }
    }
}

impl NodeOptions {
    fn of(node: &NodePlan, plan: &Plan) -> Self {
        let name = |source: &DocumentSource| match source {
            DocumentSource::Gateway => "gateway".to_owned(),
            DocumentSource::Node(at) => plan.node(*at).name.to_string(),
        };
        Self {
            name: node.name.to_string(),
            needs: node.parents.iter().map(name).collect(),
            options: options(node),
        }
    }
}

fn options(node: &NodePlan) -> Vec<(&'static str, String)> {
    let calls = &node.calls;
    let mut options = match &node.run {
        Run::Local(run) => of_run(run),
        Run::External { addresses } => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            vec![("external", addresses.join(", "))]
        }
    };
    options.extend(calls.timeout.map(|it| ("timeout_send", time(it))));
    options.extend(calls.idempotent.then(|| ("idempotent", "true".to_owned())));
    options.extend((!calls.reduce).then(|| ("no_reduce", "true".to_owned())));
    options.extend(node.floating.then(|| ("floating", "true".to_owned())));
    let when = calls.when.as_ref().map(|it| it.json().to_string());
    options.extend(when.map(|it| ("when", it)));
    options
}

fn of_run(run: &LocalRun) -> Vec<(&'static str, String)> {
    let names = |names: Vec<&str>| (!names.is_empty()).then(|| names.join(", "));
    let several = |number: u16| (number > 1).then(|| number.to_string());
    let options = [
        ("uses", Some(program(&run.uses))),
        (
            "uses_with",
            names(run.with.reveal().keys().map(String::as_str).collect()),
        ),
        ("shards", several(run.shards.get())),
        ("replicas", several(run.replicas.get())),
        ("workers", Some(run.workers.to_string())),
        (
            "batching",
            names(run.batching.keys().map(String::as_str).collect()),
        ),
        ("timeout_ready", run.timeout_ready.map(time)),
    ];
    let options = options.into_iter();
    options
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn program(uses: &Uses) -> String {
    match uses {
        Uses::Named(name) => name.clone(),
        Uses::Path(path) => path.display().to_string(),
        Uses::Image(image) => format!("docker://{image}"),
    }
}

fn gateway(gateway: &Gateway) -> Value {
    let protocols = gateway.ports().flat_map(|port| port.protocols);
    let protocols: Vec<&str> = protocols.map(Protocol::name).collect();
    json!({
        "host": gateway.listen_host(),
        "protocols": protocols,
        "prefetch": gateway.prefetch,
        "in_flight_max": gateway.in_flight_max,
        "tls": gateway.tls.is_some(),
        "api_keys": gateway.api_keys.is_some() || gateway.jwt.is_some(),
        "monitoring": gateway.monitoring.is_some(),
        "tracing": gateway.telemetry.traces.is_some(),
        "metrics": gateway.telemetry.metrics.is_some(),
        "slow_request": gateway.logging.slow.map(time),
        "access_log": gateway.logging.all,
    })
}

fn time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}
