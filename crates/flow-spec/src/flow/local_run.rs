//! The processes that a flow starts for a node.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flow_core::Secret;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::container::Container;
use super::entry::EntryChecker;
use super::monitoring::Monitoring;
use super::options::{env, is_set, log, or_default, value, values};
use super::telemetry::{Telemetry, telemetry};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan, Spanned};
use crate::forms::Host;
use crate::keys::{INHERITED, Key};
use crate::spec::hub::{HUB_VARIABLE, Hub, HubName};
use crate::spec::program::{ExecutorConfig, Program};
use crate::values::{
    BatchingRule, ConnectMethod, Env, InheritEnv, LogStyle, PythonSource, Sandbox, Uses, Workers,
};

/// How long a process may take to be ready if the file does not say, as in Jina: a model may have to be
/// downloaded first.
pub(super) const TIMEOUT_READY: Duration = Duration::from_secs(600);

/// Processes that the flow starts for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRun {
    /// The program.
    pub uses: Uses,
    /// What the executor is built with (`uses_with`).
    #[serde(serialize_with = "Secret::serialize_revealed")]
    pub with: Secret<Map<String, Value>>,
    /// Overrides of the executor's own `metas`.
    pub metas: Map<String, Value>,
    /// Endpoint → name of the executor's method, where it differs from the executor's own binding.
    pub requests: IndexMap<String, String>,
    /// Parts of the node's own state, each with replicas of its own.
    pub shards: NonZeroU16,
    /// Processes that share a shard's work.
    pub replicas: NonZeroU16,
    /// What runs before the shards, if there are several.
    pub before: Option<Uses>,
    /// What runs after the shards on the replies of all of them, if there are several.
    pub after: Option<Uses>,
    /// Threads of each process that run the executor.
    pub workers: Workers,
    /// Endpoint or method → how requests to it share calls, where it differs from the executor's own rule.
    pub batching: IndexMap<String, BatchingRule>,
    /// Names of failures after whose reply the process ends.
    pub exit_on_exceptions: Vec<String>,
    /// Whether a Python executor runs in an environment of its own, with its `requirements.txt` installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub install_requirements: bool,
    /// Environment variables of each process.
    #[serde(serialize_with = "Env::serialize_revealed")]
    pub env: Env,
    /// What each process inherits of the environment of `flow up`; `None` means the default of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherit_env: Option<InheritEnv>,
    /// The limits that the kernel enforces on each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Folder for the executor's files.
    pub workspace: Option<PathBuf>,
    /// Maximum time until a replica is ready; `None` sets no limit.
    pub timeout_ready: Option<Duration>,
    /// The address on which it listens; `None` means that only this machine can connect.
    pub host: Option<String>,
    /// The port of the first replica, the second, …; replicas beyond the list take any free port.
    pub ports: Vec<u16>,
    /// The format of its log; `None` means that of `flow up`.
    pub log: Option<LogStyle>,
    /// Its containers, if `uses` is an image.
    #[serde(default)]
    pub container: Container,
    /// How its processes serve their metrics; `None` disables them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
    /// What its processes export to collectors of OpenTelemetry.
    #[serde(default, skip_serializing_if = "Telemetry::is_none")]
    pub telemetry: Telemetry,
    /// Whether it runs in the process of the gateway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub colocate: bool,
}

impl LocalRun {
    /// What the executor is built with, as JSON; `None` if that is nothing.
    #[must_use]
    pub fn with_as_json(&self) -> Option<Secret> {
        let with = self.with.reveal();
        let text = || Value::from(with.clone()).to_string();
        (!with.is_empty()).then(|| Secret::new(text()))
    }

    /// Arguments that tell an executor's process its options, except `uses_with`, which may contain secrets. An argument
    /// has the name of the option's key, as in `--uses-metas`, and options that have their default are left out.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let json = |empty: bool, value: Value| (!empty).then(|| value.to_string());
        let batching = serde_json::to_value(&self.batching).expect("a rule is always JSON");
        let requests = self.requests.iter();
        let requests =
            requests.map(|(endpoint, method)| (endpoint.clone(), Value::from(method.clone())));
        let exceptions = &self.exit_on_exceptions;
        let is_default = self.workers == Workers::default();
        let options: [(&Key, Option<String>); 5] = [
            (
                &INHERITED.uses_metas.key,
                json(self.metas.is_empty(), self.metas.clone().into()),
            ),
            (
                &INHERITED.uses_requests.key,
                json(self.requests.is_empty(), requests.collect()),
            ),
            (
                &INHERITED.uses_dynamic_batching.key,
                json(self.batching.is_empty(), batching),
            ),
            (
                &INHERITED.workers.key,
                (!is_default).then(|| self.workers.to_string()),
            ),
            (
                &INHERITED.exit_on_exceptions.key,
                (!exceptions.is_empty()).then(|| exceptions.join(",")),
            ),
        ];
        let options = options.into_iter();
        let written = options.filter_map(|(key, value)| Some([argument(key), value?]));
        written.flatten().collect()
    }
}

fn argument(key: &Key) -> String {
    format!("--{}", key.name.replace('_', "-"))
}

impl ExecutorConfig {
    /// Makes this the executor of `run`. Options of the flow win over those of the config, key by key.
    pub fn overlay(self, run: &mut LocalRun) {
        run.uses = self.uses();
        let own = std::mem::take(&mut run.with).into_revealed();
        run.with = Secret::new(merged(self.with.into_revealed(), own));
        let of_metas = workspace_of(&self.metas);
        run.metas = merged(self.metas, std::mem::take(&mut run.metas));
        run.requests = merged(self.requests, std::mem::take(&mut run.requests));
        run.batching = merged(self.batching, std::mem::take(&mut run.batching));
        let workspace = run.workspace.take().or(self.workspace);
        run.workspace = workspace.or(of_metas);
    }
}

/// The workspace in `metas`, where executors of Jina name it.
fn workspace_of(metas: &Map<String, Value>) -> Option<PathBuf> {
    let workspace = metas.get("workspace").and_then(Value::as_str);
    workspace.filter(|it| !it.is_empty()).map(PathBuf::from)
}

fn merged<M: Extend<(K, V)> + IntoIterator<Item = (K, V)>, K, V>(mut under: M, over: M) -> M {
    under.extend(over);
    under
}

impl EntryChecker<'_> {
    /// The processes of a node. The executor that they run is not looked for here.
    pub(super) fn local(&self, diagnostics: &mut Diagnostics) -> LocalRun {
        let options = &self.effective.options;
        let count = |written| value(written).unwrap_or(NonZeroU16::MIN);
        let (shards, replicas) = (count(&options.shards), count(&options.replicas));
        let mut run = LocalRun {
            uses: Uses::pass_through(),
            with: or_default(&self.entry.options.uses_with).values,
            metas: or_default(&options.uses_metas),
            requests: or_default(&options.uses_requests),
            shards,
            replicas,
            before: self.around_shards(
                (&INHERITED.uses_before.key, &options.uses_before),
                shards,
                diagnostics,
            ),
            after: self.around_shards(
                (&INHERITED.uses_after.key, &options.uses_after),
                shards,
                diagnostics,
            ),
            workers: self.workers(),
            batching: or_default(&options.uses_dynamic_batching),
            exit_on_exceptions: values(&options.exit_on_exceptions),
            install_requirements: is_set(&options.install_requirements),
            env: env([&self.spec.options.env, &self.entry.inherited.options.env]),
            inherit_env: value(&options.inherit_env),
            sandbox: self.sandbox(),
            workspace: (value(&options.workspace).map(PathBuf::from))
                .or_else(|| workspace_of(&or_default(&options.uses_metas))),
            timeout_ready: value(&options.timeout_ready).unwrap_or(Some(TIMEOUT_READY)),
            host: self.listen_host(diagnostics),
            ports: self.ports(shards, replicas, diagnostics),
            log: log(&self.effective.log),
            container: self.container(diagnostics),
            monitoring: self.monitoring(shards, replicas, diagnostics),
            telemetry: telemetry(
                &self.effective.telemetry,
                &self.entry.inherited.telemetry,
                diagnostics,
            ),
            colocate: is_set(&self.entry.options.colocate),
        };
        self.set_program(&mut run, diagnostics);
        self.check_sandbox(&run, diagnostics);
        self.check_colocation(&run, diagnostics);
        run
    }

    fn set_program(&self, run: &mut LocalRun, diagnostics: &mut Diagnostics) {
        let written = self.entry.options.uses.as_ref();
        match written.map(|uses| &uses.value) {
            Some(Program::Named(uses)) => run.uses = self.with_module(uses),
            Some(Program::Hub(name)) => {
                let span = written.map_or(&self.entry.span, |uses| &uses.span);
                if let Some(image) = self.image(name, span, diagnostics) {
                    run.uses = image;
                }
            }
            Some(Program::Config(written)) => written.config.clone().overlay(run),
            // Other methods are mostly written for joins that do nothing else.
            None if self.entry.method() == ConnectMethod::Add => {
                let message = "there is no `uses`, so documents pass unchanged";
                diagnostics.warn(Problem::new(&self.entry.span, message));
            }
            None => {}
        }
    }

    /// What runs, if `py_modules` says where the class is that `uses` names.
    fn with_module(&self, uses: &Uses) -> Uses {
        let modules = value(&self.entry.options.py_modules).unwrap_or_default();
        match (uses, modules.last()) {
            (Uses::Named(class), Some(module)) => {
                let module = Path::new(&module.value);
                Uses::Path(PythonSource::in_file(module, Some(class)))
            }
            _ => uses.clone(),
        }
    }

    /// A program that runs around the shards, if there are several.
    fn around_shards(
        &self,
        (key, written): (&Key, &Option<Spanned<Program>>),
        shards: NonZeroU16,
        diagnostics: &mut Diagnostics,
    ) -> Option<Uses> {
        let (key, written) = (key.name, written.as_ref()?);
        if shards == NonZeroU16::MIN {
            let message = format!("`{key}` has no effect: there is one shard only");
            diagnostics.warn(Problem::new(&written.span, message));
            return None;
        }
        match &written.value {
            Program::Named(uses) => Some(uses.clone()),
            Program::Hub(name) => self.image(name, &written.span, diagnostics),
            Program::Config(written) if written.config.is_bare() => Some(written.config.uses()),
            Program::Config(_) => {
                let message = format!("`{key}` takes no config with options of its own");
                let remedy = "name a program, or a folder with a `config.yml`";
                diagnostics.problem(Problem::new(&written.span, message).remedy(remedy));
                None
            }
        }
    }

    /// The image of a name in the flow's hub, or else in the user's own.
    fn image(
        &self,
        name: &HubName,
        span: &SourceSpan,
        diagnostics: &mut Diagnostics,
    ) -> Option<Uses> {
        let variable = self.spec.hub_variable.as_deref();
        let hub = match (value(&self.spec.options.hub), variable.unwrap_or_default()) {
            (Some(written), _) => Ok(written),
            (None, "") => Err("is a name in a hub, and no hub is set".to_owned()),
            (None, own) => Hub::parse(own).map_err(|error| format!("{HUB_VARIABLE}: {error}")),
        };
        match hub {
            Ok(hub) => Some(Uses::Image(name.image(&hub))),
            Err(why) => {
                let remedy = "write `hub: registry.example.com/team` under `with`, or set FLOW_HUB";
                diagnostics.problem(Problem::new(span, why).remedy(remedy));
                None
            }
        }
    }

    fn workers(&self) -> Workers {
        let options = &self.effective.options;
        value(&options.workers).unwrap_or(match is_set(&options.allow_concurrent) {
            true => Workers::Auto,
            false => Workers::default(),
        })
    }

    fn listen_host(&self, diagnostics: &mut Diagnostics) -> Option<String> {
        let written = self.effective.options.host.as_ref()?;
        let hosts: Vec<_> = written.value.iter().flat_map(|part| &part.value).collect();
        match hosts.as_slice() {
            [] => None,
            [
                Host {
                    name,
                    port: None,
                    has_scheme: false,
                    ..
                },
            ] => Some(name.clone()),
            _ => {
                let message =
                    "an executor that the flow starts listens at one host, without scheme and port";
                let remedy = "write `external: true` if the flow does not start it";
                diagnostics.problem(Problem::new(&written.span, message).remedy(remedy));
                None
            }
        }
    }

    fn ports(
        &self,
        shards: NonZeroU16,
        replicas: NonZeroU16,
        diagnostics: &mut Diagnostics,
    ) -> Vec<u16> {
        let Some(ports) = &self.entry.options.port else {
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
            diagnostics.problem(Problem::new(&ports.span, message).remedy("one each is enough"));
        }
        values(&self.entry.options.port)
    }
}
