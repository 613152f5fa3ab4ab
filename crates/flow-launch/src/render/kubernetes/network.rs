//! Services and network policies: how pods are found, and what may connect to them.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::monitor::METRICS;
use super::{EXECUTOR, Flow, GATEWAY, PART_OF, role};
use crate::render::parts::{METRICS_PORT, PORT, Units, Workload};

/// HTTP/2 without TLS, as gRPC needs it.
pub(super) const H2C: &str = "kubernetes.io/h2c";
/// HTTP/1.1, and the name of a port for it.
pub(super) const HTTP: &str = "http";

impl Flow<'_> {
    /// A headless Service for executors, which are found pod by pod; one with an address for the gateway.
    pub(super) fn service(&self, unit: &Workload) -> Service {
        let is_headless = role(unit) == EXECUTOR;
        let port = ServicePort {
            name: Some("grpc".to_owned()),
            port: unit.port.into(),
            target_port: Some(IntOrString::String("grpc".to_owned())),
            app_protocol: Some(self.app_protocol(unit).to_owned()),
            ..ServicePort::default()
        };
        let more = unit.more_ports.iter().map(|(name, port)| ServicePort {
            name: Some(name.clone()),
            port: (*port).into(),
            target_port: Some(IntOrString::String(name.clone())),
            app_protocol: (name.starts_with("grpc") && self.app_protocol == H2C)
                .then(|| H2C.to_owned()),
            ..ServicePort::default()
        });
        let extra = self.route_ports.and_then(|it| it.extra);
        let http = extra.filter(|_| !is_headless).map(|port| ServicePort {
            name: Some(HTTP.to_owned()),
            port: port.into(),
            target_port: Some(IntOrString::String("grpc".to_owned())),
            app_protocol: Some(HTTP.to_owned()),
            ..ServicePort::default()
        });
        let metrics = unit.metrics.as_ref().map(|it| ServicePort {
            name: Some(METRICS.to_owned()),
            port: it.port.into(),
            target_port: Some(IntOrString::String(METRICS.to_owned())),
            ..ServicePort::default()
        });
        let ports = std::iter::once(port).chain(more).chain(http).chain(metrics);
        Service {
            metadata: self.meta(unit, &unit.name),
            spec: Some(ServiceSpec {
                cluster_ip: is_headless.then(|| "None".to_owned()),
                selector: self.selector(unit).match_labels,
                ports: Some(ports.collect()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    /// The protocol of the first port.
    fn app_protocol(&self, unit: &Workload) -> &'static str {
        match role(unit) {
            GATEWAY => self.app_protocol,
            _ => H2C,
        }
    }

    /// Allows connections to executors from the gateway, and to their metrics. Probes come from the node, which is
    /// always allowed.
    pub(super) fn policy(&self, units: &Units) -> NetworkPolicy {
        let pods = |role| LabelSelector {
            match_labels: Some(self.selected(role)),
            ..LabelSelector::default()
        };
        let from_gateway = NetworkPolicyIngressRule {
            from: Some(vec![NetworkPolicyPeer {
                pod_selector: Some(pods(GATEWAY)),
                ..NetworkPolicyPeer::default()
            }]),
            ports: Some(vec![only(PORT)]),
        };
        // Prometheus may be in any namespace.
        let from_everybody = || NetworkPolicyIngressRule {
            from: Some(vec![NetworkPolicyPeer {
                namespace_selector: Some(LabelSelector::default()),
                ..NetworkPolicyPeer::default()
            }]),
            ports: Some(vec![only(METRICS_PORT)]),
        };
        let is_monitored = units.executors().any(|unit| unit.metrics.is_some());
        let scrapes = is_monitored.then(from_everybody);
        let name = format!("{}-executors", self.label);
        NetworkPolicy {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(self.wanted.namespace.clone()),
                labels: Some([(PART_OF.to_owned(), self.label.clone())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NetworkPolicySpec {
                pod_selector: Some(pods(EXECUTOR)),
                policy_types: Some(vec!["Ingress".to_owned()]),
                ingress: Some([from_gateway].into_iter().chain(scrapes).collect()),
                ..NetworkPolicySpec::default()
            }),
        }
    }
}

fn only(port: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(port.into())),
        protocol: Some("TCP".to_owned()),
        end_port: None,
    }
}
