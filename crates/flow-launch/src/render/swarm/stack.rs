//! The parts of a stack file, as `docker stack deploy` reads them.

use indexmap::IndexMap;
use serde::Serialize;

use crate::render::docker::Healthcheck;

/// The version of the format; the newest that engines since 20.10 read.
pub(super) const VERSION: &str = "3.9";

/// User and group of flow's own image.
const USER: &str = "65532";

/// Only the user may read a secret.
const SECRET_MODE: u16 = 0o400;

#[derive(Debug, Serialize)]
pub(super) struct Stack {
    pub(super) version: &'static str,
    pub(super) services: IndexMap<String, Service>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub(super) volumes: IndexMap<String, VolumeName>,
    pub(super) configs: IndexMap<String, Config>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub(super) secrets: IndexMap<String, Secret>,
}

/// A volume of the node where a task runs.
#[derive(Debug, Serialize)]
pub(super) struct VolumeName {
    pub(super) name: String,
}

/// A file that the managers keep, and give to tasks.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    file: String,
}

impl Config {
    /// From a file in the folder of the stack.
    pub(super) fn of(file: &str) -> Self {
        Self {
            file: format!("./{file}"),
        }
    }
}

/// A secret that exists in the Swarm.
#[derive(Debug, Serialize)]
pub(super) struct Secret {
    pub(super) external: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Service {
    pub(super) image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) command: Vec<String>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub(super) environment: IndexMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ports: Vec<Port>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) configs: Vec<Mounted>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) secrets: Vec<Mounted>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volumes: Vec<Mount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) healthcheck: Option<Healthcheck>,
    pub(super) stop_grace_period: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) read_only: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cap_drop: Vec<&'static str>,
    pub(super) deploy: Deploy,
}

#[derive(Debug, Serialize)]
pub(super) struct Port {
    pub(super) target: u16,
    pub(super) published: u16,
    pub(super) protocol: &'static str,
    pub(super) mode: &'static str,
}

/// A config or a secret in a task.
#[derive(Debug, Serialize)]
pub(super) struct Mounted {
    pub(super) source: String,
    target: String,
    #[serde(flatten)]
    access: Option<Access>,
}

/// Who may read a config or a secret.
#[derive(Debug, Serialize)]
struct Access {
    uid: &'static str,
    gid: &'static str,
    mode: u16,
}

impl Mounted {
    /// A file that every user in the container may read, which is Docker's default.
    pub(super) fn new(source: &str, target: &str) -> Self {
        Self {
            source: source.to_owned(),
            target: target.to_owned(),
            access: None,
        }
    }

    /// Lets only the user of flow's own image read the file.
    pub(super) fn for_user_of_flow(self) -> Self {
        let access = Access {
            uid: USER,
            gid: USER,
            mode: SECRET_MODE,
        };
        Self {
            access: Some(access),
            ..self
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Mount {
    Volume {
        source: String,
        target: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        read_only: bool,
    },
    Bind {
        source: String,
        target: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        read_only: bool,
    },
    Tmpfs {
        target: &'static str,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Deploy {
    pub(super) replicas: u16,
    pub(super) endpoint_mode: &'static str,
    pub(super) update_config: Change,
    pub(super) rollback_config: Change,
    pub(super) restart_policy: RestartPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) placement: Option<PlacementConstraints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<Resources>,
}

/// How tasks are replaced.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    pub(super) parallelism: u16,
    pub(super) order: &'static str,
    pub(super) failure_action: &'static str,
    pub(super) monitor: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct RestartPolicy {
    pub(super) condition: &'static str,
    pub(super) delay: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct PlacementConstraints {
    pub(super) constraints: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Resources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limits: Option<Limits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reservations: Option<Reservations>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Reservations {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) generic_resources: Vec<GenericResource>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct GenericResource {
    pub(super) discrete_resource_spec: Discrete,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Discrete {
    pub(super) kind: String,
    pub(super) value: usize,
}
