//! TLS at a client: the authorities that it trusts, and its own certificate.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{CertificateFiles, TlsError, pem, provider};

/// Options of TLS at a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// File with the certificates of the authorities that are trusted; `None` for those that Mozilla trusts.
    pub roots: Option<PathBuf>,
    /// The client's own certificate; `None` if it has none.
    pub own: Option<CertificateFiles>,
    /// The name in the server's certificate; `None` for the host of the address.
    pub server_name: Option<String>,
}

/// TLS at a client. Clones share it.
#[derive(Debug, Clone)]
pub struct ClientTls {
    options: TlsOptions,
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Reads the files of the options.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the files do not fit together.
    pub fn load(options: TlsOptions) -> Result<Self, TlsError> {
        let server_name = options.server_name.as_deref().map(server_name);
        Ok(Self {
            server_name: server_name.transpose()?,
            config: Arc::new(config(&options)?),
            options,
        })
    }

    /// The same, for connections that speak another protocol than HTTP/2: the name that the handshake (ALPN) gives it.
    #[must_use]
    pub fn for_protocol(mut self, name: &[u8]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![name.to_vec()];
        self.config = Arc::new(config);
        self
    }

    /// The options that it was made from.
    #[must_use]
    pub fn options(&self) -> &TlsOptions {
        &self.options
    }

    /// Makes the handshake with the server at this host.
    ///
    /// # Errors
    ///
    /// If the handshake fails, or the server's certificate is not one that is trusted for this host.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<TlsStream<S>, Box<dyn std::error::Error + Send + Sync>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(host)?,
        };
        let connector = TlsConnector::from(self.config.clone());
        Ok(connector.connect(name, stream).await?)
    }
}

/// The name, or the address, in a server's certificate. IPv6 addresses may have brackets.
fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|source| TlsError::ServerName {
        name: host.to_owned(),
        source: source.into(),
    })
}

fn config(options: &TlsOptions) -> Result<ClientConfig, TlsError> {
    let roots = match &options.roots {
        Some(path) => pem::roots(path)?,
        // Not those of the machine, of which a small container has none.
        None => RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        },
    };
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(TlsError::configuration)?
        .with_root_certificates(roots);
    let mut config = match &options.own {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let (certificates, key) = pem::pair(files)?;
            builder
                .with_client_auth_cert(certificates, key)
                .map_err(|error| TlsError::of_pair(files, error))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
