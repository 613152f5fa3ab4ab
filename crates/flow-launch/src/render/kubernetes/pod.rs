//! One pod: its container, rights and resources.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, Lifecycle, LifecycleHandler, LocalObjectReference,
    PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile,
    SecurityContext, SleepAction, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::config::fingerprint;
use super::docker_options::PodOptions;
use super::monitor::METRICS;
use super::variables::env_from;
use super::volume::PLACEMENT_FILE;
use super::{EXECUTOR, Flow, GATEWAY, key, role};
use crate::render::argument::Argument;
use crate::render::parts::{PROGRAM, Workload};

/// User and group of flow's own image.
const USER: i64 = 65532;
/// Wait before the shutdown of a pod, which gets new connections until every node knows that it ends.
const GATEWAY_LEAVES: Duration = Duration::from_secs(5);
/// Time that a pod gets beyond a program's own grace period.
const GRACE_BEYOND: Duration = Duration::from_secs(5);
/// The default CPU request of a pod. It is small, so that a flow fits into a small cluster. An autoscaler compares with
/// the request, so with one an option has to set it.
const CPU: &str = "250m";
/// Labels of nodes over whose values pods are spread. Nodes without a zone are no hindrance.
const SPREAD: [&str; 2] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];
/// Memory requests are multiples of this.
const MEMORY_STEP: u64 = 32 << 20;

impl Flow<'_> {
    pub(super) fn pod(&self, unit: &Workload, config: &str) -> PodTemplateSpec {
        let fingerprint = fingerprint(unit, config);
        let options = PodOptions::of(&unit.options);
        PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(self.labels(unit)),
                annotations: Some([("flow/config".to_owned(), fingerprint)].into()),
                ..ObjectMeta::default()
            }),
            spec: Some(PodSpec {
                automount_service_account_token: Some(false),
                enable_service_links: Some(false),
                image_pull_secrets: self.pull_secrets(),
                security_context: Some(self.pod_security(unit, &options)),
                dns_config: options.dns(),
                host_aliases: options.hosts.clone(),
                termination_grace_period_seconds: Some(seconds(
                    leaves(unit) + unit.grace + GRACE_BEYOND,
                )),
                topology_spread_constraints: Some(
                    SPREAD.map(|over| self.spread(unit, over)).into(),
                ),
                containers: vec![self.container(unit, &options)],
                volumes: Some(self.volumes(unit)),
                ..PodSpec::default()
            }),
        }
    }

    fn container(&self, unit: &Workload, options: &PodOptions) -> Container {
        // Metrics distinguish pods by their names.
        let mut arguments = unit.arguments_of(0);
        if role(unit) == GATEWAY {
            let placement = ["--placement", PLACEMENT_FILE];
            arguments.extend(placement.map(|it| Argument::from(it.to_owned())));
        }
        // Kubernetes would substitute variables in `$(…)`.
        let literal = |text: &str| text.replace('$', "$$");
        let reference = |variable: &str| format!("$({variable})");
        let arguments = arguments.iter();
        let arguments = arguments.map(|it| it.render(literal, reference));
        Container {
            name: role(unit).to_owned(),
            image: Some(unit.image.clone()),
            command: command(unit),
            args: Some(arguments.collect()),
            env: self.variables(unit),
            env_from: env_from(unit),
            ports: Some(ports(unit)),
            startup_probe: Some(self.startup(unit)),
            readiness_probe: Some(self.readiness(unit)),
            liveness_probe: Some(self.liveness(unit)),
            lifecycle: lifecycle(unit),
            working_dir: options.working_dir.clone(),
            resources: Some(self.resources(unit, options)),
            security_context: Some(self.security(unit, options)),
            volume_mounts: Some(self.mounts(unit)),
            ..Container::default()
        }
    }

    fn pull_secrets(&self) -> Option<Vec<LocalObjectReference>> {
        let secrets = self.wanted.pull_secrets.iter();
        let secrets: Vec<_> = secrets
            .map(|name| LocalObjectReference { name: name.clone() })
            .collect();
        (!secrets.is_empty()).then_some(secrets)
    }

    /// Spreads the pods of a unit, if possible. Those of the version before do not count, so that a rolling change does
    /// not end with all new pods in one place.
    fn spread(&self, unit: &Workload, over: &str) -> TopologySpreadConstraint {
        let version = match self.is_stateful(unit) {
            true => "controller-revision-hash",
            false => "pod-template-hash",
        };
        TopologySpreadConstraint {
            max_skew: 1,
            topology_key: over.to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(self.selector(unit)),
            match_label_keys: Some(vec![version.to_owned()]),
            ..TopologySpreadConstraint::default()
        }
    }

    fn resources(&self, unit: &Workload, options: &PodOptions) -> ResourceRequirements {
        let asked = self.wanted.resources.get(&key(unit));
        let asked_cpu = asked.and_then(|it| it.cpu.clone());
        let cpu_limit = options.cpu_limit.clone().filter(|_| asked_cpu.is_none());
        // A request above the limit is an error in Kubernetes.
        let cpu = asked_cpu.or_else(|| cpu_limit.clone());
        let cpu = cpu.unwrap_or_else(|| CPU.to_owned());
        let as_memory = |it: String| ("memory".to_owned(), Quantity(it));
        let limit = asked.and_then(|it| it.memory.clone());
        let reserved = options.memory_request.clone().filter(|_| limit.is_none());
        let limit = limit
            .or_else(|| options.memory_limit.clone())
            .map(as_memory);
        // An estimate helps to schedule a pod, and must not end one that needs more.
        let expected = unit.needs.memory.map(|bytes| as_memory(mebibytes(bytes)));
        let memory = reserved.map(as_memory).or_else(|| limit.clone());
        let memory = memory.or(expected);
        let gpus = unit.devices.count().filter(|count| *count > 0);
        let gpus = gpus.map(|count| ("nvidia.com/gpu".to_owned(), Quantity(count.to_string())));
        let cpu = Some(("cpu".to_owned(), Quantity(cpu)));
        let cpus = cpu_limit.map(|limit| ("cpu".to_owned(), Quantity(limit)));
        let limits: Vec<_> = limit.into_iter().chain(cpus).chain(gpus).collect();
        ResourceRequirements {
            requests: Some(cpu.into_iter().chain(memory).collect()),
            limits: (!limits.is_empty()).then(|| limits.into_iter().collect()),
            claims: None,
        }
    }

    fn needs_root(&self, unit: &Workload) -> bool {
        self.wanted.as_root.contains(&key(unit))
    }

    fn pod_security(&self, unit: &Workload, options: &PodOptions) -> PodSecurityContext {
        // Other images have their own user.
        let user = unit.is_flow.then_some(USER);
        PodSecurityContext {
            run_as_non_root: Some(!self.needs_root(unit)),
            run_as_user: options.user.or(user.filter(|_| !self.needs_root(unit))),
            run_as_group: options.group.or(user.filter(|_| !self.needs_root(unit))),
            supplemental_groups: options.groups.clone(),
            // Gives this group write access to volumes.
            fs_group: Some(USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }
    }

    fn security(&self, unit: &Workload, options: &PodOptions) -> SecurityContext {
        SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(options.read_only.unwrap_or(!self.needs_root(unit))),
            capabilities: (!self.needs_root(unit)).then(|| Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            ..SecurityContext::default()
        }
    }
}

/// An amount of memory in Kubernetes' notation, rounded up.
fn mebibytes(bytes: u64) -> String {
    let rounded = bytes.next_multiple_of(MEMORY_STEP);
    format!("{}Mi", rounded >> 20)
}

fn ports(unit: &Workload) -> Vec<ContainerPort> {
    let serving = ("grpc", unit.port);
    let metrics = unit.metrics.as_ref().map(|it| (METRICS, it.port));
    let more = unit.more_ports.iter();
    let more = more.map(|(name, port)| (name.as_str(), *port));
    let all = std::iter::once(serving).chain(more).chain(metrics);
    let port = |(name, port): (&str, u16)| ContainerPort {
        name: Some(name.to_owned()),
        container_port: port.into(),
        ..ContainerPort::default()
    };
    all.map(port).collect()
}

/// `None` for the image's own command.
fn command(unit: &Workload) -> Option<Vec<String>> {
    if unit.is_flow {
        return Some(vec![PROGRAM.to_owned()]);
    }
    let words = unit.entrypoint.as_ref()?.iter();
    Some(words.map(|it| it.replace('$', "$$")).collect())
}

fn leaves(unit: &Workload) -> Duration {
    if role(unit) == EXECUTOR {
        // The gateway detects failures itself, and uses another pod.
        Duration::ZERO
    } else {
        GATEWAY_LEAVES
    }
}

fn lifecycle(unit: &Workload) -> Option<Lifecycle> {
    let leaves = leaves(unit);
    let sleep = SleepAction {
        seconds: seconds(leaves),
    };
    (!leaves.is_zero()).then(|| Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(sleep),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    })
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_up_to_whole_steps() {
        let check = |bytes: u64, expected: &str| assert_eq!(mebibytes(bytes), expected);
        check(1, "32Mi");
        check(32 << 20, "32Mi");
        check((32 << 20) + 1, "64Mi");
        check(225_000_000, "224Mi");
    }
}
