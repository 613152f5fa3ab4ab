//! The ScaledObject of KEDA: how many pods there are follows the requests that the flow has in progress.
//!
//! KEDA asks Prometheus itself. A HorizontalPodAutoscaler alone would need an adapter, with rules that say which metrics
//! it may see, in a file of the whole cluster.
//!
//! Its kinds are not part of the Kubernetes API, so this one is defined here.

use std::num::NonZeroU16;

use serde::Serialize;

use super::custom_resource::CustomResource;
use super::objects::ScaleTarget;
use super::{Autoscale, Flow};
use crate::render::parts::Workload;

/// Seconds between two looks at the metric.
const LOOK_EVERY: u16 = 15;

/// The specification of a `ScaledObject` of `keda.sh/v1alpha1`, with the fields that the export uses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScaledObject {
    scale_target_ref: Scaled,
    polling_interval: u16,
    min_replica_count: u16,
    max_replica_count: u16,
    triggers: [Trigger; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Scaled {
    api_version: &'static str,
    kind: &'static str,
    name: String,
}

#[derive(Debug, Serialize)]
struct Trigger {
    #[serde(rename = "type")]
    kind: &'static str,
    metadata: Query,
}

/// What KEDA asks Prometheus. There are as many pods as the result has thresholds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Query {
    server_address: String,
    query: String,
    threshold: String,
}

impl Flow<'_> {
    /// `None` for a unit that is not scaled by its requests.
    pub(super) fn scaled_object(&self, unit: &Workload) -> Option<CustomResource<ScaledObject>> {
        let Autoscale { min, max, target } = self.autoscale(unit)?;
        let ScaleTarget::Requests(per_pod) = target else {
            return None;
        };
        Some(CustomResource {
            api_version: "keda.sh/v1alpha1",
            kind: "ScaledObject",
            metadata: self.meta(unit, &unit.name),
            spec: ScaledObject {
                scale_target_ref: Scaled {
                    api_version: "apps/v1",
                    kind: self.workload_kind(unit),
                    name: unit.name.clone(),
                },
                polling_interval: LOOK_EVERY,
                min_replica_count: min,
                max_replica_count: max,
                triggers: [self.trigger(unit, per_pod)],
            },
        })
    }

    fn trigger(&self, unit: &Workload, per_pod: NonZeroU16) -> Trigger {
        Trigger {
            kind: "prometheus",
            metadata: Query {
                server_address: self.wanted.prometheus.clone(),
                query: requests_in_progress(&self.wanted.namespace, &unit.name),
                threshold: per_pod.to_string(),
            },
        }
    }
}

/// The requests that all pods of a unit have in progress or waiting, on average over two minutes: the time that requests
/// spent there in each second (Little's law). Executors of stock Jina have this metric, too.
fn requests_in_progress(namespace: &str, job: &str) -> String {
    format!(
        "sum(rate(jina_receiving_request_seconds_sum{{namespace=\"{namespace}\",job=\"{job}\"}}[2m]))"
    )
}
