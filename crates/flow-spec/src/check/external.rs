//! An executor that somebody else starts: where it is, and what the file cannot decide about it.

use super::node::Checker;
use crate::address::Address;
use crate::problem::{Findings, Place, Problem};
use crate::read::Host;
use crate::section::At;
use crate::settings::Run;
use crate::spec::ExecutorSpec;

/// Where an external executor is if only its port is written.
const THIS_MACHINE: &str = "127.0.0.1";

impl Checker<'_> {
    pub(super) fn external(&self, findings: &mut Findings) -> Run {
        self.warn_of_what_others_decide(findings);
        Run::External {
            addresses: self.addresses(findings),
        }
    }

    fn warn_of_what_others_decide(&self, findings: &mut Findings) {
        for (key, place) in self.others_decide() {
            let Some(place) = place else { continue };
            let message =
                format!("`{key}` has no effect: who starts an external executor decides it");
            findings.warn(Problem::new(place, message));
        }
        let replicas = self.own.replicas.as_ref();
        if let Some(replicas) = replicas.filter(|it| it.value.get() > 1) {
            let message = "`replicas` has no effect: an external executor has one for each address";
            findings.warn(Problem::new(&replicas.place, message));
        }
    }

    /// What is written about how it runs, with the places of it.
    fn others_decide(&self) -> [(&'static str, Option<&Place>); 16] {
        let ExecutorSpec {
            uses,
            uses_with,
            ports_monitoring,
            ..
        } = self.entry;
        let own = self.own;
        [
            ("uses", place(uses)),
            ("uses_with", place(uses_with)),
            ("uses_metas", place(&own.metas)),
            ("uses_requests", place(&own.requests)),
            ("uses_dynamic_batching", place(&own.batching)),
            ("shards", place(&own.shards)),
            ("polling", place(&own.polling)),
            ("uses_before", place(&own.before)),
            ("uses_after", place(&own.after)),
            ("workers", place(&own.workers)),
            ("allow_concurrent", place(&own.allow_concurrent)),
            ("exit_on_exceptions", place(&own.exit_on_exceptions)),
            ("env", place(&own.env)),
            ("workspace", place(&own.workspace)),
            ("monitoring", place(&own.monitoring)),
            ("port_monitoring", place(ports_monitoring)),
        ]
    }

    fn addresses(&self, findings: &mut Findings) -> Vec<Address> {
        let written = self.own.hosts.as_ref().or(self.with.hosts.as_ref());
        let written = written.filter(|hosts| !hosts.value.is_empty());
        let mut hosts: Vec<Host> = written
            .map(|list| {
                list.value
                    .iter()
                    .flat_map(|part| part.value.clone())
                    .collect()
            })
            .unwrap_or_default();
        let ports = self
            .entry
            .ports
            .as_ref()
            .map_or(&[][..], |ports| ports.value.as_slice());
        if written.is_none() {
            hosts.push(Host {
                name: THIS_MACHINE.to_owned(),
                port: None,
                has_scheme: false,
            });
        }
        let (hosts_len, ports_len) = (hosts.len(), ports.len());
        if hosts_len != ports_len && hosts_len > 1 && ports_len > 1 {
            let message = format!("has {hosts_len} hosts and {ports_len} ports");
            let remedy = "write as many ports as hosts, or one";
            findings.problem(Problem::new(&self.entry.place, message).remedy(remedy));
            return Vec::new();
        }
        let len = hosts_len.max(ports_len);
        let ports = (0..len).map(|at| ports.get(at % ports_len.max(1)).map(|port| port.value));
        let pairs = hosts.iter().cycle().zip(ports);
        let addresses: Option<Vec<_>> = pairs.map(|(host, port)| address(host, port)).collect();
        addresses.unwrap_or_else(|| {
            let message = "an external executor needs an address";
            let remedy = "write `host: name:port`, or `host` and `port`";
            findings.problem(Problem::new(&self.entry.place, message).remedy(remedy));
            Vec::new()
        })
    }
}

fn place<T>(written: &Option<At<T>>) -> Option<&Place> {
    written.as_ref().map(|it| &it.place)
}

/// The port written with the host itself goes first.
fn address(host: &Host, port: Option<u16>) -> Option<Address> {
    Some(Address::new(host.name.clone(), host.port.or(port)?))
}
