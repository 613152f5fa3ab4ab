//! The namespace of an export.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Flow, PART_OF};

/// `kubectl apply -R -f` applies files in the order of their names, and the namespace has to exist first.
pub(super) const NAMESPACE_FILE: &str = "00-namespace.yml";

/// The namespace that every cluster has.
const DEFAULT: &str = "default";

impl Flow<'_> {
    /// `None` if the namespace exists already.
    pub(super) fn namespace(&self) -> Option<Namespace> {
        let name = &self.wanted.namespace;
        let exists = self.wanted.has_namespace || name == DEFAULT;
        (!exists).then(|| Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([(PART_OF.to_owned(), self.label.clone())].into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        })
    }
}
