//! The container to create, and its form in the engine's API. Pure.

use std::collections::HashMap;
use std::net::IpAddr;

use bollard::models::{ContainerCreateBody, DeviceRequest, HealthConfig, HostConfig, PortBinding};
use flow_spec::{DockerOptions, Secret};
use serde_json::Value;

use crate::engine_options::engine_options;
use crate::error::EngineError;

/// The name by which a container reaches the machine that it runs on.
const HOST_GATEWAY: &str = "host.docker.internal:host-gateway";

/// The network mode of a container that uses the machine's network.
const HOST_NETWORK: &str = "host";

/// A container to create.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerConfig {
    /// The image's name.
    pub image: String,
    /// The container's name; `None` lets the engine choose one.
    pub name: Option<String>,
    /// One of the image's platforms; `None` for the engine's own.
    pub platform: Option<String>,
    /// Replaces the image's entrypoint.
    pub entrypoint: Option<Vec<String>>,
    /// Arguments of the entrypoint, which may contain secrets.
    pub arguments: Secret<Vec<String>>,
    /// Environment variables as `NAME=value`, which may be secrets.
    pub env: Secret<Vec<String>>,
    /// The user that it runs as; `None` for the image's.
    pub user: Option<String>,
    /// Labels, by which it is found again.
    pub labels: HashMap<String, String>,
    /// Folders of the machine and volumes of the engine that it mounts.
    pub mounts: Vec<Mount>,
    /// Its network.
    pub network: Network,
    /// GPUs assigned to the container; `None` assigns none.
    pub gpus: Option<GpuRequest>,
    /// The user's options. They override the fields above; mappings are merged, and lists are extended.
    pub options: DockerOptions,
}

/// A mount of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// A folder of the machine as an absolute path, or the name of a volume of the engine.
    pub source: String,
    /// The path in the container.
    pub target: String,
    /// Whether the container may only read.
    pub read_only: bool,
}

impl Mount {
    /// The mount in the engine's form.
    fn bind(&self) -> String {
        let Self { source, target, .. } = self;
        let mode = if self.read_only { ":ro" } else { "" };
        format!("{source}:{target}{mode}")
    }
}

/// GPUs to assign to a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuRequest {
    /// The number; -1 for all, `None` for those in `devices`.
    pub count: Option<i64>,
    /// Numbers or UUIDs.
    pub devices: Vec<String>,
    /// The driver; `None` lets the engine choose.
    pub driver: Option<String>,
    /// Required capabilities, besides `gpu`.
    pub capabilities: Vec<String>,
    /// Options of the driver.
    pub options: HashMap<String, String>,
}

impl From<GpuRequest> for DeviceRequest {
    fn from(gpus: GpuRequest) -> Self {
        let mut capabilities = gpus.capabilities;
        capabilities.push("gpu".to_owned());
        Self {
            driver: gpus.driver,
            count: gpus.count,
            device_ids: Some(gpus.devices).filter(|it| !it.is_empty()),
            capabilities: Some(vec![capabilities]),
            options: Some(gpus.options),
        }
    }
}

/// The network of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// It uses the machine's network.
    #[default]
    Host,
    /// It has its own network, and ports of it are published on the machine.
    Published {
        /// The machine's address that the ports are published on.
        ip: IpAddr,
        /// The ports.
        ports: Vec<PublishedPort>,
    },
}

/// A published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPort {
    /// The machine's port; 0 for any free port.
    pub port: u16,
    /// The container's port.
    pub container_port: u16,
}

impl ContainerConfig {
    /// The request to the engine.
    ///
    /// # Errors
    /// If the user's options are not in the engine's form.
    pub(crate) fn body(&self) -> Result<ContainerCreateBody, EngineError> {
        let mut body = serde_json::to_value(self.base()).expect("it consists of texts and numbers");
        merge(&mut body, &Value::Object(engine_options(&self.options)));
        serde_json::from_value(body).map_err(|error| EngineError::Refused {
            what: "create a container".to_owned(),
            status: 400,
            message: format!("`docker_kwargs` is not in the engine's form: {error}"),
        })
    }

    fn base(&self) -> ContainerCreateBody {
        let (mut host, mut exposed, mut healthcheck) = (HostConfig::default(), None, None);
        match &self.network {
            Network::Host => {
                host.network_mode = Some(HOST_NETWORK.to_owned());
                // The image's own health check would use the image's own port.
                let none = vec!["NONE".to_owned()];
                healthcheck = Some(HealthConfig {
                    test: Some(none),
                    ..HealthConfig::default()
                });
            }
            Network::Published { ip, ports } => {
                let bound = |port: &PublishedPort| {
                    let binding = PortBinding {
                        host_ip: Some(ip.to_string()),
                        host_port: Some(port.port.to_string()),
                    };
                    (port_key(port.container_port), Some(vec![binding]))
                };
                exposed = Some(ports.iter().map(|it| port_key(it.container_port)).collect());
                host.port_bindings = Some(ports.iter().map(bound).collect());
            }
        }
        host.extra_hosts = Some(vec![HOST_GATEWAY.to_owned()]);
        host.binds = Some(self.mounts.iter().map(Mount::bind).collect());
        host.device_requests = self.gpus.clone().map(|gpus| vec![gpus.into()]);
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: self.entrypoint.clone(),
            cmd: Some(self.arguments.reveal().clone()),
            env: Some(self.env.reveal().clone()),
            user: self.user.clone(),
            labels: Some(self.labels.clone()),
            exposed_ports: exposed,
            healthcheck,
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        }
    }
}

/// A port in the engine's form.
pub(crate) fn port_key(port: u16) -> String {
    format!("{port}/tcp")
}

/// Merges a value into another one: mappings key by key, lists by extending, others by replacing.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(over)) => base.extend(over.iter().cloned()),
        (base, over) => *base = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_of(config: &ContainerConfig) -> Value {
        serde_json::to_value(config.body().unwrap()).unwrap()
    }

    #[test]
    fn a_mount_is_written_with_its_mode() {
        let mount = |read_only| Mount {
            source: "/a".to_owned(),
            target: "/b".to_owned(),
            read_only,
        };
        let config = ContainerConfig {
            mounts: vec![mount(false), mount(true)],
            ..ContainerConfig::default()
        };
        let expected = json!(["/a:/b", "/a:/b:ro"]);
        assert_eq!(json_of(&config)["HostConfig"]["Binds"], expected);
    }

    #[test]
    fn gpus_are_requested_by_number_with_the_capability_gpu() {
        let gpus = GpuRequest {
            devices: vec!["0".to_owned(), "1".to_owned()],
            ..GpuRequest::default()
        };
        let config = ContainerConfig {
            gpus: Some(gpus),
            ..ContainerConfig::default()
        };
        let expected = json!([{
            "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]], "Options": {},
        }]);
        assert_eq!(json_of(&config)["HostConfig"]["DeviceRequests"], expected);
    }

    #[test]
    fn a_port_is_published_on_one_address() {
        let config = ContainerConfig {
            network: Network::Published {
                ip: [127, 0, 0, 1].into(),
                ports: vec![PublishedPort {
                    port: 5,
                    container_port: 54321,
                }],
            },
            ..ContainerConfig::default()
        };
        let found = json_of(&config);
        assert_eq!(
            found["HostConfig"]["PortBindings"],
            json!({"54321/tcp": [{"HostIp": "127.0.0.1", "HostPort": "5"}]})
        );
        assert_eq!(
            found["HostConfig"]["ExtraHosts"],
            json!(["host.docker.internal:host-gateway"])
        );
    }

    fn options(written: Value) -> DockerOptions {
        serde_json::from_value(written).unwrap()
    }

    #[test]
    fn options_of_the_user_override_and_lists_are_extended() {
        let written = json!({
            "user": {"text": "7"},
            "mem_limit": {"number": 9},
            "extra_hosts": {"hosts": {"db": "10.0.0.1"}},
            "network": {"text": "team"},
        });
        let config = ContainerConfig {
            user: Some("1:1".to_owned()),
            options: options(written),
            ..ContainerConfig::default()
        };
        let found = json_of(&config);
        assert_eq!(found["User"], "7");
        assert_eq!(found["HostConfig"]["Memory"], 9);
        assert_eq!(found["HostConfig"]["NetworkMode"], "team");
        let hosts = json!(["host.docker.internal:host-gateway", "db:10.0.0.1"]);
        assert_eq!(found["HostConfig"]["ExtraHosts"], hosts);
    }

    #[test]
    fn a_value_that_the_engine_does_not_take_is_an_error_before_the_request() {
        let config = ContainerConfig {
            options: options(json!({"cgroupns": {"text": "everybody"}})),
            ..ContainerConfig::default()
        };
        let error = config.body().unwrap_err().to_string();
        assert!(error.contains("docker_kwargs"), "{error}");
    }
}
