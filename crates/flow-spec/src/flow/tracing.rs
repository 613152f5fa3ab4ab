//! Which processes export spans, and where to. As in Jina, all of it is inherited from `with`.

use serde::{Deserialize, Serialize};

use super::options::{is_set, value};
use crate::diagnostics::{Diagnostics, Problem, Span};
use crate::keys::{TRACING, TracingOptions};

/// The collector to which a process exports its spans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracing {
    /// Its host; `None`: as variables of the process say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its port; `None`: as variables of the process say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Tracing {
    /// The arguments of a process, which are those of Jina's executors too.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut all = vec!["--tracing".to_owned()];
        if let Some(host) = &self.host {
            // Jina's executors expect TLS of a host without a scheme.
            let host = match host.contains("://") {
                true => host.clone(),
                false => format!("http://{host}"),
            };
            all.extend(["--traces-exporter-host".to_owned(), host]);
        }
        if let Some(port) = self.port {
            all.extend(["--traces-exporter-port".to_owned(), port.to_string()]);
        }
        all
    }
}

/// Of a process with these options, of which `own` are written for it alone; `None` if it exports no spans.
pub(super) fn tracing(
    effective: &TracingOptions,
    own: &TracingOptions,
    diagnostics: &mut Diagnostics,
) -> Option<Tracing> {
    if is_set(&effective.tracing) {
        return Some(Tracing {
            host: value(&effective.traces_exporter_host),
            port: value(&effective.traces_exporter_port),
        });
    }
    let mut warn = |span: &Span, key: &str| {
        let message = format!("`{key}` has no effect: it means nothing without `tracing`");
        diagnostics.warn(Problem::new(span, message));
    };
    if let Some(host) = &own.traces_exporter_host {
        warn(&host.span, TRACING.traces_exporter_host.name());
    }
    if let Some(port) = &own.traces_exporter_port {
        warn(&port.span, TRACING.traces_exporter_port.name());
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::{Checked, Flow, FlowSpec, Plan, Run, Tracing, Variables};

    fn load(with: &str, executor: &str) -> Checked {
        let text =
            format!("jtype: Flow\nwith: {{{with}}}\nexecutors: [{{uses: echo, {executor}}}]");
        let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
        Flow::check(spec).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The arguments of the gateway and of the executor; `-`: it exports nothing.
    fn check(with: &str, executor: &str, expected: [&str; 2]) {
        let plan = Plan::from(load(with, executor).flow);
        let Run::Local(run) = &plan.nodes[0].run else {
            panic!("the flow starts it");
        };
        let shown = |it: &Option<Tracing>| {
            it.as_ref()
                .map_or("-".to_owned(), |it| it.arguments().join(" "))
        };
        let found = [&plan.gateway.tracing, &run.tracing].map(shown);
        assert_eq!(found, expected, "{with} / {executor}");
    }

    #[test]
    fn tracing_and_its_collector_are_inherited() {
        let at_c = "--tracing --traces-exporter-host http://c --traces-exporter-port 7";
        check("", "", ["-", "-"]);
        check("tracing: true", "", ["--tracing", "--tracing"]);
        check("tracing: true", "tracing: false", ["--tracing", "-"]);
        let host = "traces_exporter_host: c, traces_exporter_port: 7";
        check(&format!("tracing: true, {host}"), "", [at_c, at_c]);
        check("", &format!("tracing: true, {host}"), ["-", at_c]);
    }

    #[test]
    fn a_collector_without_tracing_is_reported() {
        let checked = load("traces_exporter_port: 5", "traces_exporter_host: c");
        let warnings: Vec<String> = checked.warnings.iter().map(|it| it.to_string()).collect();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("means nothing without `tracing`"));
    }
}
