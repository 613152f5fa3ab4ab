//! Values that no log, error or report may show.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that may be or contain a secret, such as a password. `Debug` hides it, and it has neither `Display` nor
/// `Serialize`: only [`reveal`](Secret::reveal) and its like give it, and their names tell a reader where it is shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret<T = String>(T);

/// What is shown instead of a secret.
const HIDDEN: &str = "[hidden]";

/// Ends of names, in capital letters, whose values are probably secrets.
const SECRET_NAMES: &[&str] = &[
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "KEY",
    "CREDENTIALS",
    "AUTHORIZATION",
];

/// Whether the value of a variable or key with this name is probably a secret, such as that of `HF_TOKEN` or `api_key`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|end| name.ends_with(end))
}

/// Whether a text contains a URL with a password, such as `postgres://user:password@host`.
#[must_use]
pub fn has_password(text: &str) -> bool {
    passwords(text).next().is_some()
}

/// The text with each password of a URL hidden, for messages that quote input.
#[must_use]
pub fn without_passwords(text: &str) -> String {
    let mut shown = String::new();
    let mut done = 0;
    for password in passwords(text) {
        if password.start >= done {
            shown.push_str(&text[done..password.start]);
            shown.push_str(HIDDEN);
            done = password.end;
        }
    }
    shown.push_str(&text[done..]);
    shown
}

/// Where the passwords of URLs are in a text.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(at, separator)| {
        let start = at + separator.len();
        let is_end = |it: char| it.is_whitespace() || matches!(it, '/' | '?' | '#');
        let authority = text[start..].split(is_end).next().unwrap_or_default();
        let (user, _host) = authority.rsplit_once('@')?;
        let (name, password) = user.split_once(':')?;
        let start = start + name.len() + ":".len();
        (!password.is_empty()).then(|| start..start + password.len())
    })
}

impl<T> Secret<T> {
    /// Hides a value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &T {
        &self.0
    }

    /// The value, no longer hidden, for the one place that needs it.
    #[must_use]
    pub fn into_revealed(self) -> T {
        self.0
    }

    /// Writes the value as it is, for `serialize_with`.
    ///
    /// # Errors
    ///
    /// If the serializer fails.
    pub fn serialize_revealed<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize,
    {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_says_that_its_value_is_a_secret() {
        for name in [
            "HF_TOKEN",
            "api_key",
            "db.password",
            "AWS_SECRET_ACCESS_KEY",
            "authorization",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["max_tokens", "keys_file", "PATH", "", "name"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a_url_with_a_password_is_a_secret() {
        for url in [
            "postgres://user:password@host/database",
            "http://:p@proxy:3128",
            "first https://a/b, then redis://u:p:q@h",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "postgres://user@host:5432/database",
            "postgres://user:@host",
            "https://host:443/a:b@c",
            "a:b@c",
            "",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn passwords_of_urls_are_hidden_in_messages() {
        let text = "`redis://u:hunter2@h` and http://a/b, then amqp://:hunter2@mq";
        assert_eq!(
            without_passwords(text),
            "`redis://u:[hidden]@h` and http://a/b, then amqp://:[hidden]@mq"
        );
        assert_eq!(without_passwords("no URL: a@b"), "no URL: a@b");
    }

    #[test]
    fn a_secret_is_shown_only_where_it_is_asked_for() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "[hidden] Some([hidden])"
        );
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn a_secret_of_any_type_is_hidden_and_read_as_its_value() {
        let secret: Secret<Vec<u8>> = serde_json::from_str("[7]").unwrap();
        assert_eq!(format!("{secret:?}"), "[hidden]");
        let written = secret.serialize_revealed(serde_json::value::Serializer);
        assert_eq!(written.unwrap(), serde_json::json!([7]));
    }
}
