//! Resources that are not part of Kubernetes, but of a custom resource definition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

/// A custom resource with this specification.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CustomResource<S> {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: ObjectMeta,
    pub(super) spec: S,
}
