//! Finds the method that answers a request.

use std::collections::BTreeMap;

use flow_core::Endpoint;
use flow_core::parameters::{Accepted, Accepts};

use crate::Endpoints;
use crate::batch::{Batching, Metric, Rule};
use crate::endpoints::{Binding, Method};
use crate::rules::Written;

/// A method's place among an executor's methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MethodIdx(pub(crate) usize);

/// An endpoint's place among those that have a method, in the order of their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndpointIdx(pub(crate) usize);

/// How a method wants its documents; see `endpoints.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Batch,
    Whole,
    Matrix,
    Stream,
}

/// The method of an endpoint, and how requests to it share its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) endpoint: EndpointIdx,
    pub(crate) method: MethodIdx,
    pub(crate) kind: Kind,
    pub(crate) rule: Rule,
}

/// Endpoints of one executor, as it binds them and as the flow file overrides them.
#[derive(Debug)]
pub(crate) struct Directory {
    methods: BTreeMap<String, Found>,
    /// By [`MethodIdx`]: the parameters that a method accepts; none: it does not say.
    accepted: Vec<Option<Accepted>>,
}

/// What the flow file says about an executor's endpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides<'a> {
    /// Endpoint → method.
    pub(crate) requests: Option<&'a BTreeMap<String, String>>,
    /// Endpoint or method → how requests share calls.
    pub(crate) batching: BTreeMap<String, Written>,
}

/// The flow file binds endpoints to methods that are not there, or wants of them what they cannot do; or
/// the executor's own code names an endpoint that it does not bind.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadBinding {
    #[error("endpoint `{0}` must start with `/`")]
    Endpoint(String),
    #[error("`uses_requests` binds `{endpoint}` to method `{method}`, but there are only: {known}")]
    Method {
        endpoint: String,
        method: String,
        known: String,
    },
    #[error("`uses_dynamic_batching` names `{place}`, but there are only: {known}")]
    Batching { place: String, known: String },
    #[error("the executor's code says which parameters `{0}` accepts, but binds no method to it")]
    Accepts(String),
    #[error("the batching of `{endpoint}` counts the executor's own weights, but it has none")]
    NoWeights { endpoint: String },
}

impl Directory {
    /// The flow file binds further endpoints to methods, which are named after their first endpoint: the
    /// method of `/encode` is `encode`.
    pub(crate) fn new<E>(
        endpoints: &Endpoints<E>,
        overrides: &Overrides<'_>,
    ) -> Result<Self, BadBinding> {
        let mut methods = BTreeMap::new();
        for (place, binding) in endpoints.bound.iter().enumerate() {
            let kind = Kind::of(&binding.method);
            let own = endpoints.batching.get(&binding.endpoint).copied();
            let found = Found {
                endpoint: EndpointIdx::default(),
                method: MethodIdx(place),
                kind,
                rule: rule(kind, own),
            };
            methods.insert(checked(&binding.endpoint)?, found);
        }
        let named = methods.clone();
        for (endpoint, method) in overrides.requests.into_iter().flatten() {
            let found = named.get(&path(method));
            let found = *found.ok_or_else(|| unknown(endpoint, method, &named))?;
            methods.insert(checked(endpoint)?, found);
        }
        let mut it = Self {
            methods,
            accepted: accepted(endpoints)?,
        };
        it.set_rules(&overrides.batching)?;
        it.check_weights(endpoints.weigher.is_some())?;
        for (place, found) in it.methods.values_mut().enumerate() {
            found.endpoint = EndpointIdx(place);
        }
        Ok(it)
    }

    /// Methods first, then endpoints: what is said of an endpoint itself wins.
    fn set_rules(&mut self, written: &BTreeMap<String, Written>) -> Result<(), BadBinding> {
        let (endpoints, methods): (Vec<_>, Vec<_>) = written
            .iter()
            .partition(|(place, _)| place.starts_with('/'));
        for (place, written) in methods {
            let named = self.methods.get(&path(place)).copied();
            let named = named.ok_or_else(|| self.unknown_place(place))?;
            let mut of_method = self.methods.values_mut();
            while let Some(found) = of_method.find(|found| found.method == named.method) {
                found.set_rule(place, written);
            }
        }
        for (place, written) in endpoints {
            let found = self.find(place).ok_or_else(|| self.unknown_place(place))?;
            let found = self.methods.entry(checked(place)?).or_insert(found);
            found.set_rule(place, written);
        }
        Ok(())
    }

    fn check_weights(&self, has_weights: bool) -> Result<(), BadBinding> {
        let counts = |found: &Found| found.rule.metric() == Metric::Custom;
        match self.methods.iter().find(|(_, found)| counts(found)) {
            Some((endpoint, _)) if !has_weights => Err(BadBinding::NoWeights {
                endpoint: endpoint.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The method for an endpoint: its own, else the default one, else none.
    pub(crate) fn find(&self, endpoint: &str) -> Option<Found> {
        let own = self.methods.get(endpoint);
        own.or_else(|| self.methods.get(Endpoint::DEFAULT)).copied()
    }

    /// Every endpoint that has a method, and the method.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&str, Found)> {
        self.methods
            .iter()
            .map(|(endpoint, found)| (endpoint.as_str(), *found))
    }

    /// The parameters that a method accepts.
    pub(crate) fn accepts(&self, method: MethodIdx) -> Accepts<'_> {
        match self.accepted.get(method.0) {
            Some(Some(accepted)) => Accepts::Only(accepted),
            _ => Accepts::Anything,
        }
    }

    fn unknown_place(&self, place: &str) -> BadBinding {
        BadBinding::Batching {
            place: place.to_owned(),
            known: names(&self.methods),
        }
    }
}

/// What each method accepts.
fn accepted<E>(endpoints: &Endpoints<E>) -> Result<Vec<Option<Accepted>>, BadBinding> {
    let is_bound = |name: &String| endpoints.bound.iter().any(|it| it.endpoint == *name);
    match endpoints.accepted.keys().find(|name| !is_bound(name)) {
        Some(name) => Err(BadBinding::Accepts(name.clone())),
        None => {
            let of_method = |it: &Binding<E>| endpoints.accepted.get(&it.endpoint).cloned();
            Ok(endpoints.bound.iter().map(of_method).collect())
        }
    }
}

impl Kind {
    fn of<E>(method: &Method<E>) -> Self {
        match method {
            Method::Batch(_) => Self::Batch,
            Method::Whole(_) => Self::Whole,
            Method::Matrix(_) => Self::Matrix,
            Method::Stream(_) => Self::Stream,
        }
    }
}

impl Found {
    fn set_rule(&mut self, place: &str, written: &Written) {
        if matches!(self.kind, Kind::Matrix | Kind::Stream) {
            tracing::warn!(place, "batching has no effect on methods of this kind");
            return;
        }
        let own = match self.rule {
            // What nobody has said is not taken for a choice of the executor's.
            Rule::Together(own) if own != Batching::default() => Some(own),
            _ => None,
        };
        self.rule = rule(self.kind, written.over(own));
    }
}

/// The rule of a method for which `chosen` is what its author or the flow file says.
fn rule(kind: Kind, chosen: Option<Batching>) -> Rule {
    match (kind, chosen) {
        (Kind::Batch | Kind::Whole, Some(batching)) => Rule::Together(batching),
        (Kind::Batch, None) => Rule::Together(Batching::default()),
        (Kind::Whole | Kind::Matrix | Kind::Stream, _) => Rule::Alone,
    }
}

/// The endpoint that a method is named after.
fn path(method: &str) -> String {
    format!("/{}", method.trim_start_matches('/'))
}

fn checked(endpoint: &str) -> Result<String, BadBinding> {
    let endpoint: Endpoint = endpoint
        .parse()
        .map_err(|_| BadBinding::Endpoint(endpoint.to_owned()))?;
    Ok(endpoint.as_str().to_owned())
}

fn unknown<T>(endpoint: &str, method: &str, known: &BTreeMap<String, T>) -> BadBinding {
    BadBinding::Method {
        endpoint: endpoint.to_owned(),
        method: method.to_owned(),
        known: names(known),
    }
}

fn names<T>(known: &BTreeMap<String, T>) -> String {
    let names = known.keys().map(|name| name.trim_start_matches('/'));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
