//! The variables of a container: those of its ConfigMap, of Secrets, and the pod that it runs in.

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, SecretKeySelector,
};

use super::config::env_name;
use super::{Flow, SecretVariable, key};
use crate::render::argument::OPTION_PREFIX;
use crate::render::parts::Workload;

/// The variables that name the pod in exported telemetry, as Jina's exports have them, each with the field of the pod whose
/// value it has.
const PLACE: [(&str, &str); 3] = [
    ("K8S_NAMESPACE_NAME", "metadata.namespace"),
    ("K8S_NODE_NAME", "spec.nodeName"),
    ("K8S_POD_NAME", "metadata.name"),
];

/// The prefix of the variables of OpenTelemetry.
const OPEN_TELEMETRY: &str = "OTEL_";

impl Flow<'_> {
    /// The variables that are in no ConfigMap.
    pub(super) fn variables(&self, unit: &Workload) -> Option<Vec<EnvVar>> {
        let mut variables = self.place(unit);
        variables.extend(self.secrets(unit));
        (!variables.is_empty()).then_some(variables)
    }

    /// Where the pod runs, for one that exports telemetry.
    fn place(&self, unit: &Workload) -> Vec<EnvVar> {
        let telemetry = &unit.telemetry;
        let mut variables = unit.env.revealed();
        let exports = telemetry.traces.is_some()
            || telemetry.metrics.is_some()
            || variables.any(|(name, _)| name.starts_with(OPEN_TELEMETRY));
        if !exports {
            return Vec::new();
        }
        let workload = match self.is_stateful(unit) {
            true => "K8S_STATEFULSET_NAME",
            false => "K8S_DEPLOYMENT_NAME",
        };
        let mut variables = vec![EnvVar {
            name: workload.to_owned(),
            value: Some(unit.name.clone()),
            value_from: None,
        }];
        variables.extend(PLACE.map(|(name, field)| of_field(name, field)));
        // What the flow file sets comes from the ConfigMap, which these would override.
        variables.retain(|it| !unit.env.contains_key(&it.name));
        variables
    }

    fn secrets(&self, unit: &Workload) -> Vec<EnvVar> {
        // What runs before and after shards does not get their options.
        let is_of_another = |name: &str| {
            name.starts_with(OPTION_PREFIX) && unit.option_secrets().all(|(own, _)| own != name)
        };
        let own = key(unit);
        let secrets = self.wanted.secrets_of(&own);
        let secrets = secrets.filter(|it| unit.node.is_none() || !is_of_another(&it.variable));
        secrets.map(of_secret).collect()
    }
}

/// The variables of the ConfigMap.
pub(super) fn env_from(unit: &Workload) -> Option<Vec<EnvFromSource>> {
    (!unit.env.is_empty()).then(|| {
        vec![EnvFromSource {
            config_map_ref: Some(ConfigMapEnvSource {
                name: env_name(unit),
                optional: None,
            }),
            ..EnvFromSource::default()
        }]
    })
}

/// A variable with the value of a field of the pod.
fn of_field(name: &str, field: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: field.to_owned(),
            }),
            ..EnvVarSource::default()
        }),
        value: None,
    }
}

fn of_secret(secret: &SecretVariable) -> EnvVar {
    EnvVar {
        name: secret.variable.clone(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.secret.clone(),
                key: secret.key.clone(),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
        value: None,
    }
}
