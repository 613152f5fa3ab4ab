//! Texts that no log, error or report may show.

use std::fmt;

/// A text that may be a secret, such as a password. `Debug` hides it, and it has no `Display`; only
/// [`reveal`](Secret::reveal) gives it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What is shown instead of a secret.
const HIDDEN: &str = "[hidden]";

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
    fn a_secret_is_shown_only_where_it_is_asked_for() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "[hidden] Some([hidden])"
        );
        assert_eq!(secret.reveal(), "hunter2");
    }
}
