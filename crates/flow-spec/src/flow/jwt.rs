//! Tokens of an identity provider, which clients may send instead of an API key.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::options::{is_set, value};
use crate::diagnostics::{Diagnostics, Problem};
use crate::keys::{GatewayOptions, Options as _};

/// Which JSON Web Tokens the gateway accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwt {
    /// Where the public keys of the identity provider are.
    pub keys: JwtKeys,
    /// The required issuer of a token; `None` accepts any issuer whose key is known.
    pub issuer: Option<String>,
    /// For whom a token must be; `None` for anybody.
    pub audience: Option<String>,
    /// The claim that lists the endpoints that a token allows; `None` if a token allows all.
    pub endpoints_claim: Option<String>,
    /// Whether health checks need a token or a key, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_health: bool,
}

/// A JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JwtKeys {
    /// In a file.
    File(PathBuf),
    /// At an address.
    Url {
        /// It begins with `https://`.
        url: String,
        /// File with the certificates of the authorities that are trusted; `None` for those that Mozilla trusts.
        roots: Option<PathBuf>,
    },
}

impl Jwt {
    /// The paths of all files.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        match &mut self.keys {
            JwtKeys::File(path) => Some(path),
            JwtKeys::Url { roots, .. } => roots.as_mut(),
        }
        .into_iter()
    }

    /// Whether a file is needed to check tokens.
    #[must_use]
    pub fn has_files(&self) -> bool {
        match &self.keys {
            JwtKeys::File(_) => true,
            JwtKeys::Url { roots, .. } => roots.is_some(),
        }
    }
}

/// The tokens that the options ask for.
pub(super) fn of_gateway(options: &GatewayOptions, diagnostics: &mut Diagnostics) -> Option<Jwt> {
    let Some(written) = &options.jwt_keys else {
        let keys = options.written().into_iter();
        for (key, span) in keys.filter(|(key, _)| key.name.starts_with("jwt_")) {
            let message = format!("`{}` has no effect without `jwt_keys`", key.name);
            let remedy = "add `jwt_keys` with the public keys of the identity provider";
            diagnostics.problem(Problem::new(span, message).remedy(remedy));
        }
        return None;
    };
    let is_url = written.value.starts_with("https://");
    if written.value.contains("://") && !is_url {
        let message = "`jwt_keys` is neither a file nor an address that begins with `https://`";
        let remedy = "use `https://`: without TLS, keys could be replaced on the way";
        diagnostics.problem(Problem::new(&written.span, message).remedy(remedy));
    }
    if let (false, Some(roots)) = (is_url, &options.jwt_ca_certs) {
        let message = "`jwt_ca_certs` has no effect where `jwt_keys` is a file";
        diagnostics.problem(Problem::new(&roots.span, message).remedy("leave it out"));
    }
    if options.jwt_audience.is_none() {
        let message = "without `jwt_audience`, tokens that the identity provider issued for other services are accepted, too";
        let remedy = "name the audience that tokens for this gateway have";
        diagnostics.warn(Problem::new(&written.span, message).remedy(remedy));
    }
    Some(Jwt {
        keys: match is_url {
            true => JwtKeys::Url {
                url: written.value.clone(),
                roots: value(&options.jwt_ca_certs).map(PathBuf::from),
            },
            false => JwtKeys::File(PathBuf::from(&written.value)),
        },
        issuer: value(&options.jwt_issuer),
        audience: value(&options.jwt_audience),
        endpoints_claim: value(&options.jwt_endpoints),
        for_health: is_set(&options.api_keys_health),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Flow, FlowSpec, Plan, Variables};

    fn load(with: &str) -> Result<(Plan, String), String> {
        let text = format!("jtype: Flow\nwith: {{{with}}}\nexecutors: [{{uses: echo}}]");
        let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
        let checked = Flow::check(spec).map_err(|problems| problems.to_string())?;
        let warnings: String = checked.warnings.iter().map(|it| it.to_string()).collect();
        Ok((Plan::from(checked.flow), warnings))
    }

    #[track_caller]
    fn check(with: &str, expected: &str) {
        let (plan, warnings) = load(with).unwrap();
        let found = serde_json::to_string(&plan.gateway.jwt).unwrap();
        assert_eq!(found, expected, "{with}");
        assert_eq!(warnings, "", "{with}");
    }

    #[test]
    fn keys_are_in_a_file_or_at_an_address() {
        check("", "null");
        check(
            "jwt_keys: keys.json, jwt_audience: flow",
            r#"{"keys":{"file":"keys.json"},"issuer":null,"audience":"flow","endpoints_claim":null}"#,
        );
        check(
            "jwt_keys: 'https://id/keys', jwt_audience: a, jwt_issuer: i, jwt_endpoints: scope, jwt_ca_certs: r.pem",
            r#"{"keys":{"url":{"url":"https://id/keys","roots":"r.pem"}},"issuer":"i","audience":"a","endpoints_claim":"scope"}"#,
        );
    }

    #[test]
    fn unsafe_settings_are_reported() {
        let (_, warnings) = load("jwt_keys: keys.json").unwrap();
        assert!(warnings.contains("for other services"), "{warnings}");
        for (with, expected) in [
            ("jwt_keys: 'http://id/keys'", "begins with `https://`"),
            (
                "jwt_issuer: i",
                "`jwt_issuer` has no effect without `jwt_keys`",
            ),
            (
                "jwt_keys: k.json, jwt_ca_certs: r.pem",
                "where `jwt_keys` is a file",
            ),
        ] {
            let problems = load(with).unwrap_err();
            assert!(problems.contains(expected), "{problems}");
        }
    }
}
