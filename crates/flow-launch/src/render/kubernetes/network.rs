//! How pods are found, and who may reach them.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{EXECUTOR, Flow, GATEWAY, PART_OF, role};
use crate::render::parts::{PORT, Unit};

impl Flow<'_> {
    /// Executors are found pod by pod; the gateway has one address for all of its pods.
    pub(super) fn service(&self, unit: &Unit) -> Service {
        let is_headless = role(unit) == EXECUTOR;
        let port = ServicePort {
            name: Some("grpc".to_owned()),
            port: unit.port.into(),
            target_port: Some(IntOrString::String("grpc".to_owned())),
            // For meshes and gateways of the cluster, which would take it for mere TCP.
            app_protocol: Some("kubernetes.io/h2c".to_owned()),
            ..ServicePort::default()
        };
        Service {
            metadata: self.meta(unit, &unit.name),
            spec: Some(ServiceSpec {
                cluster_ip: is_headless.then(|| "None".to_owned()),
                selector: self.selector(unit).match_labels,
                ports: Some(vec![port]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    /// Only the gateway reaches executors. (Probes come from the node, which may always.)
    pub(super) fn policy(&self) -> NetworkPolicy {
        let pods = |role| LabelSelector {
            match_labels: Some(self.selected(role)),
            ..LabelSelector::default()
        };
        let from_gateway = NetworkPolicyIngressRule {
            from: Some(vec![NetworkPolicyPeer {
                pod_selector: Some(pods(GATEWAY)),
                ..NetworkPolicyPeer::default()
            }]),
            ports: Some(vec![NetworkPolicyPort {
                port: Some(IntOrString::Int(PORT.into())),
                protocol: Some("TCP".to_owned()),
                end_port: None,
            }]),
        };
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
                ingress: Some(vec![from_gateway]),
                ..NetworkPolicySpec::default()
            }),
        }
    }
}
