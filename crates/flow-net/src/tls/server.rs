//! The certificate of a server, and which clients it lets in. Loaded again when its files change.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use flow_core::Chain;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::{CertificateFiles, TlsError, pem, provider};
use crate::FileWatch;

/// The protocols that a client may choose in the handshake.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Files for TLS at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// The server's own certificate.
    pub own: CertificateFiles,
    /// The authorities of client certificates, and whether a client needs one; `None` if clients are not asked.
    pub clients: Option<(PathBuf, ClientCertificates)>,
}

/// Whether a client needs a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a certificate is refused.
    Required,
    /// A client may have none; a certificate that is not trusted is refused.
    Optional,
}

/// TLS at a server.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerTlsFiles,
    /// For connections from now on. Those that are open keep theirs.
    config: RwLock<Arc<ServerConfig>>,
    watch: FileWatch,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the files do not fit together.
    pub fn load(files: ServerTlsFiles) -> Result<Self, TlsError> {
        let watch = FileWatch::new(files.paths());
        Ok(Self {
            config: RwLock::new(config(&files)?),
            files,
            watch,
        })
    }

    /// Loads the files again whenever they change, until the future is dropped. Files that cannot be used are logged, and
    /// change nothing.
    pub async fn follow_files(&self, look_every: Duration) -> Infallible {
        let mut watch = self.watch.clone();
        loop {
            watch.changed(look_every).await;
            let files = self.files.clone();
            let Ok(loaded) = tokio::task::spawn_blocking(move || config(&files)).await else {
                continue;
            };
            let certificate = self.files.own.certificate.display();
            match loaded {
                Ok(config) => {
                    *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
                    tracing::info!(%certificate, "new connections get the new certificate");
                }
                Err(error) => {
                    let error = Chain(&error);
                    tracing::error!(%certificate, %error, "the changed TLS files are invalid; keeping the old certificate");
                }
            }
        }
    }

    /// Makes the handshake of a new connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(config.clone())
    }
}

impl ServerTlsFiles {
    fn paths(&self) -> Vec<PathBuf> {
        let own = [self.own.certificate.clone(), self.own.key.clone()];
        let roots = self.clients.iter().map(|(roots, _)| roots.clone());
        own.into_iter().chain(roots).collect()
    }
}

fn config(files: &ServerTlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(TlsError::configuration)?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some((roots, wanted)) => {
            builder.with_client_cert_verifier(verifier(roots.clone(), *wanted)?)
        }
    };
    let (certificates, key) = pem::pair(&files.own)?;
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| TlsError::of_pair(&files.own, error))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

fn verifier(
    path: PathBuf,
    wanted: ClientCertificates,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(pem::roots(&path)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let builder = match wanted {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| TlsError::Unusable {
        path,
        source: error.into(),
    })
}
