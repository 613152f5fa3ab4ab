//! The endpoints of an executor, and the method of each: as its author binds them, and as the flow file overrides them.

mod batching_override;

use std::collections::BTreeMap;

use flow_core::parameters::{Accepted, Accepts};
use flow_core::{BadEndpoint, Endpoint};

use crate::sdk::{BatchMetric, BatchRule, Batching, Binding, Endpoints, Method, MethodSchema};

pub(crate) use batching_override::BatchingOverride;

/// The index of a method among an executor's methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MethodIdx(pub(crate) usize);

/// The index of an endpoint among those that have a method, in the order of their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndpointIdx(pub(crate) usize);

/// How a method takes its documents; see [`Method`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodKind {
    Batch,
    Whole,
    Matrix,
    Stream,
}

/// The method of an endpoint, and how requests to it share its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BoundMethod {
    pub(crate) endpoint: EndpointIdx,
    pub(crate) method: MethodIdx,
    pub(crate) kind: MethodKind,
    pub(crate) rule: BatchRule,
}

/// The endpoints of one executor.
#[derive(Debug)]
pub(crate) struct EndpointTable {
    methods: BTreeMap<String, BoundMethod>,
    /// The parameters that each method accepts, by [`MethodIdx`]; `None` if the author does not declare them.
    accepted: Vec<Option<Accepted>>,
    /// What discovery says about each method, by [`MethodIdx`].
    schemas: Vec<MethodSchema>,
}

/// What the flow file says about an executor's endpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointOverrides<'a> {
    /// Endpoint → method.
    pub(crate) requests: Option<&'a BTreeMap<String, String>>,
    /// Endpoint or method → how requests share calls.
    pub(crate) batching: BTreeMap<String, BatchingOverride>,
}

/// The flow file and the executor's code do not fit together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadBinding {
    #[error(transparent)]
    Endpoint(#[from] BadEndpoint),
    #[error("`uses_requests` binds `{endpoint}` to method `{method}`, expected one of {known}")]
    Method {
        endpoint: String,
        method: String,
        known: String,
    },
    #[error("`uses_dynamic_batching` names `{name}`, expected one of {known}")]
    Batching { name: String, known: String },
    #[error("the executor's code declares the parameters of `{0}`, but binds no method to it")]
    Accepts(String),
    #[error(
        "the batching of `{endpoint}` counts the executor's own weights, but the executor has none"
    )]
    NoWeights { endpoint: String },
}

impl EndpointTable {
    /// The table of an executor's own endpoints and those that the flow file adds. A method is named after its first
    /// endpoint, that of `/encode` is `encode`, or as its author says.
    pub(crate) fn new<E>(
        endpoints: &Endpoints<E>,
        overrides: &EndpointOverrides<'_>,
    ) -> Result<Self, BadBinding> {
        let mut methods = BTreeMap::new();
        let mut named = BTreeMap::new();
        let mut names = Vec::new();
        for (index, binding) in endpoints.bindings.iter().enumerate() {
            let kind = MethodKind::of(&binding.method);
            let own = endpoints.batching.get(&binding.endpoint).copied();
            let bound = BoundMethod {
                endpoint: EndpointIdx::default(),
                method: MethodIdx(index),
                kind,
                rule: rule(kind, own),
            };
            let endpoint = checked(&binding.endpoint)?;
            let name = binding.name.as_deref().map_or(endpoint.clone(), path);
            named.insert(name.clone(), bound);
            names.push(name);
            methods.insert(endpoint, bound);
        }
        for (endpoint, method) in overrides.requests.into_iter().flatten() {
            let bound = named.get(&path(method));
            let bound = *bound.ok_or_else(|| unknown(endpoint, method, &named))?;
            methods.insert(checked(endpoint)?, bound);
        }
        let mut it = Self {
            methods,
            accepted: accepted(endpoints)?,
            schemas: endpoints
                .bindings
                .iter()
                .map(|it| it.schema.clone())
                .collect(),
        };
        it.set_rules(&overrides.batching, (&named, &names))?;
        it.check_weights(endpoints.weigher.is_some())?;
        for (index, bound) in it.methods.values_mut().enumerate() {
            bound.endpoint = EndpointIdx(index);
        }
        Ok(it)
    }

    /// Applies overrides of methods, then those of endpoints, which win.
    fn set_rules(
        &mut self,
        overrides: &BTreeMap<String, BatchingOverride>,
        (named, names): (&BTreeMap<String, BoundMethod>, &[String]),
    ) -> Result<(), BadBinding> {
        let (endpoints, methods): (Vec<_>, Vec<_>) = overrides
            .iter()
            .partition(|(name, _)| name.starts_with('/'));
        for (name, overrides) in methods {
            let meant = named.get(&path(name)).or(self.methods.get(&path(name)));
            let meant = *meant.ok_or_else(|| unknown_batching(name, named))?;
            let is_meant = |bound: &BoundMethod| names[bound.method.0] == names[meant.method.0];
            for bound in self.methods.values_mut().filter(|bound| is_meant(bound)) {
                bound.set_rule(name, overrides);
            }
        }
        for (name, overrides) in endpoints {
            let bound = self.find(name);
            let bound = bound.ok_or_else(|| unknown_batching(name, &self.methods))?;
            let bound = self.methods.entry(checked(name)?).or_insert(bound);
            bound.set_rule(name, overrides);
        }
        Ok(())
    }

    fn check_weights(&self, has_weights: bool) -> Result<(), BadBinding> {
        let counts = |bound: &BoundMethod| bound.rule.metric() == BatchMetric::Custom;
        match self.methods.iter().find(|(_, bound)| counts(bound)) {
            Some((endpoint, _)) if !has_weights => Err(BadBinding::NoWeights {
                endpoint: endpoint.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The method of an endpoint, or else the default method.
    pub(crate) fn find(&self, endpoint: &str) -> Option<BoundMethod> {
        let own = self.methods.get(endpoint);
        own.or_else(|| self.methods.get(Endpoint::DEFAULT)).copied()
    }

    /// Every endpoint that has a method, and the method.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&str, BoundMethod)> {
        self.methods
            .iter()
            .map(|(endpoint, bound)| (endpoint.as_str(), *bound))
    }

    /// The parameters that a method accepts.
    pub(crate) fn accepts(&self, method: MethodIdx) -> Accepts<'_> {
        match self.accepted.get(method.0) {
            Some(Some(accepted)) => Accepts::Only(accepted),
            _ => Accepts::Anything,
        }
    }

    /// What discovery says about a method.
    pub(crate) fn schema(&self, method: MethodIdx) -> MethodSchema {
        self.schemas.get(method.0).cloned().unwrap_or_default()
    }
}

/// The parameters that each method accepts.
fn accepted<E>(endpoints: &Endpoints<E>) -> Result<Vec<Option<Accepted>>, BadBinding> {
    let is_bound = |name: &String| endpoints.bindings.iter().any(|it| it.endpoint == *name);
    match endpoints.accepted.keys().find(|name| !is_bound(name)) {
        Some(name) => Err(BadBinding::Accepts(name.clone())),
        None => {
            let of_method = |it: &Binding<E>| endpoints.accepted.get(&it.endpoint).cloned();
            Ok(endpoints.bindings.iter().map(of_method).collect())
        }
    }
}

impl MethodKind {
    fn of<E>(method: &Method<E>) -> Self {
        match method {
            Method::Batch(_) => Self::Batch,
            Method::Whole(_) => Self::Whole,
            Method::Matrix(_) => Self::Matrix,
            Method::Stream(_) => Self::Stream,
        }
    }
}

impl BoundMethod {
    fn set_rule(&mut self, name: &str, overrides: &BatchingOverride) {
        if matches!(self.kind, MethodKind::Matrix | MethodKind::Stream) {
            tracing::warn!(name, "batching has no effect on methods of this kind");
            return;
        }
        let own = match self.rule {
            // The default is not a choice of the author.
            BatchRule::Together(own) if own != Batching::default() => Some(own),
            _ => None,
        };
        self.rule = rule(self.kind, overrides.apply_to(own));
    }
}

/// The rule of a method, for the batching that its author or the flow file chooses.
fn rule(kind: MethodKind, chosen: Option<Batching>) -> BatchRule {
    match (kind, chosen) {
        (MethodKind::Batch | MethodKind::Whole, Some(batching)) => BatchRule::Together(batching),
        (MethodKind::Batch, None) => BatchRule::Together(Batching::default()),
        (MethodKind::Whole | MethodKind::Matrix | MethodKind::Stream, _) => BatchRule::Alone,
    }
}

/// The endpoint after which a method is named.
fn path(method: &str) -> String {
    format!("/{}", method.trim_start_matches('/'))
}

fn checked(endpoint: &str) -> Result<String, BadBinding> {
    let endpoint: Endpoint = endpoint.parse()?;
    Ok(endpoint.as_str().to_owned())
}

fn unknown<T>(endpoint: &str, method: &str, known: &BTreeMap<String, T>) -> BadBinding {
    BadBinding::Method {
        endpoint: endpoint.to_owned(),
        method: method.to_owned(),
        known: names(known),
    }
}

fn unknown_batching<T>(name: &str, known: &BTreeMap<String, T>) -> BadBinding {
    BadBinding::Batching {
        name: name.to_owned(),
        known: names(known),
    }
}

fn names<T>(known: &BTreeMap<String, T>) -> String {
    let names = known.keys().map(|name| name.trim_start_matches('/'));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
