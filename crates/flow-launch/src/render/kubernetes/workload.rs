//! Deployments and StatefulSets: the number of pods, and how they are replaced.

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment, StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
};
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Flow, ScaleTarget};
use crate::render::devices::AssignedDevices;
use crate::render::parts::Workload;

impl Flow<'_> {
    pub(super) fn deployment(&self, unit: &Workload, template: PodTemplateSpec) -> Deployment {
        // An additional pod may find no free GPU, and would wait forever.
        let (surge, unavailable) = match unit.devices {
            AssignedDevices::None => (1, 0),
            AssignedDevices::InTurn(_)
            | AssignedDevices::Named(_)
            | AssignedDevices::Counted(_)
            | AssignedDevices::All => (0, 1),
        };
        Deployment {
            metadata: self.meta(unit, &unit.name),
            spec: Some(DeploymentSpec {
                replicas: self.replicas(unit),
                selector: self.selector(unit),
                strategy: Some(DeploymentStrategy {
                    type_: Some("RollingUpdate".to_owned()),
                    rolling_update: Some(RollingUpdateDeployment {
                        max_surge: Some(IntOrString::Int(surge)),
                        max_unavailable: Some(IntOrString::Int(unavailable)),
                    }),
                }),
                template,
                ..DeploymentSpec::default()
            }),
            status: None,
        }
    }

    /// A StatefulSet, whose pods keep their volumes when they are replaced.
    pub(super) fn stateful_set(&self, unit: &Workload, template: PodTemplateSpec) -> StatefulSet {
        StatefulSet {
            metadata: self.meta(unit, &unit.name),
            spec: Some(StatefulSetSpec {
                replicas: self.replicas(unit),
                selector: self.selector(unit),
                service_name: Some(unit.name.clone()),
                pod_management_policy: Some("Parallel".to_owned()),
                template,
                volume_claim_templates: Some(self.claims(unit)),
                persistent_volume_claim_retention_policy: retention(unit),
                ..StatefulSetSpec::default()
            }),
            status: None,
        }
    }

    /// `None` with an autoscaler: each `kubectl apply` would override its decision.
    fn replicas(&self, unit: &Workload) -> Option<i32> {
        let is_scaled = self.autoscale(unit).is_some();
        (!is_scaled).then(|| unit.replicas.into())
    }

    pub(super) fn autoscaler(&self, unit: &Workload) -> Option<HorizontalPodAutoscaler> {
        let bounds = self.autoscale(unit)?;
        let ScaleTarget::CpuPercent(percent) = bounds.target else {
            return None;
        };
        let cpu = ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: "Utilization".to_owned(),
                average_utilization: Some(percent.into()),
                ..MetricTarget::default()
            },
        };
        Some(HorizontalPodAutoscaler {
            metadata: self.meta(unit, &unit.name),
            spec: Some(HorizontalPodAutoscalerSpec {
                scale_target_ref: CrossVersionObjectReference {
                    api_version: Some("apps/v1".to_owned()),
                    kind: self.workload_kind(unit).to_owned(),
                    name: unit.name.clone(),
                },
                min_replicas: Some(bounds.min.into()),
                max_replicas: bounds.max.into(),
                metrics: Some(vec![MetricSpec {
                    type_: "Resource".to_owned(),
                    resource: Some(cpu),
                    ..MetricSpec::default()
                }]),
                behavior: None,
            }),
            status: None,
        })
    }

    pub(super) fn workload_kind(&self, unit: &Workload) -> &'static str {
        match self.is_stateful(unit) {
            true => "StatefulSet",
            false => "Deployment",
        }
    }

    /// With several pods, keeps all but one while nodes are drained.
    pub(super) fn disruption_budget(&self, unit: &Workload) -> Option<PodDisruptionBudget> {
        let most = self.autoscale(unit).map_or(unit.replicas, |it| it.max);
        (most > 1).then(|| PodDisruptionBudget {
            metadata: self.meta(unit, &unit.name),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: Some(IntOrString::Int(1)),
                selector: Some(self.selector(unit)),
                ..PodDisruptionBudgetSpec::default()
            }),
            status: None,
        })
    }
}

/// A volume with downloads only is deleted with its StatefulSet. Others stay until they are deleted by hand.
fn retention(unit: &Workload) -> Option<StatefulSetPersistentVolumeClaimRetentionPolicy> {
    (!unit.keeps_files).then(|| StatefulSetPersistentVolumeClaimRetentionPolicy {
        when_deleted: Some("Delete".to_owned()),
        when_scaled: Some("Retain".to_owned()),
    })
}
