//! One entry of `executors` → one node: defaults, inheritance, and where it runs.

use std::num::NonZeroU16;
use std::path::PathBuf;

use flow_core::NodeName;

use super::{TIMEOUT_READY, env, log, own_or};
use crate::Context;
use crate::flow::Node;
use crate::hub::{HUB_VARIABLE, Hub, HubName};
use crate::problem::{Findings, Place, Problem};
use crate::read::{Host, gives_documents_back};
use crate::section::At;
use crate::settings::{Calls, LocalRun, Run, Uses, Workers};
use crate::spec::{ExecutorSpec, FlowSpec, Inheritable, Method, Program};

pub(super) fn node(name: NodeName, checker: Checker<'_>, findings: &mut Findings) -> Node {
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

/// An entry of `executors`, and what decides about it besides.
#[derive(Clone, Copy)]
pub(super) struct Checker<'s> {
    pub(super) entry: &'s ExecutorSpec,
    pub(super) own: &'s Inheritable,
    pub(super) with: &'s Inheritable,
    pub(super) context: &'s Context<'s>,
    spec: &'s FlowSpec,
}

impl<'s> Checker<'s> {
    pub(super) fn new(
        entry: &'s ExecutorSpec,
        spec: &'s FlowSpec,
        context: &'s Context<'s>,
    ) -> Self {
        Self {
            entry,
            own: &entry.options,
            with: &spec.for_executors,
            context,
            spec,
        }
    }
}

impl Checker<'_> {
    pub(super) fn option<T: Clone>(
        &self,
        field: impl Fn(&Inheritable) -> Option<&At<T>>,
    ) -> Option<T> {
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
            polling: self.option(|it| it.polling.as_ref()).unwrap_or_default(),
            reduce: self.option(|it| it.no_reduce.as_ref()) != Some(true),
            when: self.option(|it| it.when.as_ref()).flatten(),
        }
    }

    fn local(&self, findings: &mut Findings) -> Run {
        let count = |field: fn(&Inheritable) -> Option<&At<NonZeroU16>>| {
            self.option(field).unwrap_or(NonZeroU16::MIN)
        };
        let (shards, replicas) = (
            count(|it| it.shards.as_ref()),
            count(|it| it.replicas.as_ref()),
        );
        let with = self.entry.uses_with.as_ref();
        let mut run = LocalRun {
            uses: gives_documents_back(),
            with: with.map(|with| with.value.clone()).unwrap_or_default(),
            metas: self.option(|it| it.metas.as_ref()).unwrap_or_default(),
            requests: self.option(|it| it.requests.as_ref()).unwrap_or_default(),
            shards,
            replicas,
            before: self.beside_shards("uses_before", shards, |it| it.before.as_ref(), findings),
            after: self.beside_shards("uses_after", shards, |it| it.after.as_ref(), findings),
            workers: self.workers(),
            batching: self.option(|it| it.batching.as_ref()).unwrap_or_default(),
            exit_on_exceptions: self.exit_on_exceptions(),
            env: env([self.spec.env.as_ref(), self.own.env.as_ref()]),
            workspace: self.option(|it| it.workspace.as_ref()).map(PathBuf::from),
            timeout_ready: self
                .option(|it| it.timeout_ready.as_ref())
                .unwrap_or(Some(TIMEOUT_READY)),
            host: self.listen_host(findings),
            ports: self.ports(shards, replicas, findings),
            log: log(&self.own.log, &self.with.log),
            container: self.container(findings),
            monitoring: self.monitoring(shards, replicas, findings),
        };
        self.set_program(&mut run, findings);
        self.check_programs(&run, findings);
        Run::Local(Box::new(run))
    }

    fn set_program(&self, run: &mut LocalRun, findings: &mut Findings) {
        let written = self.entry.uses.as_ref();
        match written.map(|uses| &uses.value) {
            Some(Program::Named(uses)) => run.uses = uses.clone(),
            Some(Program::Hub(name)) => {
                let place = written.map_or(&self.entry.place, |uses| &uses.place);
                if let Some(image) = self.image(name, place, findings) {
                    run.uses = image;
                }
            }
            Some(Program::Config(written)) => written.config.clone().overlay(run),
            // A join with nothing to do is what the other methods are mostly written for.
            None if self.entry.method == Method::Add => {
                let message = "there is no `uses`, so documents pass unchanged";
                findings.warn(Problem::new(&self.entry.place, message));
            }
            None => {}
        }
    }

    /// A program that is called around the shards, if there are several.
    fn beside_shards(
        &self,
        key: &str,
        shards: NonZeroU16,
        field: impl Fn(&Inheritable) -> Option<&At<Program>>,
        findings: &mut Findings,
    ) -> Option<Uses> {
        let written = field(self.own).or_else(|| field(self.with))?;
        if shards == NonZeroU16::MIN {
            let message = format!("`{key}` has no effect: there is one shard only");
            findings.warn(Problem::new(&written.place, message));
            return None;
        }
        match &written.value {
            Program::Named(uses) => Some(uses.clone()),
            Program::Hub(name) => self.image(name, &written.place, findings),
            Program::Config(written) if written.config.is_bare() => Some(written.config.uses()),
            Program::Config(_) => {
                let message = format!("`{key}` takes no config with options of its own");
                let remedy = "name a program, or a folder with a `config.yml`";
                findings.problem(Problem::new(&written.place, message).remedy(remedy));
                None
            }
        }
    }

    /// The image that a name means in the flow's hub, or else in the user's own.
    fn image(&self, name: &HubName, place: &Place, findings: &mut Findings) -> Option<Uses> {
        let hub = &self.spec.hub;
        let own = || hub.variable.as_deref().filter(|it| !it.is_empty());
        let found = match (&hub.written, own()) {
            (Some(written), _) => Ok(written.value.clone()),
            (None, Some(own)) => {
                Hub::parse(own).map_err(|error| format!("{HUB_VARIABLE}: {error}"))
            }
            (None, None) => Err("is a name in a hub, and there is none".to_owned()),
        };
        let told = found.map_err(|why| {
            let remedy = "write `hub: registry.example.com/team` under `with`, or set FLOW_HUB";
            findings.problem(Problem::new(place, why).remedy(remedy));
        });
        told.ok().map(|hub| Uses::Image(name.image(&hub)))
    }

    fn workers(&self) -> Workers {
        let concurrent = self.option(|it| it.allow_concurrent.as_ref()) == Some(true);
        let workers = self.option(|it| it.workers.as_ref());
        workers.unwrap_or(if concurrent {
            Workers::Auto
        } else {
            Workers::default()
        })
    }

    fn exit_on_exceptions(&self) -> Vec<String> {
        let written = self.own.exit_on_exceptions.as_ref();
        let written = written.or(self.with.exit_on_exceptions.as_ref());
        let names = written.into_iter().flat_map(|names| &names.value);
        names.map(|name| name.value.clone()).collect()
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

    fn ports(&self, shards: NonZeroU16, replicas: NonZeroU16, findings: &mut Findings) -> Vec<u16> {
        let Some(ports) = &self.entry.ports else {
            return Vec::new();
        };
        let processes = usize::from(shards.get()) * usize::from(replicas.get());
        if ports.value.len() > processes {
            let of_shards = match shards.get() {
                1 => String::new(),
                shards => format!(" of each of {shards} shards"),
            };
            let len = ports.value.len();
            let message = format!("has {len} ports for {replicas} replicas{of_shards}");
            findings.problem(Problem::new(&ports.place, message).remedy("one each is enough"));
        }
        ports.value.iter().map(|port| port.value).collect()
    }
}

fn first<T: Clone, const N: usize>(written: [&Option<At<T>>; N]) -> Option<T> {
    written
        .into_iter()
        .flatten()
        .next()
        .map(|at| at.value.clone())
}
