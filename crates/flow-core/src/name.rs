//! Names that must not be swapped by mistake, each with its rule in its constructor.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name of a node: what fits into a DNS label, because Compose uses it as a host name.
const NODE_NAME_LEN_MAX: usize = 63;

/// A node's name in the flow file: a letter or `_`, then letters, digits, `_` and `-`.
///
/// Jina asks for a Python identifier; `-` is allowed besides, because host names use it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

/// The text is not a node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a name: a letter or `_` first, then letters, digits, `_` and `-`, at most 63 in all"
)]
pub struct BadName(pub String);

impl NodeName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let rest_is_fine = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if starts_well && rest_is_fine && text.len() <= NODE_NAME_LEN_MAX {
            Ok(Self(text.into()))
        } else {
            Err(BadName(text.to_owned()))
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for NodeName {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for NodeName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// What a request asks an executor to do, such as `/encode`.
///
/// Starts with `/`, except `_jina_dry_run_`, which is Jina's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint(Arc<str>);

/// The text is not an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an endpoint: it must start with `/`")]
pub struct BadEndpoint(pub String);

impl Endpoint {
    /// Where requests go whose own endpoint an executor does not offer.
    pub const DEFAULT: &'static str = "/default";
    /// Every executor has it and does nothing there: readiness checks walk the graph with it.
    pub const DRY_RUN: &'static str = "_jina_dry_run_";

    /// The endpoint as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        if text.starts_with('/') || text == Self::DRY_RUN {
            Ok(Self(text.into()))
        } else {
            Err(BadEndpoint(text.to_owned()))
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What ties a reply to its request: 32 hex digits where we make it, anything where a client did.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// A new random id.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for RequestId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_host_names_and_python_identifiers() {
        for good in ["encoder", "executor0", "_a", "my-encoder", "A1"] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in ["", "1a", "-a", "a b", "a/b", "é", &"a".repeat(64)] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_start_with_a_slash_but_for_the_dry_run() {
        assert!("/encode".parse::<Endpoint>().is_ok());
        assert!("_jina_dry_run_".parse::<Endpoint>().is_ok());
        assert!("encode".parse::<Endpoint>().is_err());
    }
}
