//! The ServiceMonitor for the Prometheus operator: which Services serve metrics, and on which port.
//!
//! Its kinds are not part of the Kubernetes API, so this one is defined here.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Serialize;

use super::custom_resource::CustomResource;
use super::{Flow, NAME, PART_OF};
use crate::render::parts::Units;

/// The name of a port for metrics.
pub(super) const METRICS: &str = "monitoring";

/// The specification of a `ServiceMonitor` of `monitoring.coreos.com/v1`, with the fields that the export uses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceMonitor {
    /// The label of a Service that its metrics have as `job`.
    job_label: &'static str,
    selector: LabelSelector,
    endpoints: [Endpoint; 1],
}

#[derive(Debug, Serialize)]
struct Endpoint {
    port: &'static str,
    path: &'static str,
}

impl Flow<'_> {
    /// One for all Services of the flow. It skips those without such a port.
    pub(super) fn monitor(&self, units: &Units) -> Option<CustomResource<ServiceMonitor>> {
        let mut all = units.executors().chain([&units.gateway]);
        all.any(|unit| unit.metrics.is_some())
            .then(|| self.monitor_of_all())
    }

    fn monitor_of_all(&self) -> CustomResource<ServiceMonitor> {
        let part_of = BTreeMap::from([(PART_OF.to_owned(), self.label.clone())]);
        let asked = self.wanted.monitor_labels.clone();
        CustomResource {
            api_version: "monitoring.coreos.com/v1",
            kind: "ServiceMonitor",
            metadata: ObjectMeta {
                name: Some(self.label.clone()),
                namespace: Some(self.wanted.namespace.clone()),
                labels: Some(part_of.clone().into_iter().chain(asked).collect()),
                ..ObjectMeta::default()
            },
            spec: ServiceMonitor {
                job_label: NAME,
                selector: LabelSelector {
                    match_labels: Some(part_of),
                    ..LabelSelector::default()
                },
                endpoints: [Endpoint {
                    port: METRICS,
                    path: "/metrics",
                }],
            },
        }
    }
}
