//! What pods read at their start: variables, and the gateway's placement.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::{Flow, key};
use crate::render::fingerprint;
use crate::render::parts::Workload;

/// The placement's file in its ConfigMap.
pub(super) const PLACEMENT: &str = "placement.json";

impl Flow<'_> {
    pub(super) fn placement(&self, gateway: &Workload, placement: &str) -> ConfigMap {
        ConfigMap {
            metadata: self.meta(gateway, &placement_name(gateway)),
            data: Some(BTreeMap::from([(
                PLACEMENT.to_owned(),
                placement.to_owned(),
            )])),
            ..ConfigMap::default()
        }
    }

    /// The variables of a unit, if it has any.
    pub(super) fn env(&self, unit: &Workload) -> Option<ConfigMap> {
        let env = unit
            .env
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        (!unit.env.is_empty()).then(|| ConfigMap {
            metadata: self.meta(unit, &env_name(unit)),
            data: Some(env.collect()),
            ..ConfigMap::default()
        })
    }
}

pub(super) fn placement_name(gateway: &Workload) -> String {
    format!("{}-placement", gateway.name)
}

pub(super) fn env_name(unit: &Workload) -> String {
    format!("{}-env", unit.name)
}

/// A hash of the configuration, so that a change of it alone replaces the pods.
pub(super) fn fingerprint(unit: &Workload, config: &str) -> String {
    let env = unit
        .env
        .iter()
        .flat_map(|(key, value)| [key.as_str(), value.as_str()]);
    fingerprint::of(env.chain([config]))
}

/// Variables that look like secrets.
pub(super) fn remarks(unit: &Workload) -> impl Iterator<Item = String> {
    unit.secrets().map(|name| {
        format!(
            "`{name}` of `{}` is in a ConfigMap, where many can read it: keep it in a Secret, and name it with `--env-from-secret {}={name}:SECRET:KEY`",
            unit.name,
            key(unit)
        )
    })
}
