//! Which containers a flow needs, and what runs in them: the same for every export. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use flow_core::{NodeName, Secret, has_password, is_secret_name};
use flow_spec::{
    DockerOption, DockerOptions, Env, LocalRun, LogStyle, NodePlan, Plan, Protocol, Run, Sandbox,
    Telemetry, Uses, Volume,
};

use crate::render::argument::Argument;
use crate::render::devices::AssignedDevices;
use crate::render::export::{ExportError, ExportOptions, Needs};
use crate::render::gateway_files::check_files;
use crate::render::metadata_secrets;
use crate::spec::invocation::{BuiltIn, Invocation, OPTIONS_FROM_STDIN, Programs, SharedOptions};
use crate::supervisor::backoff::RestartPolicy;

/// The port of every executor, and of a gateway whose port the file does not set.
pub(crate) const PORT: u16 = 8080;
/// The port for metrics, as in Jina's exports, unless the file sets that of the gateway.
pub(crate) const METRICS_PORT: u16 = 9090;
/// The program in flow's own image.
pub(crate) const PROGRAM: &str = "/usr/local/bin/flow";
/// Where executors keep their files. The folder in the flow file is one of the machine that runs `flow up`.
pub(crate) const WORKSPACE: &str = "/workspace";
/// The folder for models in flow's own image.
pub(crate) const CACHE: &str = "/cache";
/// Memory for a gateway: 16 MB when idle, 31 MB under load, plus the size of the requests in progress.
const GATEWAY_MEMORY: u64 = 128 << 20;
/// Longest label of a host name.
const NAME_LEN_MAX: usize = 63;

/// A kind of container: a number of replicas with the same image and arguments.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    /// Its host name: a DNS label.
    pub(crate) name: String,
    /// Its node; `None` for the gateway.
    pub(crate) node: Option<NodeName>,
    pub(crate) image: String,
    /// Whether it runs the program `flow` instead of the image's own program.
    pub(crate) is_flow: bool,
    /// Replaces the image's entrypoint.
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) port: u16,
    /// The ports beside the first, each with its name.
    pub(crate) more_ports: Vec<(String, u16)>,
    /// `None` without monitoring.
    pub(crate) metrics: Option<Metrics>,
    /// What it exports to OpenTelemetry.
    pub(crate) telemetry: Telemetry,
    /// Prefix of the names of its replicas: `enc`, or `enc/shard-0`.
    runtime: String,
    pub(crate) env: Env,
    pub(crate) devices: AssignedDevices,
    /// Folders of the machine that it mounts.
    pub(crate) folders: Vec<Volume>,
    /// Its `docker_kwargs`.
    #[cfg_attr(
        not(feature = "kubernetes"),
        allow(dead_code, reason = "only the export for Kubernetes reads it")
    )]
    pub(crate) options: DockerOptions,
    /// Whether it keeps files in [`WORKSPACE`].
    pub(crate) keeps_files: bool,
    pub(crate) replicas: u16,
    pub(crate) needs: Needs,
    /// The grace period for requests in progress at the end.
    pub(crate) grace: Duration,
    /// Time limit until it is ready; `None` for no limit.
    pub(crate) timeout_ready: Option<Duration>,
}

/// How the containers of a unit serve metrics.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) port: u16,
}

impl Workload {
    /// What looks like a secret: variables, and those that stand for options.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = (&str, &Secret)> {
        let variables = self.env.iter();
        let variables = variables
            .filter(|(name, value)| is_secret_name(name) || has_password(value.reveal()))
            .map(|(name, value)| (name.as_str(), value));
        variables.chain(self.option_secrets())
    }

    /// The variables that stand for options.
    pub(crate) fn option_secrets(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.arguments.iter().flat_map(Argument::secrets)
    }

    /// The variable by which an image of an executor finds the port for its own health check. Only the images that are made with
    /// flow read it.
    pub(crate) fn health_port(&self) -> Option<(String, String)> {
        let has_own_check = !self.is_flow && self.node.is_some();
        has_own_check.then(|| ("FLOW_LISTEN_PORT".to_owned(), self.port.to_string()))
    }

    /// Its name in options: that of its node, or `gateway`.
    pub(crate) fn option_name(&self) -> String {
        self.node
            .as_ref()
            .map_or_else(|| self.name.clone(), ToString::to_string)
    }

    /// All arguments of one of its replicas.
    pub(crate) fn arguments_of(&self, replica: u16) -> Vec<Argument> {
        let more = self.more_arguments(replica).into_iter();
        let own = self.arguments.iter().cloned();
        own.chain(more.map(Argument::from)).collect()
    }

    fn more_arguments(&self, replica: u16) -> Vec<String> {
        let mut arguments = Vec::new();
        if let Some(Metrics { port }) = &self.metrics {
            arguments.push("--monitoring".to_owned());
            arguments.extend(["--port-monitoring".to_owned(), port.to_string()]);
        }
        // The gateway learns it from the flow file.
        if self.node.is_none() {
            return arguments;
        }
        arguments.extend(self.telemetry.arguments());
        if self.metrics.is_some() || !self.telemetry.is_none() {
            let name = format!("{}/rep-{replica}", self.runtime);
            arguments.extend(["--runtime-name".to_owned(), name]);
        }
        arguments
    }
}

/// The containers of a node that the flow starts.
#[derive(Debug, Clone)]
pub(crate) struct NodeUnits {
    pub(crate) shards: Vec<Workload>,
    pub(crate) before: Option<Workload>,
    pub(crate) after: Option<Workload>,
}

impl NodeUnits {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Workload> {
        self.shards.iter().chain(&self.before).chain(&self.after)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Workload> {
        let around = self.before.iter_mut().chain(&mut self.after);
        self.shards.iter_mut().chain(around)
    }
}

/// The containers of a flow.
#[derive(Debug, Clone)]
pub(crate) struct Units {
    /// Its arguments lack the placement, which each target passes in its own way.
    pub(crate) gateway: Workload,
    /// In the order of the plan; `None` for external nodes.
    pub(crate) nodes: Vec<Option<NodeUnits>>,
}

impl Units {
    pub(crate) fn of(plan: &Plan, target: &ExportOptions) -> Result<Self, ExportError> {
        check_files(plan)?;
        let shared = shared(target);
        let units = |node: &NodePlan| match &node.run {
            Run::Local(run) => NodeContainers::new(node, run, target, &shared)
                .units()
                .map(Some),
            Run::External { .. } => Ok(None),
        };
        let nodes = plan
            .nodes
            .iter()
            .map(units)
            .collect::<Result<Vec<_>, _>>()?;
        let units = Self {
            gateway: gateway(plan, &nodes, target),
            nodes,
        };
        let keys: Vec<_> = units.executors().map(image_key).collect();
        check_names(target.images.keys(), "--image", &keys)?;
        units.check_hosts()?;
        Ok(units)
    }

    pub(crate) fn executors(&self) -> impl Iterator<Item = &Workload> {
        self.nodes.iter().flatten().flat_map(NodeUnits::all)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Workload> {
        let nodes = self.nodes.iter_mut().flatten();
        nodes
            .flat_map(NodeUnits::all_mut)
            .chain([&mut self.gateway])
    }

    fn check_hosts(&self) -> Result<(), ExportError> {
        let mut seen = BTreeSet::new();
        for unit in self.executors().chain([&self.gateway]) {
            if unit.name.is_empty() || unit.name.len() > NAME_LEN_MAX {
                let node = unit.node.clone();
                return Err(ExportError::BadName(
                    node.map_or_else(String::new, |it| it.to_string()),
                ));
            }
            if !seen.insert(&unit.name) {
                return Err(ExportError::SameName(unit.name.clone()));
            }
        }
        Ok(())
    }
}

/// Checks that every name in an option is a known one.
pub(crate) fn check_names<'n>(
    mut given: impl Iterator<Item = &'n String>,
    option: &'static str,
    known: &[String],
) -> Result<(), ExportError> {
    match given.find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(ExportError::NoSuchNode {
            option,
            name: name.clone(),
        }),
    }
}

/// The name of a container in `--image`: that of its node, with a suffix for `uses_before` and `uses_after`.
fn image_key(unit: &Workload) -> String {
    let node = unit.node.as_ref().map_or("", NodeName::as_str);
    match AROUND.iter().find(|around| unit.name.ends_with(*around)) {
        Some(around) => format!("{node}{around}"),
        None => node.to_owned(),
    }
}

const BEFORE: &str = "-uses-before";
const AFTER: &str = "-uses-after";
const AROUND: [&str; 2] = [BEFORE, AFTER];

/// The host name of a node: a DNS label.
pub(crate) fn host_name(name: &str) -> String {
    let name = name.to_ascii_lowercase().replace('_', "-");
    name.trim_matches('-').to_owned()
}

fn shared(target: &ExportOptions) -> SharedOptions {
    SharedOptions {
        programs: Programs {
            flow: PROGRAM.into(),
            built_in: target.built_in.iter().map(|it| built_in(it)).collect(),
        },
        grace: target.grace,
        log: LogStyle::Text,
        restart_policy: RestartPolicy::default(),
        flow: None,
        state_directory: None,
    }
}

/// A built-in executor in a container, which inherits nothing.
fn built_in(name: &str) -> BuiltIn {
    BuiltIn {
        name: name.to_owned(),
        variables: Vec::new(),
        uses_all_cores: false,
    }
}

fn gateway(plan: &Plan, nodes: &[Option<NodeUnits>], target: &ExportOptions) -> Workload {
    let port = plan.gateway.port.filter(|port| *port > 0).unwrap_or(PORT);
    let log = match plan.gateway.log {
        Some(LogStyle::Json) => "json",
        Some(LogStyle::Text | LogStyle::Off) | None => "text",
    };
    let grace = format!("{}ms", target.grace.as_millis());
    let port_text = port.to_string();
    let arguments = [
        "gateway", "--host", "0.0.0.0", "--port", &port_text, "--grace", &grace, "--log", log,
    ];
    // The gateway is ready when all executors are.
    let waits_for = nodes.iter().flatten().flat_map(NodeUnits::all);
    let limits = waits_for.map(|unit| unit.timeout_ready);
    let limits = limits.chain([plan.gateway.timeout_ready]);
    Workload {
        name: "gateway".to_owned(),
        node: None,
        image: target.image.clone(),
        is_flow: true,
        entrypoint: None,
        arguments: arguments.map(|it| it.to_owned().into()).to_vec(),
        port,
        more_ports: more_ports(plan, port),
        metrics: plan.gateway.monitoring.as_ref().map(|it| Metrics {
            port: Some(it.port(0))
                .filter(|port| *port > 0)
                .unwrap_or(METRICS_PORT),
        }),
        telemetry: plan.gateway.telemetry.clone(),
        runtime: "gateway".to_owned(),
        env: gateway_env(plan),
        devices: AssignedDevices::None,
        folders: Vec::new(),
        options: DockerOptions::default(),
        keeps_files: false,
        replicas: 1,
        needs: Needs {
            memory: Some(GATEWAY_MEMORY),
            downloads_models: false,
        },
        grace: target.grace,
        timeout_ready: limits
            .collect::<Option<Vec<_>>>()
            .and_then(|it| it.into_iter().max()),
    }
}

/// The variables of the gateway, and those with secrets of the metadata of its calls.
fn gateway_env(plan: &Plan) -> Env {
    let own = plan.gateway.env.clone().into_iter();
    own.chain(metadata_secrets::variables(plan)).collect()
}

/// The ports of the gateway beside the first, with names such as `http-2`. Those that the file leaves open follow the
/// first.
fn more_ports(plan: &Plan, first: u16) -> Vec<(String, u16)> {
    let ports = plan.gateway.more_ports.iter().zip(1_u16..);
    let named = ports.map(|(it, number)| {
        let protocol = it.protocols.first().copied().unwrap_or(Protocol::Grpc);
        let name = format!("{}-{}", protocol.name().to_lowercase(), number + 1);
        let port = it.port.unwrap_or_else(|| first.saturating_add(number));
        (name, port)
    });
    named.collect()
}

/// The limits of a sandbox as options of a container.
fn container_limits(sandbox: Sandbox) -> [Option<(&'static str, DockerOption)>; 3] {
    const NANOS_OF_A_MILLI: i64 = 1_000_000;
    let bytes = sandbox.memory.and_then(|it| i64::try_from(it.get()).ok());
    let cpus = sandbox.cpus.map(|it| i64::from(it.0.get()));
    [
        bytes.map(|it| ("mem_limit", DockerOption::Number(it))),
        cpus.map(|it| ("nano_cpus", DockerOption::Number(it * NANOS_OF_A_MILLI))),
        sandbox
            .read_only
            .then_some(("read_only", DockerOption::Flag(true))),
    ]
}

/// A node, to be split into its containers.
struct NodeContainers<'p> {
    node: &'p NodePlan,
    /// Its options in a container.
    run: LocalRun,
    target: &'p ExportOptions,
    shared: &'p SharedOptions,
}

impl<'p> NodeContainers<'p> {
    fn new(
        node: &'p NodePlan,
        run: &LocalRun,
        target: &'p ExportOptions,
        shared: &'p SharedOptions,
    ) -> Self {
        let mut run = run.clone();
        run.host = Some("0.0.0.0".to_owned());
        run.workspace = run.workspace.map(|_| WORKSPACE.into());
        let limits = run.sandbox.map(container_limits).unwrap_or_default();
        for (option, value) in limits.into_iter().flatten() {
            run.container.options.set(option, value);
        }
        Self {
            node,
            run,
            target,
            shared,
        }
    }

    fn units(&self) -> Result<NodeUnits, ExportError> {
        let shards = self.run.shards.get();
        let suffix = |shard| match shards {
            1 => String::new(),
            _ => format!("-{shard}"),
        };
        let shards = (0..shards).map(|shard| self.shard(shard, &suffix(shard)));
        let around = |uses: &Option<Uses>, suffix| match uses {
            Some(uses) => self.around(uses, suffix).map(Some),
            None => Ok(None),
        };
        Ok(NodeUnits {
            shards: shards.collect::<Result<_, _>>()?,
            before: around(&self.run.before, BEFORE)?,
            after: around(&self.run.after, AFTER)?,
        })
    }

    fn shard(&self, shard: u16, suffix: &str) -> Result<Workload, ExportError> {
        let invocation = Invocation::exported_executor(self.shared, &self.run);
        let image = self.image(&self.run.uses, self.node.name.as_str())?;
        let mut unit = self.unit(invocation, suffix, image);
        unit.replicas = self.run.replicas.get();
        unit.needs = self.needs(self.node.name.as_str());
        if self.run.shards.get() > 1 {
            unit.runtime = format!("{}/shard-{shard}", self.node.name);
        }
        Ok(unit)
    }

    /// The container of `uses_before` or `uses_after`, without the devices of the shards.
    fn around(&self, uses: &Uses, suffix: &str) -> Result<Workload, ExportError> {
        let invocation = Invocation::around_shards(self.shared, &self.run, uses);
        let key = format!("{}{suffix}", self.node.name);
        let image = self.image(uses, &key)?;
        let mut unit = self.unit(invocation, suffix, image);
        unit.devices = AssignedDevices::None;
        unit.needs = self.needs(&key);
        unit.runtime = format!("{}/{}", self.node.name, suffix.trim_start_matches('-'));
        Ok(unit)
    }

    fn unit(
        &self,
        invocation: Invocation,
        suffix: &str,
        (image, is_flow): (String, bool),
    ) -> Workload {
        let name = &self.node.name;
        let (shared_out, env) = AssignedDevices::taken_from(invocation.env);
        let container = &self.run.container;
        let asked_for = container.gpus.as_ref().and_then(AssignedDevices::asked_for);
        let arguments = invocation.arguments.into_iter();
        let mut arguments: Vec<Argument> = arguments
            .map(|it| match it == OPTIONS_FROM_STDIN {
                true => Argument::of_options(self.run.with.reveal(), &env),
                false => it.into(),
            })
            .collect();
        let last = ["--port", &PORT.to_string(), "--name", name.as_str()];
        arguments.extend(last.map(|it| Argument::from(it.to_owned())));
        Workload {
            name: format!("{}{suffix}", host_name(name.as_str())),
            node: Some(name.clone()),
            image,
            is_flow,
            entrypoint: container.entrypoint.clone(),
            arguments,
            port: PORT,
            more_ports: Vec::new(),
            metrics: self
                .run
                .monitoring
                .as_ref()
                .map(|_| Metrics { port: METRICS_PORT }),
            telemetry: self.run.telemetry.clone(),
            runtime: name.to_string(),
            env,
            devices: asked_for.unwrap_or(shared_out),
            folders: container.volumes.clone(),
            options: container.options.clone(),
            keeps_files: self.run.workspace.is_some(),
            replicas: 1,
            needs: Needs::default(),
            grace: self.shared.grace,
            timeout_ready: self.run.timeout_ready,
        }
    }

    fn needs(&self, key: &str) -> Needs {
        self.target.needs.get(key).copied().unwrap_or_default()
    }

    /// The image, and whether flow's own program runs in it.
    fn image(&self, uses: &Uses, key: &str) -> Result<(String, bool), ExportError> {
        let given = self.target.images.get(key);
        let no_image = |uses: String| ExportError::NoImage {
            key: key.to_owned(),
            uses,
        };
        match uses {
            Uses::Named(name) if self.target.built_in.contains(name) => {
                Ok((given.unwrap_or(&self.target.image).clone(), true))
            }
            Uses::Named(name) => given
                .map(|image| (image.clone(), false))
                .ok_or_else(|| no_image(name.clone())),
            Uses::Path(path) => given
                .map(|image| (image.clone(), false))
                .ok_or_else(|| no_image(path.display().to_string())),
            Uses::Image(image) => Ok((given.unwrap_or(image).clone(), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_name_becomes_a_host_name() {
        let check = |name: &str, host: &str| assert_eq!(host_name(name), host);
        check("encoder", "encoder");
        check("Text_Encoder", "text-encoder");
        check("_private_", "private");
        check("___", "");
    }

    #[test]
    fn a_sandbox_limits_the_container() {
        let limits = Sandbox {
            memory: std::num::NonZeroU64::new(2 << 30),
            cpus: std::num::NonZeroU32::new(1500).map(flow_spec::Millicpus),
            no_network: true,
            read_only: true,
        };
        let expected = [
            ("mem_limit", DockerOption::Number(2 << 30)),
            ("nano_cpus", DockerOption::Number(1_500_000_000)),
            ("read_only", DockerOption::Flag(true)),
        ];
        assert_eq!(container_limits(limits), expected.map(Some));
        assert_eq!(container_limits(Sandbox::default()), [None, None, None]);
    }

    #[test]
    fn an_option_must_name_an_existing_entry() {
        let known = ["a".to_owned(), "b".to_owned()];
        let check = |given: &str| check_names([&given.to_owned()].into_iter(), "--image", &known);
        assert_eq!(check("a"), Ok(()));
        let error = check("c").unwrap_err().to_string();
        assert_eq!(
            error,
            "`--image` names `c`, which is not an executor that the flow starts"
        );
    }
}
