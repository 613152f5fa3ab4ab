//! An executor that is not started by the flow: its addresses, and options that have no effect on it.

use super::entry::EntryChecker;
use super::options::{is_set, value};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};
use crate::forms::Host;
use crate::keys::{Key, Options as _};
use crate::plan::{Address, TcpAddress};
use crate::service_address::ServiceAddress;
use crate::values::Protocol;

/// The host of an external executor of which only the port is written.
const THIS_MACHINE: &str = "127.0.0.1";

impl EntryChecker<'_> {
    /// The addresses of an external executor.
    pub(super) fn external(&self, diagnostics: &mut Diagnostics) -> Vec<Address> {
        self.warn_of_process_options(diagnostics);
        self.refuse_sandbox(diagnostics);
        self.addresses(diagnostics)
    }

    /// The gateway calls executors over gRPC, whatever `protocol` says.
    pub(super) fn check_protocol(&self, diagnostics: &mut Diagnostics) {
        let written = self.entry.options.protocol.iter();
        let mut written = written.flat_map(|protocols| &protocols.value);
        let Some(other) = written.find(|protocol| protocol.value != Protocol::Grpc) else {
            return;
        };
        let name = other.value.name();
        if self.is_external() {
            let message = format!("executors are called over gRPC, and this one speaks {name}");
            let remedy = "start it with `protocol: grpc`";
            diagnostics.problem(Problem::new(&other.span, message).remedy(remedy));
        } else {
            let message = format!("the executor serves gRPC, and not {name}");
            let remedy = format!("clients reach it over {name} at the gateway");
            diagnostics.warn(Problem::new(&other.span, message).remedy(remedy));
        }
    }

    fn warn_of_process_options(&self, diagnostics: &mut Diagnostics) {
        for (key, span) in self.process_options() {
            let message = format!(
                "`{}` has no effect: it is set where the external executor is started",
                key.name
            );
            diagnostics.warn(Problem::new(span, message));
        }
        let replicas = self.entry.inherited.options.replicas.as_ref();
        if let Some(replicas) = replicas.filter(|it| it.value.get() > 1) {
            let message = "`replicas` has no effect: an external executor has one for each address";
            diagnostics.warn(Problem::new(&replicas.span, message));
        }
    }

    /// The options that are written for processes of the flow.
    fn process_options(&self) -> impl Iterator<Item = (&'static Key, &SourceSpan)> {
        let own = &self.entry.inherited;
        let written = self.entry.options.written().into_iter();
        let written = written.chain(own.options.written());
        let written = written.chain(own.monitoring.written());
        let written = written.chain(own.telemetry.written());
        written.filter(|(key, _)| key.is_for_processes)
    }

    fn addresses(&self, diagnostics: &mut Diagnostics) -> Vec<Address> {
        let written = value(&self.effective.options.host);
        let written = written.filter(|hosts| !hosts.is_empty());
        let mut hosts: Vec<Host> = written
            .iter()
            .flatten()
            .flat_map(|part| part.value.clone())
            .collect();
        let ports = self.entry.options.port.as_ref();
        let ports = ports.map_or(&[][..], |ports| ports.value.as_slice());
        if written.is_none() {
            hosts.push(Host {
                name: THIS_MACHINE.to_owned(),
                port: None,
                has_scheme: false,
                tls: false,
                service: None,
            });
        }
        let are_services = !hosts.is_empty() && hosts.iter().all(|it| it.service.is_some());
        if let (Some(port), true) = (ports.first(), are_services) {
            let message = "`port` has no effect: the records of a service contain the ports";
            let problem = Problem::new(&port.span, message).remedy("leave it out");
            diagnostics.problem(problem);
            return Vec::new();
        }
        let (hosts_len, ports_len) = (hosts.len(), ports.len());
        if hosts_len != ports_len && hosts_len > 1 && ports_len > 1 {
            let message = format!("has {hosts_len} hosts and {ports_len} ports");
            let remedy = "write as many ports as hosts, or one";
            diagnostics.problem(Problem::new(&self.entry.span, message).remedy(remedy));
            return Vec::new();
        }
        let len = hosts_len.max(ports_len);
        let ports = (0..len).map(|at| ports.get(at % ports_len.max(1)).map(|port| port.value));
        let pairs = hosts.iter().cycle().zip(ports);
        let tls = is_set(&self.effective.options.tls);
        let addresses: Option<Vec<_>> =
            pairs.map(|(host, port)| address(host, port, tls)).collect();
        addresses.unwrap_or_else(|| {
            let message = "an external executor needs an address";
            let remedy = "write `host: name:port`, `host` and `port`, or `host: srv://service`";
            diagnostics.problem(Problem::new(&self.entry.span, message).remedy(remedy));
            Vec::new()
        })
    }
}

/// A port that is written with the host wins.
fn address(host: &Host, port: Option<u16>, tls: bool) -> Option<Address> {
    if let Some(service) = &host.service {
        let service = service.clone();
        return Some(Address::Service(ServiceAddress { tls, ..service }));
    }
    Some(Address::Tcp(TcpAddress {
        tls: tls || host.tls,
        host: host.name.clone(),
        port: host.port.or(port)?,
    }))
}
