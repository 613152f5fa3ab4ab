//! Types of names, which cannot be confused with each other. The constructor of each checks its rule.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Maximum length of a node's name: that of a DNS label, because Compose uses it as a host name.
const NODE_NAME_LEN_MAX: usize = 63;

/// A node's name in the flow file: a letter or `_`, then letters, digits, `_` and `-`.
///
/// Jina requires a Python identifier; `-` is allowed in addition, because host names use it.
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

/// The endpoint of a request, such as `/encode`: it selects the method of an executor.
///
/// Starts with `/`, except `_jina_dry_run_`, which is reserved by Jina.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint(Arc<str>);

/// The text is not an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an endpoint: it must start with `/`")]
pub struct BadEndpoint(pub String);

impl Endpoint {
    /// The endpoint for requests whose own endpoint an executor does not offer.
    pub const DEFAULT: &'static str = "/default";
    /// An endpoint of every executor that does nothing; readiness checks use it.
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

/// Identifies a request and its reply: 32 hexadecimal digits if made here, any text if made by a client.
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
    fn names_are_host_names_or_python_identifiers() {
        for good in ["encoder", "executor0", "_a", "my-encoder", "A1"] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in ["", "1a", "-a", "a b", "a/b", "é", &"a".repeat(64)] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints_other_than_the_dry_run_start_with_a_slash() {
        assert!("/encode".parse::<Endpoint>().is_ok());
        assert!("_jina_dry_run_".parse::<Endpoint>().is_ok());
        assert!("encode".parse::<Endpoint>().is_err());
    }
}
