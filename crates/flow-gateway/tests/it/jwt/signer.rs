//! Signs tokens, as an identity provider does.

use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaEncoding,
    RsaKeyPair,
};
use serde_json::{Value, json};

/// A private key, and the algorithm that it signs with.
#[derive(Clone)]
pub(super) struct Signer {
    id: String,
    pub(super) algorithm: &'static str,
    key: Key,
}

#[derive(Clone)]
enum Key {
    Rsa(Arc<RsaKeyPair>),
    Elliptic(Arc<EcdsaKeyPair>),
    Edwards(Arc<Ed25519KeyPair>),
}

impl Signer {
    /// RS256. `openssl` makes the key, because ring makes none.
    pub(super) fn rsa(id: &str) -> Self {
        let mut openssl = Command::new("openssl");
        openssl.args(["genpkey", "-quiet", "-algorithm", "RSA", "-outform", "DER"]);
        let made = openssl.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let key = RsaKeyPair::from_der(&made.stdout).unwrap();
        Self::new(id, "RS256", Key::Rsa(Arc::new(key)))
    }

    pub(super) fn p256(id: &str) -> Self {
        let key = elliptic(&signature::ECDSA_P256_SHA256_FIXED_SIGNING);
        Self::new(id, "ES256", key)
    }

    pub(super) fn p384(id: &str) -> Self {
        let key = elliptic(&signature::ECDSA_P384_SHA384_FIXED_SIGNING);
        Self::new(id, "ES384", key)
    }

    pub(super) fn ed25519(id: &str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        Self::new(id, "EdDSA", Key::Edwards(Arc::new(key)))
    }

    fn new(id: &str, algorithm: &'static str, key: Key) -> Self {
        Self {
            id: id.to_owned(),
            algorithm,
            key,
        }
    }

    /// The same RSA key with another algorithm.
    pub(super) fn clone_as(&self, algorithm: &'static str) -> Self {
        Self {
            algorithm,
            ..self.clone()
        }
    }

    /// A token that names its key.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm, "kid": self.id}), claims)
    }

    /// A token with this header, whatever it says.
    pub(super) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let encoding = rsa_encoding(self.algorithm);
                key.sign(encoding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Key::Elliptic(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Key::Edwards(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// The public key as an attacker knows it.
    pub(super) fn public_der(&self) -> Vec<u8> {
        match &self.key {
            Key::Rsa(key) => key.public().as_ref().to_vec(),
            Key::Elliptic(key) => key.public_key().as_ref().to_vec(),
            Key::Edwards(key) => key.public_key().as_ref().to_vec(),
        }
    }

    /// The public key in a set.
    fn jwk(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.key {
            Key::Rsa(key) => {
                let parts = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "n": encode(&parts.n), "e": encode(&parts.e)})
            }
            Key::Elliptic(key) => {
                let point = &key.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            Key::Edwards(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref())})
            }
        };
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk
    }
}

fn elliptic(algorithm: &'static EcdsaSigningAlgorithm) -> Key {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
    Key::Elliptic(Arc::new(key))
}

fn rsa_encoding(algorithm: &str) -> &'static dyn RsaEncoding {
    match algorithm {
        "RS384" => &signature::RSA_PKCS1_SHA384,
        "RS512" => &signature::RSA_PKCS1_SHA512,
        "PS256" => &signature::RSA_PSS_SHA256,
        "PS384" => &signature::RSA_PSS_SHA384,
        "PS512" => &signature::RSA_PSS_SHA512,
        _ => &signature::RSA_PKCS1_SHA256,
    }
}

/// The set of the public keys.
pub(super) fn set(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|it| it.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

/// A token without a signature.
pub(super) fn unsigned(claims: &Value) -> String {
    format!("{}.{}.", encoded(&json!({"alg": "none"})), encoded(claims))
}

/// A token whose signature is made with a shared secret.
pub(super) fn with_secret(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = format!("{}.{}", encoded(header), encoded(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A part of a token.
pub(super) fn encoded(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}
