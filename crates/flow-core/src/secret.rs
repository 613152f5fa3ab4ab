//! Texts that no log, error or report may show.

use std::fmt;

/// A text that may be a secret, such as a password. `Debug` hides it, and it has no `Display`; only
/// [`reveal`](Secret::reveal) gives it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

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
];

/// Whether the value of a variable or key with this name is probably a secret, such as that of `HF_TOKEN` or `api_key`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|end| name.ends_with(end))
}

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
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
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["max_tokens", "keys_file", "PATH", "", "name"] {
            assert!(!is_secret_name(name), "{name}");
        }
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
}
