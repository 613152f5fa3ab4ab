//! How a registry wants a client to authenticate: the header `WWW-Authenticate`.

/// An authentication scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// Name and password.
    Basic,
    /// A token, which a token server issues.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The registry's name there.
        service: Option<String>,
        /// The requested access.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Parses the header; `None` if the scheme is not supported.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let value = |name: &str| {
            let mut found = pairs(rest)
                .into_iter()
                .filter(|(key, _)| key.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value)
        };
        Some(Self::Bearer {
            realm: value("realm")?,
            service: value("service"),
            scope: value("scope"),
        })
    }
}

/// `key="value",key="value"`; a comma inside quotes is part of its value.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut is_quoted = false;
    let parts = text.split(|c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    parts
        .filter_map(|part| part.trim().split_once('='))
        .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_challenge_names_the_token_server() {
        let header = r#"Bearer realm="https://auth.example.com/token",service="r",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example.com/token".to_owned(),
            service: Some("r".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(Challenge::parse(header), Some(expected));
    }

    #[test]
    fn other_schemes_than_basic_and_bearer_are_not_supported() {
        assert_eq!(
            Challenge::parse(r#"Basic realm="r""#),
            Some(Challenge::Basic)
        );
        assert_eq!(Challenge::parse("basic"), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Negotiate"), None);
        assert_eq!(Challenge::parse("Bearer service=\"x\""), None);
    }
}
