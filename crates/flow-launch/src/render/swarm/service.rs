//! A service of a stack: its tasks, and how they are spread, replaced and limited.

use flow_spec::{Plan, Volume};

use super::options::{Publish, Swarm, TaskResources};
use super::stack::{
    Change, Deploy, Discrete, GenericResource, Limits, Mount, Mounted, PlacementConstraints, Port,
    Reservations, Resources, RestartPolicy, Service,
};
use crate::render::devices::AssignedDevices;
use crate::render::docker::{Healthcheck, as_it_is, entrypoint, secret_path, stop_grace_period};
use crate::render::gateway_health::GatewayHealth;
use crate::render::parts::{CACHE, WORKSPACE, Workload};
use crate::render::secret_references::SecretReferences;

/// Where the gateway finds its placement.
const PLACEMENT: &str = "/placement.json";
/// The volume for downloaded models, one on each node.
const CACHE_VOLUME: &str = "cache";
/// The name of the volume for the files of one replica: replicas that share a node have volumes of their own, and so have services of
/// the same name in different stacks.
const WORKSPACE_VOLUME: &str = "{{.Service.Name}}-workspace-{{.Task.Slot}}";
/// Reservations of memory are multiples of this.
const MEMORY_STEP: u64 = 32 << 20;
/// A new task starts before the old one ends.
const START_FIRST: &str = "start-first";
/// A task ends before the one that replaces it starts.
const STOP_FIRST: &str = "stop-first";

/// The volumes of a unit, each with its name on a node.
pub(super) fn volumes(unit: &Workload) -> Vec<(String, String)> {
    let mut volumes = Vec::new();
    if unit.needs.downloads_models {
        volumes.push((CACHE_VOLUME.to_owned(), "flow-cache".to_owned()));
    }
    if unit.keeps_files {
        volumes.push((workspace(unit), WORKSPACE_VOLUME.to_owned()));
    }
    let own = unit.folders.iter().filter(|it| !is_folder(it));
    volumes.extend(own.map(|it| (it.host.clone(), it.host.clone())));
    volumes
}

/// The key of the volume for the files of a unit.
fn workspace(unit: &Workload) -> String {
    format!("{}-workspace", unit.name)
}

/// What all services are made of.
pub(super) struct Services<'s> {
    pub(super) wanted: &'s Swarm,
    pub(super) plan: &'s Plan,
    pub(super) secret_references: SecretReferences<'s>,
}

impl Services<'_> {
    /// The service of the gateways, whose placement is in this config.
    pub(super) fn gateway(&self, unit: &Workload, config: &str) -> Service {
        let mut service = self.service(unit);
        let placement = ["--placement", PLACEMENT].map(str::to_owned);
        service.command.extend(placement);
        let config = Mounted::new(config, PLACEMENT).for_user_of_flow();
        service.configs.push(config);
        for (key, secret) in &self.wanted.secrets {
            service
                .secrets
                .push(Mounted::new(secret, key).for_user_of_flow());
        }
        let more = unit.more_ports.iter().map(|(_, port)| *port);
        let ports = std::iter::once(unit.port).chain(more);
        service.ports = ports.map(|port| self.port(port)).collect();
        service.healthcheck = Some(self.health_of_gateway(unit));
        // Docker publishes a port on all nodes only for services with a virtual address.
        if self.wanted.publish == Publish::Ingress {
            service.deploy.endpoint_mode = "vip";
        }
        service
    }

    /// The gateway's own health: that an executor cannot be reached is no reason to replace the gateway.
    fn health_of_gateway(&self, unit: &Workload) -> Healthcheck {
        let health = match GatewayHealth::of(&self.plan.gateway) {
            GatewayHealth::Grpc => "health",
            GatewayHealth::Http { .. } | GatewayHealth::Listening => "listening",
        };
        let url = format!("grpc://127.0.0.1:{}", unit.port);
        Healthcheck::ping(unit, &["--check", health, &url])
    }

    fn port(&self, port: u16) -> Port {
        Port {
            target: port,
            published: port,
            protocol: "tcp",
            mode: match self.wanted.publish {
                Publish::Ingress => "ingress",
                Publish::Host => "host",
            },
        }
    }

    pub(super) fn executor(&self, unit: &Workload) -> Service {
        let mut service = self.service(unit);
        let targets = [
            (unit.needs.downloads_models, CACHE_VOLUME.to_owned(), CACHE),
            (unit.keeps_files, workspace(unit), WORKSPACE),
        ];
        let used = targets.into_iter().filter(|(is_used, ..)| *is_used);
        service
            .volumes
            .extend(used.map(|(_, source, target)| Mount::Volume {
                source,
                target: target.to_owned(),
                read_only: false,
            }));
        service.volumes.extend(unit.folders.iter().map(folder));
        if unit.is_flow {
            let url = format!("grpc://127.0.0.1:{}", unit.port);
            service.healthcheck = Some(Healthcheck::ping(unit, &[&url]));
        }
        service
    }

    fn service(&self, unit: &Workload) -> Service {
        let key = unit.option_name();
        let env = unit.env.revealed().map(|(name, value)| {
            let reference = self.secret_references.get(unit, name);
            let value = reference.unwrap_or_else(|| literal(value));
            (name.to_owned(), value)
        });
        let files: Vec<_> = self.wanted.secret_files_of(&key).collect();
        let paths = files.iter().map(|it| {
            let path = secret_path(&it.secret).display().to_string();
            (it.variable.clone(), path)
        });
        Service {
            image: as_it_is(&unit.image),
            entrypoint: entrypoint(unit),
            command: self.secret_references.command(unit, 0),
            environment: unit
                .health_port()
                .into_iter()
                .chain(env)
                .chain(paths)
                .collect(),
            ports: Vec::new(),
            configs: Vec::new(),
            secrets: files
                .iter()
                .map(|it| Mounted::new(&it.secret, &it.secret))
                .map(|it| match unit.is_flow {
                    true => it.for_user_of_flow(),
                    false => it,
                })
                .collect(),
            volumes: match unit.is_flow {
                true => vec![Mount::Tmpfs { target: "/tmp" }],
                false => Vec::new(),
            },
            healthcheck: None,
            stop_grace_period: stop_grace_period(unit),
            read_only: unit.is_flow,
            cap_drop: if unit.is_flow {
                vec!["ALL"]
            } else {
                Vec::new()
            },
            deploy: self.deploy(unit, &key),
        }
    }

    fn deploy(&self, unit: &Workload, key: &str) -> Deploy {
        let constraints: Vec<String> = self.wanted.constraints_of(key).cloned().collect();
        Deploy {
            replicas: unit.replicas,
            endpoint_mode: "dnsrr",
            update_config: self.change(unit, "rollback"),
            rollback_config: self.change(unit, "pause"),
            restart_policy: RestartPolicy {
                condition: "any",
                delay: "2s",
            },
            placement: (!constraints.is_empty()).then_some(PlacementConstraints { constraints }),
            resources: self.resources(unit, key),
        }
    }

    fn change(&self, unit: &Workload, failure_action: &'static str) -> Change {
        Change {
            parallelism: 1,
            order: self.order(unit),
            failure_action,
            monitor: "15s",
        }
    }

    /// A second task would share the files, find no free GPU, or find the port of its node taken.
    fn order(&self, unit: &Workload) -> &'static str {
        let has_port = unit.node.is_none() && self.wanted.publish == Publish::Host;
        if unit.keeps_files || has_port || unit.devices != AssignedDevices::None {
            STOP_FIRST
        } else {
            START_FIRST
        }
    }

    fn resources(&self, unit: &Workload, key: &str) -> Option<Resources> {
        let given = self.wanted.resources.get(key).cloned();
        let TaskResources {
            cpu,
            cpu_limit,
            memory,
        } = given.unwrap_or_default();
        let limits = Limits {
            cpus: cpu_limit,
            memory: memory.clone(),
        };
        let reservations = Reservations {
            cpus: cpu,
            // An estimate helps to place a task, and must not end one that needs more.
            memory: memory.or_else(|| unit.needs.memory.map(mebibytes)),
            generic_resources: self.gpus(unit).into_iter().collect(),
        };
        let resources = Resources {
            limits: (limits != Limits::default()).then_some(limits),
            reservations: (reservations != Reservations::default()).then_some(reservations),
        };
        let is_empty = resources.limits.is_none() && resources.reservations.is_none();
        (!is_empty).then_some(resources)
    }

    fn gpus(&self, unit: &Workload) -> Option<GenericResource> {
        let value = unit.devices.count().filter(|count| *count > 0)?;
        Some(GenericResource {
            discrete_resource_spec: Discrete {
                kind: self.wanted.gpu_resource.clone(),
                value,
            },
        })
    }
}

/// A text in which Swarm expands neither variables nor templates.
fn literal(text: &str) -> String {
    as_it_is(text).replace("{{", "{{\"{{\"}}")
}

/// Whether it is a folder of the machine, and not a volume of the engine.
pub(super) fn is_folder(volume: &Volume) -> bool {
    volume.host.starts_with('/')
}

fn folder(volume: &Volume) -> Mount {
    let (source, target) = (literal(&volume.host), literal(&volume.inside));
    let read_only = volume.read_only;
    if is_folder(volume) {
        return Mount::Bind {
            source,
            target,
            read_only,
        };
    }
    Mount::Volume {
        source,
        target,
        read_only,
    }
}

/// An amount of memory in Docker's notation, rounded up.
fn mebibytes(bytes: u64) -> String {
    format!("{}M", bytes.next_multiple_of(MEMORY_STEP) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swarm_expands_nothing_in_literal_text() {
        assert_eq!(literal("query: {{ text }}"), r#"query: {{"{{"}} text }}"#);
        assert_eq!(literal("$HOME"), "$$HOME");
    }
}
