//! Finds the method that answers a request.

use std::collections::BTreeMap;

use flow_core::Endpoint;

use crate::endpoints::{Binding, Method};

/// A method's place among an executor's methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MethodIdx(pub(crate) usize);

/// How a method wants its documents; see `endpoints.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Batch,
    Whole,
    Stream,
}

/// Endpoints of one executor, as it binds them and as the flow file overrides them.
#[derive(Debug)]
pub(crate) struct Directory {
    methods: BTreeMap<String, (MethodIdx, Kind)>,
}

/// The flow file binds endpoints to methods that are not there.
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
}

impl Directory {
    /// `overrides` binds further endpoints to methods, which are named after their first endpoint: the
    /// method of `/encode` is `encode`.
    pub(crate) fn new<E>(
        bindings: &[Binding<E>],
        overrides: &BTreeMap<String, String>,
    ) -> Result<Self, BadBinding> {
        let mut methods = BTreeMap::new();
        for (place, binding) in bindings.iter().enumerate() {
            let kind = match &binding.method {
                Method::Batch(_) => Kind::Batch,
                Method::Whole(_) => Kind::Whole,
                Method::Stream(_) => Kind::Stream,
            };
            methods.insert(checked(&binding.endpoint)?, (MethodIdx(place), kind));
        }
        let named = methods.clone();
        for (endpoint, method) in overrides {
            let found = named.get(&format!("/{}", method.trim_start_matches('/')));
            let found = *found.ok_or_else(|| unknown(endpoint, method, &named))?;
            methods.insert(checked(endpoint)?, found);
        }
        Ok(Self { methods })
    }

    /// The method for an endpoint: its own, else the default one, else none.
    pub(crate) fn find(&self, endpoint: &str) -> Option<(MethodIdx, Kind)> {
        let own = self.methods.get(endpoint);
        own.or_else(|| self.methods.get(Endpoint::DEFAULT)).copied()
    }

    /// Every endpoint that has a method, and the kind of its method.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.methods
            .iter()
            .map(|(endpoint, (_, kind))| (endpoint.as_str(), *kind))
    }
}

fn checked(endpoint: &str) -> Result<String, BadBinding> {
    let endpoint: Endpoint = endpoint
        .parse()
        .map_err(|_| BadBinding::Endpoint(endpoint.to_owned()))?;
    Ok(endpoint.as_str().to_owned())
}

fn unknown<T>(endpoint: &str, method: &str, known: &BTreeMap<String, T>) -> BadBinding {
    let known: Vec<&str> = known
        .keys()
        .map(|name| name.trim_start_matches('/'))
        .collect();
    BadBinding::Method {
        endpoint: endpoint.to_owned(),
        method: method.to_owned(),
        known: known.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;

    fn directory(overrides: &[(&str, &str)]) -> Result<Directory, BadBinding> {
        let endpoints = Endpoints::<()>::new()
            .on("/index", |(), _, _| Ok(()))
            .default(|(), _, _| Ok(()));
        let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
        Directory::new(
            &endpoints.into_bindings(),
            &overrides.iter().map(owned).collect(),
        )
    }

    #[test]
    fn an_endpoint_without_a_method_of_its_own_gets_the_default() {
        let directory = directory(&[]).unwrap();
        assert_eq!(directory.find("/index").unwrap().0, MethodIdx(0));
        assert_eq!(directory.find("/other").unwrap().0, MethodIdx(1));
    }

    #[test]
    fn the_flow_file_may_bind_further_endpoints() {
        let directory = directory(&[("/other", "index")]).unwrap();
        assert_eq!(directory.find("/other").unwrap().0, MethodIdx(0));
    }

    #[test]
    fn a_method_that_is_not_there_is_named_with_those_that_are() {
        let error = directory(&[("/other", "indx")]).unwrap_err().to_string();
        let expected =
            "`uses_requests` binds `/other` to method `indx`, but there are only: default, index";
        assert_eq!(error, expected);
    }
}
