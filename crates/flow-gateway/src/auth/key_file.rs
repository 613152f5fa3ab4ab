//! The file of API keys: YAML, or JSON.
//!
//! It has hashes of keys and no key. A key is 256 random bits, too many to guess, so one round of SHA-256 is enough:
//! slow hashes are for passwords.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// Longest name of a key. Names are labels of metrics.
const NAME_LEN_MAX: usize = 64;

/// The content of a file of API keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// The keys.
    #[serde(default)]
    pub keys: Vec<KeyEntry>,
}

/// One API key, and what it allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Whose key it is, or what it is for.
    pub name: String,
    /// The key's hash.
    pub hash: KeyHash,
    /// Endpoints that it may call; `None` for all. One that ends with `*` stands for all that begin so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<String>>,
    /// Requests in a second; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// Documents from midnight to midnight UTC; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents_per_day: Option<u64>,
    /// Tokens that models read for it, from midnight to midnight UTC; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    /// When it stops being valid; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time")]
    pub expires: Option<SystemTime>,
}

/// The SHA-256 hash of a key, written as `sha256:` and 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyHash([u8; 32]);

/// A file of API keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadKeyFile {
    /// It cannot be read.
    #[error("cannot read the API keys `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It is not what a file of keys should be.
    #[error("`{}` is not a file of API keys: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl KeyFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or a key in it is not valid.
    pub fn read(path: &Path) -> Result<Self, BadKeyFile> {
        let text = std::fs::read_to_string(path).map_err(|source| BadKeyFile::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|reason| BadKeyFile::Content {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let file: Self = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
        let mut names = HashSet::new();
        for key in &file.keys {
            key.check()?;
            if !names.insert(&key.name) {
                return Err(format!("two keys are named `{}`", key.name));
            }
        }
        Ok(file)
    }

    /// The content as YAML.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(self).unwrap_or_default()
    }
}

impl KeyEntry {
    /// A key that may call every endpoint without a limit.
    #[must_use]
    pub fn new(name: &str, key: &str) -> Self {
        Self {
            name: name.to_owned(),
            hash: KeyHash::of(key),
            endpoints: None,
            requests_per_second: None,
            documents_per_day: None,
            tokens_per_day: None,
            expires: None,
        }
    }

    /// Says what is wrong with the entry.
    ///
    /// # Errors
    ///
    /// If a gateway could not use it.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) {
            return Err(format!("a key needs a name of 1 to {NAME_LEN_MAX} bytes"));
        }
        if let Some(endpoints) = &self.endpoints {
            if endpoints.is_empty() {
                return Err(format!(
                    "`endpoints` of `{name}` is empty: leave it out to allow all"
                ));
            }
            if let Some(wrong) = endpoints.iter().find(|it| !it.starts_with('/')) {
                return Err(format!(
                    "the endpoint `{wrong}` of `{name}` has no `/` in front"
                ));
            }
        }
        let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
        if self.requests_per_second.is_some_and(|it| !is_rate(it)) {
            return Err(format!(
                "`requests_per_second` of `{name}` must be more than 0"
            ));
        }
        Ok(())
    }

    /// Whether the key may call an endpoint.
    #[must_use]
    pub fn allows(&self, endpoint: &str) -> bool {
        let matches = |allowed: &String| match allowed.strip_suffix('*') {
            Some(start) => endpoint.starts_with(start),
            None => endpoint == allowed,
        };
        let endpoints = self.endpoints.as_ref();
        endpoints.is_none_or(|endpoints| endpoints.iter().any(matches))
    }

    /// Whether the key names an endpoint in full. A key without `endpoints` names none, and a `*` names nothing.
    #[must_use]
    pub fn names(&self, endpoint: &str) -> bool {
        let endpoints = self.endpoints.as_ref();
        endpoints.is_some_and(|endpoints| endpoints.iter().any(|it| it == endpoint))
    }
}

impl KeyHash {
    /// The hash of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// Whether two hashes are equal, in a time that does not depend on how much of them is.
    pub(super) fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl FromStr for KeyHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a hash must be `sha256:` and 64 hexadecimal digits".to_owned();
        let digits = text.strip_prefix("sha256:").ok_or_else(wrong)?;
        let is_hex = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = digits.get(2 * at..2 * at + 2).filter(|_| is_hex);
            *byte = u8::from_str_radix(pair.ok_or_else(wrong)?, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for KeyHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<KeyHash> for String {
    fn from(hash: KeyHash) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{:02x}{:02x}…", self.0[0], self.0[1])
    }
}

/// Times as people write them: `2027-01-31` or `2027-01-31T12:00:00Z`.
mod time {
    use std::time::SystemTime;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(&humantime::format_rfc3339_seconds(*time)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let whole = match text.len() {
            10 => format!("{text}T00:00:00Z"),
            _ => text.clone(),
        };
        let time = humantime::parse_rfc3339_weak(&whole);
        time.map(Some).map_err(|error| {
            D::Error::custom(format!(
                "`{text}` is not a time such as `2027-01-31`: {error}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check_wrong(text: &str, expected: &str) {
        let reason = KeyFile::parse(text).unwrap_err();
        assert!(reason.contains(expected), "{reason}");
    }

    fn hash() -> String {
        KeyHash::of("a").to_string()
    }

    #[test]
    fn a_file_reads_as_it_was_written() {
        let file = KeyFile {
            keys: vec![
                KeyEntry::new("all", "one"),
                KeyEntry {
                    endpoints: Some(vec!["/encode".to_owned(), "/v1/*".to_owned()]),
                    requests_per_second: Some(2.5),
                    documents_per_day: Some(1000),
                    tokens_per_day: Some(1_000_000),
                    expires: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
                    ..KeyEntry::new("few", "other")
                },
            ],
        };
        let text = file.to_yaml();
        assert_eq!(KeyFile::parse(&text).unwrap(), file, "{text}");
        assert_eq!(KeyFile::parse("").unwrap(), KeyFile::default());
        let json = serde_json::to_string(&file).unwrap();
        assert_eq!(KeyFile::parse(&json).unwrap(), file, "{json}");
        assert!(!text.contains("one") && !format!("{file:?}").contains(&hash()));
    }

    #[test]
    fn a_date_is_its_midnight() {
        let text = format!(
            "keys: [{{name: a, hash: '{}', expires: 1970-01-02}}]",
            hash()
        );
        let expires = KeyFile::parse(&text).unwrap().keys[0].expires;
        let day = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        assert_eq!(expires, Some(day));
    }

    #[test]
    fn an_invalid_file_is_reported_with_the_reason() {
        let hash = hash();
        let key = |options: &str| format!("keys: [{{name: a, hash: '{hash}', {options}}}]");
        check_wrong(
            "keys: [{name: a, hash: flow_x}]",
            "must be `sha256:` and 64",
        );
        check_wrong("keys: [{name: a}]", "missing field `hash`");
        check_wrong(&key("endpoint: /a"), "unknown field `endpoint`");
        check_wrong(&key("endpoints: []"), "leave it out");
        check_wrong(&key("endpoints: [encode]"), "has no `/` in front");
        check_wrong(&key("requests_per_second: 0"), "must be more than 0");
        check_wrong(&key("expires: soon"), "`soon` is not a time such as");
        let twice = format!("keys: [{{name: a, hash: '{hash}'}}, {{name: a, hash: '{hash}'}}]");
        check_wrong(&twice, "two keys are named `a`");
        check_wrong(
            &format!("keys: [{{name: '', hash: '{hash}'}}]"),
            "needs a name",
        );
    }

    #[test]
    fn an_endpoint_is_allowed_by_its_name_or_its_beginning() {
        let mut key = KeyEntry::new("a", "b");
        assert!(key.allows("/encode"));
        key.endpoints = Some(vec!["/encode".to_owned(), "/v1/*".to_owned()]);
        for (endpoint, expected) in [
            ("/encode", true),
            ("/encode/x", false),
            ("/v1/embeddings", true),
            ("/v2", false),
        ] {
            assert_eq!(key.allows(endpoint), expected, "{endpoint}");
        }
    }

    #[test]
    fn an_endpoint_is_named_in_full_or_not_at_all() {
        let mut key = KeyEntry::new("a", "b");
        assert!(!key.names("/_console/api/actions"));
        key.endpoints = Some(
            ["/*", "/_console/*", "/_console/api/act*"]
                .map(str::to_owned)
                .into(),
        );
        assert!(key.allows("/_console/api/actions") && !key.names("/_console/api/actions"));
        key.endpoints = Some(vec!["/_console/api/actions".to_owned()]);
        assert!(key.names("/_console/api/actions") && !key.names("/_console/api/logs"));
    }

    #[test]
    fn only_the_same_hash_is_equal() {
        let equal = |a: &str, b: &str| bool::from(KeyHash::of(a).is(&KeyHash::of(b)));
        assert!(equal("a", "a") && !equal("a", "b"));
    }
}
