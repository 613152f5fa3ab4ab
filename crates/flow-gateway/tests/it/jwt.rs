//! Tokens of an identity provider at a gateway, over every protocol.

mod provider;
mod signer;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use flow_core::{Code, Deadline, Failure};
use flow_gateway::auth::{ApiKeys, KeyEntry, KeyFile};
use flow_net::{ApiKey, Client, ConnectOptions};
use flow_proto::Envelope;
use flow_spec::{Jwt, JwtKeys};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use self::provider::IdentityProvider;
use self::signer::{Signer, unsigned, with_secret};
use crate::fake_executor::FakeExecutor;
use crate::http_client::{Answer, request as http};
use crate::test_gateway::{TestGateway, placement, plan, request};

/// A gateway that accepts tokens for `flow` by `https://id`, and an executor that returns what it gets.
struct Fixture {
    gateway: TestGateway,
    folder: TempDir,
    _echo: FakeExecutor,
}

fn jwt(keys: JwtKeys) -> Jwt {
    Jwt {
        keys,
        issuer: Some("https://id".to_owned()),
        audience: Some("flow".to_owned()),
        endpoints_claim: None,
        for_health: false,
    }
}

impl Fixture {
    /// The keys are in a file.
    async fn start(signers: &[&Signer]) -> Self {
        Self::changed(signers, |_| {}).await
    }

    async fn changed(signers: &[&Signer], change: impl FnOnce(&mut Jwt)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        write(&file, signers);
        let mut jwt = jwt(JwtKeys::File(file));
        change(&mut jwt);
        Self::with(folder, jwt).await
    }

    async fn with(folder: TempDir, jwt: Jwt) -> Self {
        let echo = FakeExecutor::echo().await;
        let placement = placement(plan(&["node"]), &[&echo]);
        let keys = folder.path().join("keys.yml");
        let file = KeyFile {
            keys: vec![KeyEntry::new("team", "flow_team")],
        };
        std::fs::write(&keys, file.to_yaml()).unwrap();
        let gateway = TestGateway::configured(placement, |config| {
            config.jwt = Some(jwt);
            config.api_keys = Some(ApiKeys {
                file: keys,
                for_health: false,
            });
        });
        Self {
            gateway: gateway.await,
            folder,
            _echo: echo,
        }
    }

    async fn get(&self, path: &str, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        http(&self.gateway, "GET", path, &headers, b"").await
    }

    async fn grpc(&self, token: &str, endpoint: &str) -> Result<Envelope, Failure> {
        let options = ConnectOptions {
            api_key: Some(ApiKey::new(token).unwrap()),
            ..ConnectOptions::default()
        };
        let client = Client::connect_with(&self.gateway.url, options).await;
        let soon = Deadline::after(Instant::now(), Some(Duration::from_secs(20)));
        client
            .unwrap()
            .single(request(endpoint, &["a"]), soon)
            .await
    }

    /// A reply over a WebSocket, or the status with which it is refused.
    async fn websocket(&self, token: &str) -> Result<String, u16> {
        let url = format!("ws://{}/", self.gateway.address);
        let mut handshake = url.into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        handshake.headers_mut().insert("authorization", bearer);
        let mut socket = match connect_async(handshake).await {
            Ok((socket, _)) => socket,
            Err(Error::Http(response)) => return Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        };
        let body = json!({"data": [{"text": "hello"}], "execEndpoint": "/encode"});
        socket.send(Message::text(body.to_string())).await.unwrap();
        let reply = socket.next().await.unwrap().unwrap();
        Ok(reply.into_text().unwrap().to_string())
    }

    /// Returns when a token is accepted, or is not any more.
    async fn until(&self, token: &str, status: u16) {
        let changed = async {
            while self.get("/status", token).await.status != status {
                tokio::task::yield_now().await;
            }
        };
        let changed = tokio::time::timeout(Duration::from_secs(30), changed).await;
        assert!(changed.is_ok(), "the status is never {status}");
    }
}

/// Replaces a set of keys as a whole.
fn write(file: &Path, signers: &[&Signer]) {
    let new = file.with_extension("new");
    std::fs::write(&new, signer::set(signers)).unwrap();
    std::fs::rename(new, file).unwrap();
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// The claims of a valid token, and others.
fn claims(others: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://id", "aud": ["other", "flow"], "sub": "alice", "exp": now() + 300,
    });
    let all = claims.as_object_mut().unwrap();
    for (name, value) in others.as_object().unwrap() {
        match value {
            Value::Null => drop(all.remove(name)),
            value => drop(all.insert(name.clone(), value.clone())),
        }
    }
    claims
}

fn valid() -> Value {
    claims(&json!({}))
}

#[tokio::test]
async fn tokens_of_every_algorithm_with_public_keys_are_accepted() {
    let rsa = Signer::rsa("rsa");
    let signers = [
        rsa.clone_as("RS384"),
        rsa.clone_as("RS512"),
        rsa.clone_as("PS256"),
        rsa.clone_as("PS384"),
        rsa.clone_as("PS512"),
        rsa,
        Signer::p256("p256"),
        Signer::p384("p384"),
        Signer::ed25519("ed"),
    ];
    let fixture = Fixture::start(&[&signers[5], &signers[6], &signers[7], &signers[8]]).await;
    for signer in &signers {
        let answer = fixture.get("/status", &signer.token(&valid())).await;
        assert_eq!(
            answer.status,
            200,
            "{}: {}",
            signer.algorithm,
            answer.text()
        );
    }
}

#[tokio::test]
async fn a_token_is_accepted_over_every_protocol_beside_api_keys() {
    let signer = Signer::p256("one");
    let fixture = Fixture::start(&[&signer]).await;
    let token = signer.token(&valid());
    for credential in [token.as_str(), "flow_team"] {
        assert_eq!(fixture.get("/status", credential).await.status, 200);
        assert!(fixture.grpc(credential, "/encode").await.is_ok());
        let reply = fixture.websocket(credential).await.unwrap();
        assert!(reply.contains("hello"), "{reply}");
    }
    // The handshake of the WebSocket, and the request on it, are two.
    let metrics = fixture.gateway.metrics_text().await;
    for expected in [
        "flow_jwt_requests_total{runtime_name=\"gateway/rep-0\"} 4\n",
        "flow_jwt_documents_total{runtime_name=\"gateway/rep-0\"} 2\n",
    ] {
        assert!(metrics.contains(expected), "{metrics}");
    }
    assert!(!metrics.contains("alice"), "{metrics}");
    assert_eq!(fixture.get("/status", "flow_other").await.status, 401);
}

/// Tokens that are not valid, each with the reason. The gateway knows the keys of both signers.
fn bad_tokens(signer: &Signer, rsa: &Signer) -> Vec<(String, &'static str)> {
    let with = |others: Value| signer.token(&claims(&others));
    let header = |algorithm: &str, key: &str| json!({"alg": algorithm, "kid": key});
    let confused = |algorithm, key| signer.token_with(&header(algorithm, key), &valid());
    let secret = with_secret(&header("HS256", "rsa"), &valid(), &rsa.public_der());
    let unreadable = "it is not a JSON Web Token";
    let algorithm = "its key does not allow its algorithm";
    vec![
        (with(json!({"exp": now() - 120})), "it has expired"),
        (with(json!({"exp": null})), "it has no valid exp"),
        (with(json!({"exp": "never"})), "it has no valid exp"),
        (with(json!({"nbf": now() + 120})), "it is not valid yet"),
        (with(json!({"nbf": "soon"})), unreadable),
        (with(json!({"aud": "other"})), "it is for another audience"),
        (with(json!({"aud": null})), "it has no valid aud"),
        (with(json!({"iss": "other"})), "it is from another issuer"),
        (with(json!({"iss": null})), "it has no valid iss"),
        (
            Signer::p256("one").token(&valid()),
            "its signature is invalid",
        ),
        (
            Signer::p256("two").token(&valid()),
            "a key that is not known",
        ),
        (
            tampered(&signer.token(&valid())),
            "its signature is invalid",
        ),
        (unsigned(&valid()), unreadable),
        (secret, unreadable),
        ("eyJx.e30.AAAA".to_owned(), unreadable),
        (confused("ES256", "rsa"), algorithm),
        (confused("ES384", "one"), algorithm),
    ]
}

#[tokio::test]
async fn a_token_that_is_not_valid_is_refused_over_every_protocol_and_says_why() {
    let (signer, rsa) = (Signer::p256("one"), Signer::rsa("rsa"));
    let fixture = Fixture::start(&[&signer, &rsa]).await;
    for (token, reason) in bad_tokens(&signer, &rsa) {
        let answer = fixture.get("/v1/models", &token).await;
        assert_eq!(answer.status, 401, "{reason}");
        let challenge = answer.header("www-authenticate");
        let start = "Bearer error=\"invalid_token\", error_description=\"";
        assert!(challenge.starts_with(start), "{challenge}");
        assert!(challenge.contains(reason), "{challenge}: {reason}");
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains(reason), "{message}");
        let refused = fixture.grpc(&token, "/encode").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        assert!(refused.message().contains(reason), "{refused}");
        assert_eq!(fixture.websocket(&token).await, Err(401), "{reason}");
    }
    let metrics = fixture.gateway.metrics_text().await;
    let counted =
        "flow_requests_refused_total{reason=\"invalid_token\",runtime_name=\"gateway/rep-0\"} 51\n";
    assert!(metrics.contains(counted), "{metrics}");
}

/// The same token with other claims.
fn tampered(token: &str) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let others = signer::encoded(&claims(&json!({"sub": "root"})));
    format!("{}.{others}.{}", parts[0], parts[2])
}

#[tokio::test]
async fn clocks_may_differ_a_little() {
    let signer = Signer::p256("one");
    let fixture = Fixture::start(&[&signer]).await;
    for others in [json!({"exp": now() - 5}), json!({"nbf": now() + 20})] {
        let token = signer.token(&claims(&others));
        assert_eq!(fixture.get("/status", &token).await.status, 200, "{others}");
    }
}

#[tokio::test]
async fn a_token_allows_the_endpoints_of_its_claim() {
    let signer = Signer::p256("one");
    let change = |jwt: &mut Jwt| jwt.endpoints_claim = Some("scope".to_owned());
    let fixture = Fixture::changed(&[&signer], change).await;
    let token = signer.token(&claims(&json!({"scope": "openid /encode /stat*"})));
    assert!(fixture.grpc(&token, "/encode").await.is_ok());
    assert_eq!(fixture.get("/status", &token).await.status, 200);
    let refused = fixture.grpc(&token, "/other").await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
    let message = "the token of `alice` does not allow the endpoint `/other`";
    assert!(refused.message().contains(message), "{refused}");
    assert_eq!(fixture.get("/dry_run", &token).await.status, 403);
    let none = fixture.get("/status", &signer.token(&valid())).await;
    assert_eq!(none.status, 403, "without the claim nothing is allowed");
}

#[tokio::test]
async fn keys_that_are_rotated_in_their_file_are_followed() {
    let (old, new) = (Signer::p256("old"), Signer::rsa("new"));
    let fixture = Fixture::start(&[&old]).await;
    let (of_old, of_new) = (old.token(&valid()), new.token(&valid()));
    assert_eq!(fixture.get("/status", &of_new).await.status, 401);
    let file = fixture.folder.path().join("keys.json");
    write(&file, &[&old, &new]);
    fixture.until(&of_new, 200).await;
    assert_eq!(fixture.get("/status", &of_old).await.status, 200);
    write(&file, &[&new]);
    fixture.until(&of_old, 401).await;
    assert_eq!(fixture.get("/status", &of_new).await.status, 200);
}

#[tokio::test]
async fn keys_at_an_address_are_read_when_they_are_needed_and_kept_while_the_provider_is_down() {
    let (old, new) = (Signer::p256("old"), Signer::p256("new"));
    let provider = IdentityProvider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let keys = JwtKeys::Url {
        url: provider.url(),
        roots: Some(provider.roots()),
    };
    let fixture = Fixture::with(folder, jwt(keys)).await;
    let (of_old, of_new) = (old.token(&valid()), new.token(&valid()));
    let answer = fixture.get("/v1/models", &of_old).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), "10");
    let refused = fixture.grpc(&of_old, "/encode").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert_eq!(fixture.get("/status", "flow_team").await.status, 200);

    provider.serve(&[&old]);
    fixture.until(&of_old, 200).await;
    assert_eq!(fixture.get("/status", &of_new).await.status, 401);
    provider.serve(&[&old, &new]);
    fixture.until(&of_new, 200).await;

    drop(provider);
    let unknown = Signer::p256("unknown").token(&valid());
    for _ in 0..3 {
        assert_eq!(fixture.get("/status", &unknown).await.status, 401);
        assert_eq!(fixture.get("/status", &of_old).await.status, 200);
    }
}

#[tokio::test]
async fn a_client_with_unknown_keys_does_not_make_the_gateway_ask_again_and_again() {
    let known = Signer::p256("known");
    let provider = IdentityProvider::start().await;
    provider.serve(&[&known]);
    let folder = tempfile::tempdir().unwrap();
    let keys = JwtKeys::Url {
        url: provider.url(),
        roots: Some(provider.roots()),
    };
    let fixture = Fixture::with(folder, jwt(keys)).await;
    fixture.until(&known.token(&valid()), 200).await;
    let begun = Instant::now();
    for number in 0..40 {
        let unknown = Signer::p256(&format!("unknown-{number}")).token(&valid());
        assert_eq!(fixture.get("/status", &unknown).await.status, 401);
    }
    // One fetch at the start, and at most one in five seconds since.
    let most = 2 + begun.elapsed().as_secs() / 5;
    assert!(provider.asked() <= most, "{} {most}", provider.asked());
}
