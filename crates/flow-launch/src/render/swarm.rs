//! Renders a flow for Docker Swarm: a stack file for `docker stack deploy`, and a file with the gateway's placement.
//!
//! Each shard of an executor is a service with replicas. Its name resolves to the addresses of all healthy tasks
//! (`endpoint_mode: dnsrr`), over which the gateway balances requests itself. Through a virtual address, a gRPC connection
//! would stay with one task.

mod options;
mod service;
mod stack;

use flow_spec::{Address, LocalRun, Plan, Run};
use indexmap::IndexMap;

use self::service::Services;
use self::stack::{Config, Secret, Stack, VolumeName};
use crate::render::devices::AssignedDevices;
use crate::render::docker;
use crate::render::export::{
    ExportError, ExportOptions, GatewayFiles, Rendered, RenderedFile, build_commands,
};
use crate::render::gateway_files::check_secrets;
use crate::render::parts::{Units, Workload, check_names, host_name};
use crate::render::placement::{self, placement};
use crate::render::secret_references::SecretReferences;
use crate::render::{fingerprint, yaml};

pub use self::options::{Publish, SecretFile, Swarm, TaskResources};

/// The file of the gateway's placement, in the folder of the stack.
const PLACEMENT_FILE: &str = "placement.json";

/// The flow as a stack.
///
/// # Errors
/// If a node has no image, an option names an unknown node, or Swarm lacks what the flow file asks for.
pub fn swarm(plan: &Plan, target: &ExportOptions, wanted: &Swarm) -> Result<Rendered, ExportError> {
    check_plan(plan)?;
    check_secrets(&plan.gateway, |key| wanted.secrets.contains_key(key))?;
    let mut units = Units::of(plan, target)?;
    check_options(wanted, &units)?;
    check_folders(wanted, &units)?;
    units.gateway.replicas = wanted.gateways.get();
    let placement = placement(plan, &units, &wanted.gateway_files(), |unit| {
        vec![Address::new(unit.name.clone(), unit.port)]
    });
    let mut placement =
        serde_json::to_string_pretty(&placement).expect("a placement is always JSON");
    placement.push('\n');
    let config = format!("placement-{}", fingerprint::of([placement.as_str()]));
    let services = Services {
        wanted,
        plan,
        secret_references: SecretReferences::of(&units),
    };
    let stack = stack(&services, &units, config);
    let text = header(target, &stack_name(target)) + &yaml::document(&stack);
    Ok(Rendered {
        files: vec![
            RenderedFile {
                path: "stack.yml".into(),
                text,
            },
            RenderedFile {
                path: PLACEMENT_FILE.into(),
                text: placement,
            },
        ],
        remarks: remarks(&services, &units),
    })
}

/// The name of the stack in examples.
#[must_use]
pub fn stack_name(target: &ExportOptions) -> String {
    let name = host_name(&target.flow);
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || it == '-';
    if name.is_empty() || !name.chars().all(is_allowed) {
        return "flow".to_owned();
    }
    name
}

fn stack(services: &Services<'_>, units: &Units, config: String) -> Stack {
    let mut all = IndexMap::new();
    let gateway = services.gateway(&units.gateway, &config);
    all.insert(units.gateway.name.clone(), gateway);
    for unit in units.executors() {
        all.insert(unit.name.clone(), services.executor(unit));
    }
    let names = all.values().flat_map(|it| it.secrets.iter());
    let external = |secret: &stack::Mounted| {
        let it = Secret { external: true };
        (secret.source.clone(), it)
    };
    let secrets = names.map(external).collect();
    let volumes = units.executors().flat_map(service::volumes);
    Stack {
        version: stack::VERSION,
        volumes: volumes
            .map(|(key, name)| (key, VolumeName { name }))
            .collect(),
        services: all,
        configs: [(config, Config::of(PLACEMENT_FILE))].into(),
        secrets,
    }
}

fn header(target: &ExportOptions, name: &str) -> String {
    format!(
        "# Made from {} by `flow export swarm`. Run it with `docker stack deploy -c stack.yml {name}`.\n\
         # Every node pulls the image {}, which is built in a checkout of flow:\n#   {}\n",
        target.source,
        target.image,
        build_commands(&target.image)
    )
}

/// Refuses what Swarm has no option for.
fn check_plan(plan: &Plan) -> Result<(), ExportError> {
    for node in &plan.nodes {
        let Run::Local(run) = &node.run else { continue };
        if let Some((key, why)) = unsupported(run) {
            let name = node.name.to_string();
            return Err(ExportError::Unsupported { name, key, why });
        }
    }
    Ok(())
}

fn unsupported(run: &LocalRun) -> Option<(&'static str, &'static str)> {
    let container = &run.container;
    let gpus = container.gpus.as_ref().and_then(AssignedDevices::asked_for);
    let has_all = gpus.is_some_and(|gpus| gpus.count().is_none());
    let all = [
        (
            "gpus: all",
            has_all,
            "and Swarm counts the GPUs of its nodes: set how many each replica needs, such as `gpus: 1`",
        ),
        (
            "docker_kwargs",
            !container.options.is_empty(),
            "which `docker stack deploy` does not take: leave them out; `--resources` limits memory and CPU",
        ),
        (
            "force_network_mode",
            container.on_host_network,
            "and replicas on a machine's own network are not found by name: leave it out",
        ),
    ];
    let found = all.into_iter().find(|(_, is_said, _)| *is_said);
    found.map(|(key, _, why)| (key, why))
}

fn check_options(wanted: &Swarm, units: &Units) -> Result<(), ExportError> {
    let mut known: Vec<String> = units.executors().map(Workload::option_name).collect();
    known.push(units.gateway.option_name());
    let placed = wanted.constraints.iter().map(|(name, _)| name);
    check_names(placed, "--place", &known)?;
    check_names(wanted.resources.keys(), "--resources", &known)?;
    let files = wanted.secret_files.iter().map(|(name, _)| name);
    check_names(files, "--secret-file", &known)
}

/// Refuses folders of this machine for tasks that may run on any node.
fn check_folders(wanted: &Swarm, units: &Units) -> Result<(), ExportError> {
    let is_placed = |unit: &Workload| wanted.constraints_of(&unit.option_name()).next().is_some();
    let mut units = units.executors();
    let has_folder = |unit: &Workload| unit.folders.iter().any(service::is_folder);
    let found = units.find(|unit| has_folder(unit) && !is_placed(unit));
    found.map_or(Ok(()), |unit| {
        Err(ExportError::Unsupported {
            name: unit.option_name(),
            key: "volumes",
            why: "folders that other nodes may not have: put the files into its image, or choose nodes that have \
                  the folders with `--place NODE=CONSTRAINT`",
        })
    })
}

fn remarks(services: &Services<'_>, units: &Units) -> Vec<String> {
    let (plan, wanted) = (services.plan, services.wanted);
    let mut remarks = placement::remarks(plan, |_, _| Vec::new(), &placement::LIMITS);
    remarks.extend(services.secret_references.remarks(|name| {
        format!(
            "set the variable for `docker stack deploy`, or, if it can be read from a file, keep it in a secret of the \
             Swarm, and let a variable name the file with `--secret-file NODE={name}_FILE:SECRET`"
        )
    }));
    for unit in units.executors() {
        let (key, name) = (unit.option_name(), &unit.name);
        if unit.keeps_files && wanted.constraints_of(&key).next().is_none() {
            remarks.push(format!(
                "`{name}` keeps files on the node where it runs, and a task that moves to another node starts without them: choose the node with `--place {key}=node.hostname==HOST`"
            ));
        }
        if let Some(count) = unit.devices.count().filter(|count| *count > 0) {
            remarks.push(format!(
                "each task of `{name}` reserves {count} `{}`: list them on each node with `node-generic-resources` in its daemon.json, and its NVIDIA runtime needs `swarm-resource`",
                wanted.gpu_resource
            ));
        }
    }
    remarks
}

impl Swarm {
    /// Where the secrets are in the gateway's container.
    fn gateway_files(&self) -> GatewayFiles {
        GatewayFiles::at(|key| {
            let secret = self.secrets.get(key);
            secret.map(|_| docker::secret_path(key))
        })
    }
}
