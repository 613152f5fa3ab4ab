//! What a container is to be, and how the engine is told so. Pure.

use std::collections::HashMap;
use std::net::IpAddr;

use bollard::models::{ContainerCreateBody, DeviceRequest, HealthConfig, HostConfig, PortBinding};
use serde_json::{Map, Value};

use crate::error::EngineError;

/// By this name a container finds the machine it runs on.
const THE_MACHINE: &str = "host.docker.internal:host-gateway";

/// The network mode of a container without a network of its own.
const HOST_NETWORK: &str = "host";

/// A container that is to be made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// The image's name.
    pub image: String,
    /// The container's name; none: the engine thinks of one.
    pub name: Option<String>,
    /// Which of the image's platforms.
    pub platform: Option<String>,
    /// In place of the image's own.
    pub entrypoint: Option<Vec<String>>,
    /// What the entrypoint is told.
    pub arguments: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Whom it runs as; none: as the image says.
    pub user: Option<String>,
    /// By which it is found again.
    pub labels: HashMap<String, String>,
    /// `/on/the/machine:/inside[:ro]`.
    pub binds: Vec<String>,
    /// How it is reached.
    pub network: Network,
    /// The GPUs it gets.
    pub gpus: Option<DeviceRequest>,
    /// What the user says to the engine in its own words (`ContainerCreate`). It goes before all of the
    /// above; mappings and lists are added to.
    pub engine: Map<String, Value>,
}

/// How a container is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// It has the machine's own addresses.
    #[default]
    Host,
    /// Some ports of it are ports of the machine's.
    Published {
        /// The machine's address.
        ip: IpAddr,
        /// Which.
        ports: Vec<PublishedPort>,
    },
}

/// A port of a container that is one of the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPort {
    /// The machine's port; 0: any that is free.
    pub port: u16,
    /// The container's port.
    pub inside: u16,
}

impl Wanted {
    /// What the engine is told.
    ///
    /// # Errors
    /// If what the user says to the engine has no meaning to it.
    pub(crate) fn body(&self) -> Result<ContainerCreateBody, EngineError> {
        let mut body = serde_json::to_value(self.own()).expect("it is made of texts and numbers");
        merge(&mut body, &Value::Object(self.engine.clone()));
        serde_json::from_value(body).map_err(|error| EngineError::Refused {
            what: "make a container".to_owned(),
            status: 400,
            message: format!("`docker_kwargs` has no meaning: {error}"),
        })
    }

    fn own(&self) -> ContainerCreateBody {
        let (mut host, mut exposed, mut healthcheck) = (HostConfig::default(), None, None);
        match &self.network {
            Network::Host => {
                host.network_mode = Some(HOST_NETWORK.to_owned());
                // The image's own check would look at the image's own port.
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
                    (port_key(port.inside), Some(vec![binding]))
                };
                exposed = Some(ports.iter().map(|it| port_key(it.inside)).collect());
                host.port_bindings = Some(ports.iter().map(bound).collect());
            }
        }
        host.extra_hosts = Some(vec![THE_MACHINE.to_owned()]);
        host.binds = Some(self.binds.clone());
        host.device_requests = self.gpus.clone().map(|gpus| vec![gpus]);
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: self.entrypoint.clone(),
            cmd: Some(self.arguments.clone()),
            env: Some(self.env.clone()),
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

/// A port as the engine names it.
pub(crate) fn port_key(port: u16) -> String {
    format!("{port}/tcp")
}

/// Puts one value over another: mappings key by key, lists one behind the other.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(under), Value::Array(over)) => under.extend(over.iter().cloned()),
        (under, over) => *under = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(wanted: &Wanted) -> Value {
        serde_json::to_value(wanted.body().unwrap()).unwrap()
    }

    #[test]
    fn a_published_port_is_one_of_this_machine_only() {
        let wanted = Wanted {
            network: Network::Published {
                ip: [127, 0, 0, 1].into(),
                ports: vec![PublishedPort {
                    port: 5,
                    inside: 54321,
                }],
            },
            ..Wanted::default()
        };
        let told = told(&wanted);
        assert_eq!(
            told["HostConfig"]["PortBindings"],
            json!({"54321/tcp": [{"HostIp": "127.0.0.1", "HostPort": "5"}]})
        );
        assert_eq!(
            told["HostConfig"]["ExtraHosts"],
            json!(["host.docker.internal:host-gateway"])
        );
    }

    #[test]
    fn what_the_user_says_goes_before_ours_and_lists_are_added_to() {
        let engine = json!({
            "User": "7",
            "HostConfig": {"Memory": 9, "ExtraHosts": ["db:10.0.0.1"], "NetworkMode": "team"},
        });
        let wanted = Wanted {
            user: Some("1:1".to_owned()),
            engine: engine.as_object().unwrap().clone(),
            ..Wanted::default()
        };
        let told = told(&wanted);
        assert_eq!(told["User"], "7");
        assert_eq!(told["HostConfig"]["Memory"], 9);
        assert_eq!(told["HostConfig"]["NetworkMode"], "team");
        let hosts = json!(["host.docker.internal:host-gateway", "db:10.0.0.1"]);
        assert_eq!(told["HostConfig"]["ExtraHosts"], hosts);
    }

    #[test]
    fn what_has_no_meaning_to_the_engine_is_told_before_it_is_asked() {
        let wanted = Wanted {
            engine: json!({"HostConfig": {"Memory": "much"}})
                .as_object()
                .unwrap()
                .clone(),
            ..Wanted::default()
        };
        assert!(
            wanted
                .body()
                .unwrap_err()
                .to_string()
                .contains("docker_kwargs")
        );
    }
}
