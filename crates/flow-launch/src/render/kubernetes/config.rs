//! What pods read at their start: variables, and the gateway's placement.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::objects::SecretVariable;
use super::{Flow, Kubernetes, key};
use crate::render::fingerprint;
use crate::render::parts::{Units, Workload, host_name};

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
        let env = unit.env.revealed();
        let env = env.map(|(key, value)| (key.to_owned(), value.to_owned()));
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
    let env = unit.env.revealed().flat_map(|(key, value)| [key, value]);
    fingerprint::of(env.chain([config]))
}

/// The Secrets of variables that look like secrets and have none yet: one for each name in options.
pub(super) fn assigned_secrets(
    wanted: &Kubernetes,
    units: &Units,
) -> Vec<(String, SecretVariable)> {
    let mut assigned: Vec<(String, SecretVariable)> = Vec::new();
    for unit in units.executors().chain([&units.gateway]) {
        let own = key(unit);
        for (variable, _) in unit.secrets() {
            let has_name = |it: &SecretVariable| it.variable == variable;
            let known = assigned
                .iter()
                .any(|(name, it)| *name == own && has_name(it));
            if known || wanted.secrets_of(&own).any(has_name) {
                continue;
            }
            let secret = SecretVariable {
                variable: variable.to_owned(),
                secret: format!("{}-secrets", host_name(&own)),
                key: variable.to_owned(),
            };
            assigned.push((own.clone(), secret));
        }
    }
    assigned
}

/// Says which Secrets are to be made.
pub(super) fn secret_remarks(assigned: &[(String, SecretVariable)]) -> Vec<String> {
    let remark = |(name, it): &(String, SecretVariable)| {
        let SecretVariable {
            variable, secret, ..
        } = it;
        format!(
            "the value of `{variable}` of `{name}` looks like a secret and is not in the files: put it under `{variable}` into \
             the Secret `{secret}`, or name another one with `--env-from-secret {name}={variable}:SECRET:KEY`"
        )
    };
    assigned.iter().map(remark).collect()
}
