//! The public keys of a JSON Web Key Set.

use std::str::FromStr;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::super::bad_token::BadToken;

/// Keys of one set: a token without the name of its key is checked with each of them.
const KEYS_MAX: usize = 64;

/// The keys that tokens may be signed with.
#[derive(Debug)]
pub(super) struct KeySet(Vec<SigningKey>);

/// A public key.
#[derive(Debug)]
struct SigningKey {
    id: Option<String>,
    /// The algorithms that it may be used with.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// Reads a set. Keys that verify no signatures, and keys of unknown types, are left out. A set whose list of keys is empty is
    /// valid: no token is.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Written {
            keys: Vec<Value>,
        }
        let written: Written = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if written.keys.len() > KEYS_MAX {
            let count = written.keys.len();
            return Err(format!("it has {count} keys; at most {KEYS_MAX} are read"));
        }
        let is_withdrawn = written.keys.is_empty();
        let keys: Vec<_> = written.keys.into_iter().filter_map(signing_key).collect();
        match keys.is_empty() && !is_withdrawn {
            true => Err(
                "it has no public key that verifies signatures (RSA, P-256, P-384 or Ed25519)"
                    .to_owned(),
            ),
            false => Ok(Self(keys)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a key has this id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        self.0.iter().any(|it| it.id.as_deref() == Some(id))
    }

    /// The keys that a token with this header may be signed with.
    pub(super) fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<impl Iterator<Item = &DecodingKey>, BadToken> {
        if algorithm.family() == AlgorithmFamily::Hmac {
            return Err(BadToken::Unreadable);
        }
        let is_meant = move |it: &&SigningKey| match (&it.id, id) {
            (Some(own), Some(id)) => own == id,
            _ => true,
        };
        let mut meant = self.0.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            return Err(BadToken::UnknownKey);
        }
        let mut fitting = meant
            .filter(move |it| it.algorithms.contains(&algorithm))
            .map(|it| &it.key)
            .peekable();
        match fitting.peek() {
            None => Err(BadToken::Algorithm),
            Some(_) => Ok(fitting),
        }
    }
}

fn signing_key(written: Value) -> Option<SigningKey> {
    let jwk: Jwk = serde_json::from_value(written).ok()?;
    let common = &jwk.common;
    let is_for_signatures = match &common.public_key_use {
        None | Some(PublicKeyUse::Signature) => true,
        Some(_) => false,
    };
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms().to_vec(),
        AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P256 => {
            vec![Algorithm::ES256]
        }
        AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P384 => {
            vec![Algorithm::ES384]
        }
        AlgorithmParameters::OctetKeyPair(it) if it.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ => return None,
    };
    if let Some(only) = &common.key_algorithm {
        let only = Algorithm::from_str(&only.to_string());
        algorithms.retain(|it| only.as_ref().is_ok_and(|only| only == it));
    }
    (is_for_signatures && !algorithms.is_empty()).then_some(())?;
    Some(SigningKey {
        id: common.key_id.clone(),
        key: DecodingKey::from_jwk(&jwk).ok()?,
        algorithms,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rsa(more: &Value) -> Value {
        let mut key = json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"});
        let more = more.as_object().unwrap().clone();
        key.as_object_mut().unwrap().extend(more);
        key
    }

    fn parse(keys: &[Value]) -> Result<KeySet, String> {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes())
    }

    #[track_caller]
    fn check(
        set: &KeySet,
        id: Option<&str>,
        algorithm: Algorithm,
        expected: &Result<usize, BadToken>,
    ) {
        let found = set.find(id, algorithm).map(Iterator::count);
        assert_eq!(&found, expected, "{id:?} {algorithm:?}");
    }

    #[test]
    fn a_key_is_found_by_its_name_and_only_for_algorithms_of_its_type() {
        let elliptic = json!({"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB", "kid": "ec"});
        let set = parse(&[
            rsa(&json!({"kid": "any"})),
            rsa(&json!({"kid": "one", "alg": "RS256"})),
            elliptic,
        ]);
        let set = set.unwrap();
        check(&set, Some("any"), Algorithm::PS512, &Ok(1));
        check(&set, Some("one"), Algorithm::RS256, &Ok(1));
        check(
            &set,
            Some("one"),
            Algorithm::RS512,
            &Err(BadToken::Algorithm),
        );
        check(&set, Some("ec"), Algorithm::ES256, &Ok(1));
        check(
            &set,
            Some("ec"),
            Algorithm::ES384,
            &Err(BadToken::Algorithm),
        );
        check(
            &set,
            Some("ec"),
            Algorithm::RS256,
            &Err(BadToken::Algorithm),
        );
        check(
            &set,
            Some("none"),
            Algorithm::RS256,
            &Err(BadToken::UnknownKey),
        );
        check(&set, None, Algorithm::RS256, &Ok(2));
        check(
            &set,
            Some("any"),
            Algorithm::HS256,
            &Err(BadToken::Unreadable),
        );
    }

    #[test]
    fn keys_that_verify_nothing_are_left_out() {
        let secret = json!({"kty": "oct", "k": "AQAB", "kid": "secret"});
        let other = json!({"kty": "EC", "crv": "secp256k1", "x": "AQAB", "y": "AQAB"});
        let encrypting = rsa(&json!({"use": "enc"}));
        let all = [secret, other, encrypting];
        let error = parse(&all).unwrap_err();
        assert!(error.contains("no public key"), "{error}");
        let set = parse(&[&all[..], &[rsa(&json!({"use": "sig"}))]].concat()).unwrap();
        assert_eq!(set.len(), 1);
        assert!(KeySet::parse(b"{}").unwrap_err().contains("keys"));
        assert_eq!(parse(&[]).unwrap().len(), 0, "all keys are withdrawn");
        let many = vec![rsa(&json!({})); KEYS_MAX + 1];
        assert!(parse(&many).unwrap_err().contains("at most 64"));
    }
}
