//! How a registry wants to be told who we are: the header `WWW-Authenticate` of its refusal.

/// What is to be sent along with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// Name and password.
    Basic,
    /// A token, which somebody else hands out.
    Bearer {
        /// Who.
        realm: String,
        /// For which registry.
        service: Option<String>,
        /// For what.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Reads the header; none: it asks for what we do not have.
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
    fn a_token_is_asked_for_where_the_registry_says() {
        let header = r#"Bearer realm="https://auth.example.com/token",service="r",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example.com/token".to_owned(),
            service: Some("r".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(Challenge::parse(header), Some(expected));
    }

    #[test]
    fn other_schemes_are_known_or_not() {
        assert_eq!(
            Challenge::parse(r#"Basic realm="r""#),
            Some(Challenge::Basic)
        );
        assert_eq!(Challenge::parse("basic"), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Negotiate"), None);
        assert_eq!(Challenge::parse("Bearer service=\"x\""), None);
    }
}
