//! Which processes show what they count, and at which ports.
//!
//! As in Jina, `monitoring` of the flow is everybody's, and its `port_monitoring` is the gateway's alone.

use std::num::NonZeroU16;

use super::node::Checker;
use super::own_or;
use crate::problem::{Findings, Place, Problem};
use crate::section::At;
use crate::settings::Monitoring;
use crate::spec::{ExecutorSpec, FlowSpec};

pub(super) fn of_gateway(spec: &FlowSpec, findings: &mut Findings) -> Option<Monitoring> {
    let port = port_of_gateway(spec);
    if !shows_gateway(spec) {
        port.into_iter()
            .for_each(|port| idle(&port.place, findings));
        return None;
    }
    let ports = port.map(|port| port.value).into_iter().collect();
    Some(Monitoring { ports })
}

/// What is written of the gateway's port, if it shows anything there.
pub(super) fn written_for_gateway(spec: &FlowSpec) -> Option<&At<u16>> {
    port_of_gateway(spec).filter(|_| shows_gateway(spec))
}

/// What is written of an executor's ports, if it shows anything there.
pub(super) fn written<'s>(
    entry: &'s ExecutorSpec,
    spec: &FlowSpec,
) -> Option<&'s At<Vec<At<u16>>>> {
    let shows = own_or(&entry.options, &spec.for_executors, |it| {
        it.monitoring.as_ref()
    });
    entry
        .ports_monitoring
        .as_ref()
        .filter(|_| shows == Some(true))
}

fn shows_gateway(spec: &FlowSpec) -> bool {
    own_or(&spec.gateway, &spec.for_gateway, |it| {
        it.monitoring.as_ref()
    }) == Some(true)
}

fn port_of_gateway(spec: &FlowSpec) -> Option<&At<u16>> {
    let own = spec.gateway.port_monitoring.as_ref();
    own.or(spec.for_gateway.port_monitoring.as_ref())
}

fn idle(place: &Place, findings: &mut Findings) {
    let message = "`port_monitoring` has no effect: it means nothing without `monitoring`";
    findings.warn(Problem::new(place, message));
}

impl Checker<'_> {
    pub(super) fn monitoring(
        &self,
        shards: NonZeroU16,
        replicas: NonZeroU16,
        findings: &mut Findings,
    ) -> Option<Monitoring> {
        let written = self.entry.ports_monitoring.as_ref();
        if self.option(|it| it.monitoring.as_ref()) != Some(true) {
            written
                .into_iter()
                .for_each(|ports| idle(&ports.place, findings));
            return None;
        }
        let Some(written) = written else {
            return Some(Monitoring::default());
        };
        let mut ports: Vec<u16> = written.value.iter().map(|port| port.value).collect();
        let mut processes = usize::from(shards.get()) * usize::from(replicas.get());
        if shards.get() > 1 {
            processes += 1;
        }
        if ports.len() > processes {
            let message = format!("has {} ports for {processes} processes", ports.len());
            let problem = Problem::new(&written.place, message);
            findings.problem(problem.remedy("one each is enough"));
        }
        if shards.get() > 1 && !ports.is_empty() {
            // Whoever reads a flow's metrics knows its shards by their ports, so these stay theirs.
            let head = ports.remove(0);
            let message = format!(
                "port {head} stays free: the first is that of Jina's head, whose work is counted at the \
                 gateway's"
            );
            findings.warn(Problem::new(&written.place, message));
        }
        Some(Monitoring { ports })
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::{Monitoring, Run};
    use crate::{Checked, Flow, FlowSpec, Plan, Variables};

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
        let told = warnings(&checked);
        assert!(told[0].contains("port 9090 stays free"), "{told:?}");
    }

    #[test]
    fn a_port_without_metrics_is_told() {
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
