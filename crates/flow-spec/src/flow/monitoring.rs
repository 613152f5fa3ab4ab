//! Which processes serve metrics, and at which ports.
//!
//! As in Jina, `monitoring` of `with` is inherited by all processes, and its `port_monitoring` is the gateway's alone.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::entry::EntryChecker;
use super::options::{is_set, values};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};
use crate::keys::MonitoringOptions;

/// How processes serve their metrics: in Prometheus' text format, over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monitoring {
    /// The port of the first process, the second, …; 0, and a process beyond the list: any free port.
    pub ports: Vec<u16>,
}

impl Monitoring {
    /// The port of one of the processes, numbered from 0; 0: any free port.
    #[must_use]
    pub fn port(&self, process: usize) -> u16 {
        self.ports.get(process).copied().unwrap_or(0)
    }
}

/// Of the gateway.
pub(super) fn of_gateway(
    options: &MonitoringOptions,
    diagnostics: &mut Diagnostics,
) -> Option<Monitoring> {
    let port = options.port_monitoring.as_ref();
    if !is_set(&options.monitoring) {
        port.into_iter()
            .for_each(|port| warn_of_no_effect(&port.span, diagnostics));
        return None;
    }
    if let Some(list) = port.filter(|list| list.value.len() > 1) {
        let message = "several metrics ports for a gateway are a feature of Jina that flow does not support yet";
        diagnostics.problem(Problem::new(&list.span, message).remedy("keep one"));
    }
    let ports = values(&options.port_monitoring);
    Some(Monitoring { ports })
}

fn warn_of_no_effect(span: &SourceSpan, diagnostics: &mut Diagnostics) {
    let message = "`port_monitoring` has no effect without `monitoring`";
    diagnostics.warn(Problem::new(span, message));
}

impl EntryChecker<'_> {
    /// Of the processes of a node.
    pub(super) fn monitoring(
        &self,
        shards: NonZeroU16,
        replicas: NonZeroU16,
        diagnostics: &mut Diagnostics,
    ) -> Option<Monitoring> {
        let own = &self.entry.inherited.monitoring.port_monitoring;
        if !is_set(&self.effective.monitoring.monitoring) {
            own.iter()
                .for_each(|ports| warn_of_no_effect(&ports.span, diagnostics));
            return None;
        }
        let Some(written) = own else {
            return Some(Monitoring::default());
        };
        let mut ports = values(own);
        let mut processes = usize::from(shards.get()) * usize::from(replicas.get());
        if shards.get() > 1 {
            processes += 1;
        }
        if ports.len() > processes {
            let message = format!("has {} ports for {processes} processes", ports.len());
            let problem = Problem::new(&written.span, message);
            diagnostics.problem(problem.remedy("one each is enough"));
        }
        if shards.get() > 1 && !ports.is_empty() {
            // Dashboards know the shards of a flow by their ports, so the shards keep them.
            let head = ports.remove(0);
            let message = format!(
                "port {head} stays free: the first is that of Jina's head, whose work is counted at the \
                 gateway's"
            );
            diagnostics.warn(Problem::new(&written.span, message));
        }
        Some(Monitoring { ports })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Checked, Flow, FlowSpec, Monitoring, Plan, Run, Variables};

    fn load(with: &str, executors: &str) -> Checked {
        let text = format!("jtype: Flow\nwith: {{{with}}}\nexecutors: [{executors}]");
        let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
        Flow::check(spec).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn warnings(checked: &Checked) -> Vec<String> {
        let warnings = checked.warnings.iter();
        warnings.map(|it| it.to_string()).collect()
    }

    /// Ports of the gateway's metrics, and of the first executor's; `-`: it has none.
    fn check(with: &str, executor: &str, expected: &str) {
        let plan = Plan::from(load(with, &format!("{{uses: echo, {executor}}}")).flow);
        let Run::Local(run) = &plan.nodes[0].run else {
            panic!("the flow starts it");
        };
        let shown = |it: &Option<Monitoring>| match it {
            Some(monitoring) => format!("{:?}", monitoring.ports),
            None => "-".to_owned(),
        };
        let found = format!(
            "{} {}",
            shown(&plan.gateway.monitoring),
            shown(&run.monitoring)
        );
        assert_eq!(found, expected, "{with} / {executor}");
    }

    #[test]
    fn monitoring_is_inherited_and_the_flows_port_is_the_gateways() {
        check("", "", "- -");
        check("monitoring: true", "", "[] []");
        check("monitoring: true, port_monitoring: 9090", "", "[9090] []");
        check("monitoring: true", "port_monitoring: 9091", "[] [9091]");
        check("monitoring: true", "monitoring: false", "[] -");
        check("", "monitoring: true, port_monitoring: 0", "- [0]");
        let three = "port_monitoring: [9091, 9092], replicas: 3";
        check("monitoring: true", three, "[] [9091, 9092]");
    }

    #[test]
    fn of_shards_the_first_port_is_that_of_a_head_which_flow_does_not_have() {
        let options = "shards: 2, port_monitoring: [9090, 9091, 9092]";
        check("monitoring: true", options, "[] [9091, 9092]");
        let checked = load("monitoring: true", &format!("{{uses: echo, {options}}}"));
        let output = warnings(&checked);
        assert!(output[0].contains("port 9090 stays free"), "{output:?}");
    }

    #[test]
    fn a_port_without_metrics_is_reported() {
        let checked = load("port_monitoring: 5", "{uses: echo, port_monitoring: 6}");
        assert_eq!(warnings(&checked).len(), 2, "{:?}", warnings(&checked));
    }

    #[test]
    fn a_port_for_metrics_is_taken_once() {
        let text = "jtype: Flow\nwith: {port: 5, monitoring: true, port_monitoring: 5}\n\
            executors:\n- {uses: echo, name: a, port: 6, port_monitoring: [7, 6], replicas: 2}\n";
        let spec = FlowSpec::parse(text, &Variables::default()).unwrap();
        let problems = Flow::check(spec).unwrap_err().to_string();
        assert!(problems.contains("port 5 is taken already"), "{problems}");
        assert!(problems.contains("port 6 is taken already"), "{problems}");
    }

    #[test]
    fn a_deployment_is_monitored_with_its_gateway() {
        let text = "jtype: Deployment\nwith: {uses: echo, monitoring: true, port_monitoring: 7}";
        let spec = FlowSpec::parse(text, &Variables::default()).unwrap();
        let plan = Plan::from(Flow::check(spec).unwrap().flow);
        assert_eq!(plan.gateway.monitoring, Some(Monitoring::default()));
        let Run::Local(run) = &plan.nodes[0].run else {
            panic!("the flow starts it");
        };
        assert_eq!(run.monitoring.as_ref().unwrap().ports, [7]);
    }
}
