//! A real collector of OpenTelemetry, and what it received.

use std::collections::BTreeMap;
use std::path::Path;

use flow_tests::{DocArrayVersion, Program, eventually, script};
use serde::Deserialize;
use serde_json::Value;

/// A collector, which runs as long as this value lives.
pub(crate) struct Collector {
    program: Program,
    pub(crate) ports: Ports,
}

#[derive(Deserialize)]
pub(crate) struct Ports {
    pub(crate) grpc: u16,
    pub(crate) http: u16,
    /// With TLS, if it was started so.
    #[serde(default)]
    pub(crate) grpcs: u16,
    #[serde(default)]
    pub(crate) https: u16,
}

/// A span, as the collector got it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Span {
    pub(crate) service: String,
    pub(crate) version: Option<String>,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u8,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) links: Vec<String>,
    pub(crate) error: Option<String>,
}

impl Collector {
    /// `None` if the stock peer, whose OpenTelemetry it uses, is not set up.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Also with TLS, with the certificates in a folder.
    pub(crate) fn start_with(certificates: Option<&Path>) -> Option<Self> {
        let mut command = script(DocArrayVersion::V2, "collector.py")?;
        let program = Program::start({
            command.args(certificates);
            command
        });
        let ports = serde_json::from_str(&program.line("\"grpc\"")).unwrap();
        Some(Self { program, ports })
    }

    /// What it was sent of one kind so far: `span`, `metric`, `record` or `request`.
    pub(crate) fn all(&self, signal: &str) -> Vec<Value> {
        let out = self.program.stdout();
        let lines = out.lines().skip(1);
        let all = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|it| it["signal"] == signal).collect()
    }

    /// The spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let all = self.all("span").into_iter();
        all.map(|span| serde_json::from_value(span).unwrap())
            .collect()
    }

    /// The newest point of this process's metric for which this holds, once there is one.
    pub(crate) fn metric(
        &self,
        (service, name): (&str, &str),
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let find = || {
            let all = self.all("metric").into_iter().rev();
            all.filter(|it| it["service"] == service && it["name"] == name)
                .find(&is_wanted)
        };
        eventually(name, || find().is_some());
        find().unwrap()
    }

    /// The first log record of this process with this text, once there is one.
    pub(crate) fn record(&self, service: &str, body: &str) -> Value {
        let find = || {
            let mut all = self.all("record").into_iter();
            all.find(|it| it["service"] == service && it["body"] == body)
        };
        eventually(body, || find().is_some());
        find().unwrap()
    }
}
