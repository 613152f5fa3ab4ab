//! Which servers a client trusts.

use super::*;
use crate::dns::Instance;
use crate::{Limits, Replica};

const HERE: &str = "127.0.0.1";

#[tokio::test]
async fn a_client_calls_a_server_whose_authority_it_trusts() {
    let authority = Authority::new();
    let server = Fixture::start(Some(server_files(authority.issue(HERE)))).await;
    assert_eq!(server.ask("grpcs", trusting(&authority)).await, Ok(true));
    assert_eq!(server.ask("https", trusting(&authority)).await, Ok(true));
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let authority = Authority::new();
    let server = Fixture::start(Some(server_files(authority.issue(HERE)))).await;
    for options in [trusting(&Authority::new()), TlsOptions::default()] {
        let error = server.ask("grpcs", options).await.unwrap_err();
        assert!(error.contains("UnknownIssuer"), "{error}");
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new();
    let expired = authority.issue_until(HERE, 2020);
    let server = Fixture::start(Some(server_files(expired))).await;
    let error = server.ask("grpcs", trusting(&authority)).await.unwrap_err();
    assert!(error.contains("certificate expired"), "{error}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_unless_that_name_is_expected() {
    let authority = Authority::new();
    let server = Fixture::start(Some(server_files(authority.issue("gateway.test")))).await;
    let error = server.ask("grpcs", trusting(&authority)).await.unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");
    let expecting = TlsOptions {
        server_name: Some("gateway.test".to_owned()),
        ..trusting(&authority)
    };
    assert_eq!(server.ask("grpcs", expecting).await, Ok(true));
}

#[tokio::test]
async fn an_instance_of_a_service_has_a_certificate_for_the_name_that_is_expected() {
    let authority = Authority::new();
    let server = Fixture::start(Some(server_files(authority.issue("encoder.example")))).await;
    // Nothing listens at the other address of the same machine.
    let other = SocketAddr::new("::1".parse().unwrap(), server.address.port());
    let instance = Instance {
        host: "anywhere.test".to_owned(),
        addresses: vec![other, server.address],
        priority: 0,
        weight: 0,
    };
    let ask = async |expected: &str| {
        let options = TlsOptions {
            server_name: Some(expected.to_owned()),
            ..trusting(&authority)
        };
        let tls = ClientTls::load(options).unwrap();
        let replica = Replica::of_instance("srv://a", &instance, Some(tls), Limits::default());
        let soon = Deadline::after(Instant::now(), Some(Duration::from_secs(10)));
        replica.unwrap().is_serving(soon).await
    };
    assert_eq!(ask("encoder.example").await, Ok(true));
    let failure = ask("other.example").await.unwrap_err();
    assert!(
        failure.message().contains("not valid for name"),
        "{failure:?}"
    );
}

#[tokio::test]
async fn a_client_with_tls_fails_at_a_port_without_it() {
    let server = Fixture::start(None).await;
    let error = server.ask("grpcs", TlsOptions::default()).await;
    let error = error.unwrap_err();
    assert!(error.contains("cannot connect to `grpcs://"), "{error}");
    assert_eq!(server.ask("grpc", TlsOptions::default()).await, Ok(true));
}

#[tokio::test]
async fn a_server_that_requires_certificates_lets_in_only_clients_that_have_one() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let files = |wanted| ServerTlsFiles {
        own: authority.issue(HERE),
        clients: Some((clients.file(), wanted)),
    };
    let known = TlsOptions {
        own: Some(clients.issue("someone")),
        ..trusting(&authority)
    };
    let stranger = TlsOptions {
        own: Some(Authority::new().issue("someone")),
        ..trusting(&authority)
    };
    assert!(ClientTls::load(stranger).is_err(), "its files are gone");
    let strangers = Authority::new();
    let stranger = TlsOptions {
        own: Some(strangers.issue("someone")),
        ..trusting(&authority)
    };
    for (wanted, without) in [
        (ClientCertificates::Required, false),
        (ClientCertificates::Optional, true),
    ] {
        let server = Fixture::start(Some(files(wanted))).await;
        assert_eq!(server.ask("grpcs", known.clone()).await, Ok(true));
        let found = server.ask("grpcs", trusting(&authority)).await;
        assert_eq!(found.is_ok(), without, "{wanted:?}: {found:?}");
        let found = server.ask("grpcs", stranger.clone()).await;
        assert!(found.is_err(), "{wanted:?}: {found:?}");
    }
}
