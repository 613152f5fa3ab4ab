//! What processes export to collectors of OpenTelemetry. As in Jina, all of it is inherited from `with`.

use serde::{Deserialize, Serialize};

use super::options::{is_set, value};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::keys::{Key, TELEMETRY, TelemetryOptions};

/// What a process exports to collectors of OpenTelemetry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Where it exports spans; `None` disables the export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<Collector>,
    /// Where it exports metrics; `None` disables the export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Collector>,
}

/// A collector of OpenTelemetry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collector {
    /// Its host; `None` leaves it to the variables of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its port; `None` leaves it to the variables of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Telemetry {
    /// Whether the process exports nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The arguments of a process, which are those of Jina's executors too.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let traces = self.traces.iter();
        let traces = traces.flat_map(|it| it.arguments("--tracing", "--traces-exporter"));
        let metrics = self.metrics.iter();
        let metrics = metrics.flat_map(|it| it.arguments("--metrics", "--metrics-exporter"));
        traces.chain(metrics).collect()
    }
}

impl Collector {
    fn arguments(&self, flag: &str, prefix: &str) -> Vec<String> {
        let mut all = vec![flag.to_owned()];
        if let Some(host) = &self.host {
            // Jina's executors expect TLS of a host without a scheme.
            let host = match host.contains("://") {
                true => host.clone(),
                false => format!("http://{host}"),
            };
            all.extend([format!("{prefix}-host"), host]);
        }
        if let Some(port) = self.port {
            all.extend([format!("{prefix}-port"), port.to_string()]);
        }
        all
    }
}

/// Of a process with these options, of which `own` are written for it alone.
pub(super) fn telemetry(
    effective: &TelemetryOptions,
    own: &TelemetryOptions,
    diagnostics: &mut Diagnostics,
) -> Telemetry {
    let keys = &TELEMETRY;
    Telemetry {
        traces: Export {
            flag: (&keys.tracing.key, &effective.tracing),
            host: (&keys.traces_exporter_host.key, &own.traces_exporter_host),
            port: (&keys.traces_exporter_port.key, &own.traces_exporter_port),
        }
        .to(
            diagnostics,
            (
                &effective.traces_exporter_host,
                &effective.traces_exporter_port,
            ),
        ),
        metrics: Export {
            flag: (&keys.metrics.key, &effective.metrics),
            host: (&keys.metrics_exporter_host.key, &own.metrics_exporter_host),
            port: (&keys.metrics_exporter_port.key, &own.metrics_exporter_port),
        }
        .to(
            diagnostics,
            (
                &effective.metrics_exporter_host,
                &effective.metrics_exporter_port,
            ),
        ),
    }
}

type Written<T> = Option<Spanned<T>>;

/// The keys that turn an export on and name its collector, and what is written for a process.
struct Export<'o> {
    flag: (&'static Key, &'o Written<bool>),
    host: (&'static Key, &'o Written<String>),
    port: (&'static Key, &'o Written<u16>),
}

impl Export<'_> {
    /// The collector; `None` without the flag, and then a collector that is written has no effect.
    fn to(
        &self,
        diagnostics: &mut Diagnostics,
        (host, port): (&Written<String>, &Written<u16>),
    ) -> Option<Collector> {
        if is_set(self.flag.1) {
            return Some(Collector {
                host: value(host),
                port: value(port),
            });
        }
        let host = self.host.1.as_ref().map(|it| (self.host.0, &it.span));
        let port = self.port.1.as_ref().map(|it| (self.port.0, &it.span));
        for (key, span) in host.into_iter().chain(port) {
            let (key, flag) = (key.name, self.flag.0.name);
            let message = format!("`{key}` has no effect without `{flag}`");
            diagnostics.warn(Problem::new(span, message));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::{Checked, Flow, FlowSpec, Plan, Run, Telemetry, Variables};

    fn load(with: &str, executor: &str) -> Checked {
        let text =
            format!("jtype: Flow\nwith: {{{with}}}\nexecutors: [{{uses: echo, {executor}}}]");
        let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
        Flow::check(spec).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The arguments of the gateway and of the executor; none if it exports nothing.
    fn check(with: &str, executor: &str, expected: [&str; 2]) {
        let plan = Plan::from(load(with, executor).flow);
        let Run::Local(run) = &plan.nodes[0].run else {
            panic!("the flow starts it");
        };
        let shown = |it: &Telemetry| it.arguments().join(" ");
        let found = [&plan.gateway.telemetry, &run.telemetry].map(shown);
        assert_eq!(found, expected, "{with} / {executor}");
    }

    #[test]
    fn tracing_and_its_collector_are_inherited() {
        let at_c = "--tracing --traces-exporter-host http://c --traces-exporter-port 7";
        check("", "", ["", ""]);
        check("tracing: true", "", ["--tracing", "--tracing"]);
        check("tracing: true", "tracing: false", ["--tracing", ""]);
        let host = "traces_exporter_host: c, traces_exporter_port: 7";
        check(&format!("tracing: true, {host}"), "", [at_c, at_c]);
        check("", &format!("tracing: true, {host}"), ["", at_c]);
    }

    #[test]
    fn metrics_have_a_collector_of_their_own() {
        let at_m = "--metrics --metrics-exporter-host https://m --metrics-exporter-port 8";
        let with = "metrics: true, metrics_exporter_host: 'https://m', metrics_exporter_port: 8";
        check(with, "", [at_m, at_m]);
        let both = format!("--tracing {at_m}");
        check(with, "tracing: true", [at_m, &both]);
        check("metrics: true", "metrics: false", ["--metrics", ""]);
    }

    #[test]
    fn a_collector_without_an_export_is_reported() {
        let checked = load(
            "traces_exporter_port: 5, metrics_exporter_host: m",
            "traces_exporter_host: c",
        );
        let warnings: Vec<String> = checked.warnings.iter().map(|it| it.to_string()).collect();
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].contains("has no effect without `tracing`"));
        assert!(warnings[1].contains("has no effect without `metrics`"));
    }
}
