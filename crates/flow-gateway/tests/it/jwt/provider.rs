//! An identity provider: a server with TLS that returns a set of keys.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use flow_net::tls::{CertificateFiles, ServerTls, ServerTlsFiles, TlsListener};
use flow_net::{Accept, Listener};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::signer::{Signer, set};

/// Serves until it is dropped. Without keys it answers with status 500.
pub(super) struct IdentityProvider {
    address: SocketAddr,
    folder: TempDir,
    keys: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicU64>,
    _server: JoinSet<()>,
}

impl IdentityProvider {
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(path("own.pem"), own.cert.pem()).unwrap();
        std::fs::write(path("own.key"), own.signing_key.serialize_pem()).unwrap();
        let files = ServerTlsFiles {
            own: CertificateFiles {
                certificate: path("own.pem"),
                key: path("own.key"),
            },
            clients: None,
        };
        let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
        let address = listener.local_addr();
        let tls = ServerTls::load(files).unwrap();
        let listener = TlsListener::new(listener, Some(Arc::new(tls)));
        let (keys, asked) = (Arc::<Mutex<_>>::default(), Arc::<AtomicU64>::default());
        let mut server = JoinSet::new();
        server.spawn(serve(listener, keys.clone(), asked.clone()));
        Self {
            address,
            folder,
            keys,
            asked,
            _server: server,
        }
    }

    /// Returns these keys from now on.
    pub(super) fn serve(&self, signers: &[&Signer]) {
        *self.keys.lock().unwrap() = Some(set(signers));
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}/keys", self.address)
    }

    /// The authority of its certificate.
    pub(super) fn roots(&self) -> PathBuf {
        self.folder.path().join("own.pem")
    }

    /// How often it was asked for keys.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn serve(mut listener: TlsListener, keys: Arc<Mutex<Option<String>>>, asked: Arc<AtomicU64>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else {
                break;
            };
            head.push(byte);
        }
        asked.fetch_add(1, Ordering::Relaxed);
        let keys = keys.lock().unwrap().clone();
        let (status, body) = match keys {
            Some(keys) => ("200 OK", keys),
            None => ("500 Not Yet", String::new()),
        };
        let len = body.len();
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}"
        );
        drop(stream.write_all(response.as_bytes()).await);
        drop(stream.shutdown().await);
    }
}
