//! One entry of `executors` → one node: defaults, inheritance, and where it runs.

use std::num::NonZeroU16;
use std::path::PathBuf;

use flow_core::NodeName;
use indexmap::IndexMap;

use super::{TIMEOUT_READY, env, log, own_or};
use crate::address::Address;
use crate::flow::Node;
use crate::problem::{Findings, Problem};
use crate::read::{Host, gives_documents_back};
use crate::section::At;
use crate::settings::{Calls, LocalRun, Run, Workers};
use crate::spec::{ExecutorSpec, FlowSpec, Inheritable, Method};

/// Where an external executor is if only its port is written.
const THIS_MACHINE: &str = "127.0.0.1";

pub(super) fn node(
    name: NodeName,
    entry: &ExecutorSpec,
    spec: &FlowSpec,
    findings: &mut Findings,
) -> Node {
    let checker = Checker {
        entry,
        own: &entry.options,
        with: &spec.for_executors,
        spec,
    };
    Node {
        name,
        floating: checker.option(|it| it.floating.as_ref()).unwrap_or(false),
        calls: checker.calls(),
        run: if checker.option(|it| it.external.as_ref()) == Some(true) {
            checker.external(findings)
        } else {
            checker.local(findings)
        },
    }
}

struct Checker<'s> {
    entry: &'s ExecutorSpec,
    own: &'s Inheritable,
    with: &'s Inheritable,
    spec: &'s FlowSpec,
}

impl Checker<'_> {
    fn option<T: Clone>(&self, field: impl Fn(&Inheritable) -> Option<&At<T>>) -> Option<T> {
        own_or(self.own, self.with, field)
    }

    /// What the gateway says about its calls goes before what `with` says about everything.
    fn calls(&self) -> Calls {
        let FlowSpec {
            gateway,
            for_executors: with,
            ..
        } = self.spec;
        let timeout = [
            &self.own.timeout_send,
            &gateway.timeout_send,
            &with.timeout_send,
        ];
        let retries = [&self.own.retries, &gateway.retries, &with.retries];
        Calls {
            timeout: first(timeout).flatten(),
            retries: first(retries).unwrap_or_default(),
            idempotent: self.option(|it| it.idempotent.as_ref()).unwrap_or_default(),
            metadata: self.option(|it| it.metadata.as_ref()).unwrap_or_default(),
            ..Calls::default()
        }
    }

    fn local(&self, findings: &mut Findings) -> Run {
        let replicas = self
            .option(|it| it.replicas.as_ref())
            .unwrap_or(NonZeroU16::MIN);
        Run::Local(Box::new(LocalRun {
            uses: self.uses(findings),
            with: self
                .entry
                .uses_with
                .as_ref()
                .map(|with| with.value.clone())
                .unwrap_or_default(),
            metas: self.option(|it| it.metas.as_ref()).unwrap_or_default(),
            requests: self.option(|it| it.requests.as_ref()).unwrap_or_default(),
            shards: NonZeroU16::MIN,
            replicas,
            before: None,
            after: None,
            workers: Workers::default(),
            batching: IndexMap::new(),
            exit_on_exceptions: Vec::new(),
            env: env([self.spec.env.as_ref(), self.own.env.as_ref()]),
            workspace: self.option(|it| it.workspace.as_ref()).map(PathBuf::from),
            timeout_ready: self
                .option(|it| it.timeout_ready.as_ref())
                .unwrap_or(Some(TIMEOUT_READY)),
            host: self.listen_host(findings),
            ports: self.ports(replicas, findings),
            log: log(&self.own.log, &self.with.log),
        }))
    }

    fn uses(&self, findings: &mut Findings) -> crate::settings::Uses {
        match &self.entry.uses {
            Some(uses) => uses.value.clone(),
            None => {
                // A join with nothing to do is what `needs_all` is mostly written for.
                if self.entry.method == Method::Add {
                    let message = "there is no `uses`, so documents pass unchanged";
                    findings.warn(Problem::new(&self.entry.place, message));
                }
                gives_documents_back()
            }
        }
    }

    fn listen_host(&self, findings: &mut Findings) -> Option<String> {
        let written = self.own.hosts.as_ref().or(self.with.hosts.as_ref())?;
        let hosts: Vec<_> = written.value.iter().flat_map(|part| &part.value).collect();
        match hosts.as_slice() {
            [] => None,
            [
                Host {
                    name,
                    port: None,
                    has_scheme: false,
                },
            ] => Some(name.clone()),
            _ => {
                let message =
                    "an executor that the flow starts listens at one host, without scheme and port";
                let remedy = "say `external: true` if somebody else starts it";
                findings.problem(Problem::new(&written.place, message).remedy(remedy));
                None
            }
        }
    }

    fn ports(&self, replicas: NonZeroU16, findings: &mut Findings) -> Vec<u16> {
        let Some(ports) = &self.entry.ports else {
            return Vec::new();
        };
        if ports.value.len() > usize::from(replicas.get()) {
            let message = format!("has {} ports for {replicas} replicas", ports.value.len());
            findings.problem(Problem::new(&ports.place, message).remedy("one each is enough"));
        }
        ports.value.iter().map(|port| port.value).collect()
    }

    fn external(&self, findings: &mut Findings) -> Run {
        self.warn_of_what_others_decide(findings);
        Run::External {
            addresses: self.addresses(findings),
        }
    }

    fn warn_of_what_others_decide(&self, findings: &mut Findings) {
        let ExecutorSpec {
            uses,
            uses_with,
            options,
            ..
        } = self.entry;
        let written = [
            ("uses", uses.as_ref().map(|it| &it.place)),
            ("uses_with", uses_with.as_ref().map(|it| &it.place)),
            ("uses_metas", options.metas.as_ref().map(|it| &it.place)),
            (
                "uses_requests",
                options.requests.as_ref().map(|it| &it.place),
            ),
            ("env", options.env.as_ref().map(|it| &it.place)),
            ("workspace", options.workspace.as_ref().map(|it| &it.place)),
        ];
        for (key, place) in written {
            let Some(place) = place else { continue };
            let message =
                format!("`{key}` has no effect: who starts an external executor decides it");
            findings.warn(Problem::new(place, message));
        }
        if let Some(replicas) = options.replicas.as_ref().filter(|it| it.value.get() > 1) {
            let message = "`replicas` has no effect: an external executor has one for each address";
            findings.warn(Problem::new(&replicas.place, message));
        }
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

/// The port written with the host itself goes first.
fn address(host: &Host, port: Option<u16>) -> Option<Address> {
    Some(Address::new(host.name.clone(), host.port.or(port)?))
}

fn first<T: Clone, const N: usize>(written: [&Option<At<T>>; N]) -> Option<T> {
    written
        .into_iter()
        .flatten()
        .next()
        .map(|at| at.value.clone())
}
