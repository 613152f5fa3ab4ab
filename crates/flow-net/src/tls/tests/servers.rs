//! Invalid connections and files at a server with TLS.

use std::fs;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, SupportedProtocolVersion};
use tokio_rustls::{TlsConnector, client};

use super::*;

async fn start() -> (Authority, Fixture) {
    let authority = Authority::new();
    let files = server_files(authority.issue("localhost"));
    let server = Fixture::start(Some(files)).await;
    (authority, server)
}

/// A connection with this version, which offers these protocols.
async fn handshake(
    authority: &Authority,
    server: &Fixture,
    version: &'static SupportedProtocolVersion,
    protocols: &[&[u8]],
) -> client::TlsStream<TcpStream> {
    let roots = pem::roots(&authority.file()).unwrap();
    let config = ClientConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[version]).unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn both_versions_of_tls_serve_http_1() {
    let (authority, server) = start().await;
    for version in [&TLS12, &TLS13] {
        for protocols in [&[b"http/1.1".as_slice()][..], &[]] {
            let mut stream = handshake(&authority, &server, version, protocols).await;
            let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with("HTTP/1.1 400"), "{response}");
            assert!(response.contains("speaks gRPC"), "{response}");
        }
    }
}

#[tokio::test]
async fn connections_are_encrypted_on_each_thread() {
    let (authority, server) = start().await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = handshake(&authority, &server, &TLS13, &[b"http/1.1"]).await;
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 400");
        open.push(stream);
    }
}

#[tokio::test]
async fn the_client_chooses_the_protocol() {
    let (authority, server) = start().await;
    let both: [&[u8]; 2] = [b"http/1.1", b"h2"];
    let stream = handshake(&authority, &server, &TLS13, &both).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let stream = handshake(&authority, &server, &TLS13, &both[..1]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn a_plain_text_request_to_a_tls_port_gets_an_answer_that_names_tls() {
    let (_authority, server) = start().await;
    for request in ["GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 400"), "{response}");
        assert!(response.contains("use `https://`"), "{response}");
    }
    let refused = server.ask("grpc", TlsOptions::default()).await;
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_cut_off_in_time() {
    let authority = Authority::new();
    let limits = ConnectionLimits {
        preface_max: Some(Duration::from_millis(100)),
        ..ConnectionLimits::default()
    };
    let files = server_files(authority.issue("localhost"));
    let server = Fixture::with_limits(Some(files), limits).await;
    // Nothing, the beginning of a handshake, and a client that keeps a refused connection open.
    for start in [&b""[..], &[0x16, 3, 1, 2, 0, 1], b"GET / HTTP/1.1"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(start).await.unwrap();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let read = tokio::time::timeout(Duration::from_secs(10), read).await;
        assert!(read.is_ok(), "{start:?} is still open");
    }
    let mut open = handshake(&authority, &server, &TLS13, &[b"h2"]).await;
    let mut rest = Vec::new();
    let cut = open.read_to_end(&mut rest);
    let cut = tokio::time::timeout(Duration::from_secs(10), cut).await;
    assert!(cut.is_ok(), "a handshake alone keeps no connection open");
}

#[tokio::test]
async fn a_handshake_is_answered_whatever_the_certificate_is() {
    let (_authority, server) = start().await;
    assert!(answers_handshake(server.address).await, "not trusted");
    let (authority, clients) = (Authority::new(), Authority::new());
    let files = ServerTlsFiles {
        own: authority.issue("localhost"),
        clients: Some((clients.file(), ClientCertificates::Required)),
    };
    let server = Fixture::start(Some(files)).await;
    assert!(answers_handshake(server.address).await, "asks for one");
}

#[tokio::test]
async fn nothing_answers_a_handshake_where_the_connection_is_only_closed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let close = async { drop(listener.accept().await) };
    let (answers, ()) = tokio::join!(answers_handshake(address), close);
    assert!(!answers);
    drop(listener);
    assert!(!answers_handshake(address).await, "nothing listens");
}

#[track_caller]
fn check_load(files: ServerTlsFiles, expected: &str) {
    let error = ServerTls::load(files).unwrap_err();
    let text = flow_core::Chain(&error).to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn files_that_cannot_be_used_are_reported_with_their_names() {
    let authority = Authority::new();
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    let with = |certificate: &Path, key: &Path| {
        server_files(CertificateFiles {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        })
    };
    let nowhere = authority.path("nowhere");
    check_load(with(&nowhere, &one.key), "cannot read the certificate `");
    check_load(
        with(&one.certificate, &nowhere),
        "cannot read the private key `",
    );
    let swapped = with(&one.key, &one.certificate);
    check_load(swapped, "one.key` has no certificate in PEM format");
    let twice = with(&one.certificate, &one.certificate);
    check_load(
        twice,
        "one.pem` has no private key in PEM format; a key that",
    );
    let mixed = with(&one.certificate, &other.key);
    check_load(mixed, "other.key` does not belong to the certificate `");
    let broken = authority.path("broken.pem");
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&broken, pem).unwrap();
    check_load(with(&broken, &one.key), "broken.pem` cannot be used");
    let clients = ServerTlsFiles {
        clients: Some((nowhere, ClientCertificates::Required)),
        own: one,
    };
    check_load(clients, "cannot read the certificate `");
}

#[test]
fn no_message_has_a_part_of_a_key() {
    let authority = Authority::new();
    let mut files = authority.issue("one");
    let text = fs::read_to_string(&files.key).unwrap();
    let broken = authority.path("broken.key");
    fs::write(&broken, text.replace("END PRIVATE", "END SECRET")).unwrap();
    files.key = broken;
    let error = ServerTls::load(server_files(files)).unwrap_err();
    let told = format!("{error:?} {}", flow_core::Chain(&error));
    let secret = text.lines().nth(1).unwrap();
    assert!(!told.contains(secret), "{told}");
}
