//! TLS, for both ends of a connection.
//!
//! ```text
//! pem.rs       reads certificates and private keys
//! server.rs    the certificate of a server, which is loaded again when its files change
//! stream.rs    a connection of a client, with the handshake in its first read
//! listener.rs  accepts such connections
//! client.rs    the certificates that a client trusts, and its own
//! probe.rs     does a server answer a handshake at all?
//! ```
//!
//! Versions 1.2 and 1.3, with the cipher suites that rustls considers safe.

mod client;
mod listener;
mod pem;
mod probe;
mod server;
mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::CryptoProvider;

pub use client::{ClientTls, TlsOptions};
pub use listener::TlsListener;
pub use probe::answers_handshake;
pub use server::{ClientCertificates, ServerTls, ServerTlsFiles};
pub use stream::ServerStream;

/// A certificate, and the private key that belongs to it; both in PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Files for TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} `{}`", path.display())]
    Read {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file does not have what it should have.
    #[error("`{}` has no {what} in PEM format{remedy}", path.display())]
    Missing {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Advice; may be empty.
        remedy: &'static str,
    },
    /// A private key and a certificate do not fit together.
    #[error("the private key `{}` does not belong to the certificate `{}`", .0.key.display(), .0.certificate.display())]
    Mismatch(CertificateFiles),
    /// A certificate or a key is not valid.
    #[error("`{}` cannot be used", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: BoxedCause,
    },
    /// The name of a server is neither a host name nor an IP address.
    #[error("`{name}` is not the name of a server: write a host name or an IP address")]
    ServerName {
        /// The name.
        name: String,
        /// The cause.
        source: BoxedCause,
    },
    /// The library refuses its configuration.
    #[error("TLS cannot be configured")]
    Configuration(#[source] BoxedCause),
}

type BoxedCause = Box<dyn std::error::Error + Send + Sync>;

/// The implementation of the cryptography.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl TlsError {
    fn configuration(error: rustls::Error) -> Self {
        Self::Configuration(error.into())
    }

    /// The error of a certificate and its key.
    fn of_pair(files: &CertificateFiles, error: rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(_) => Self::Mismatch(files.clone()),
            rustls::Error::General(_) => Self::Unusable {
                path: files.key.clone(),
                source: error.into(),
            },
            error => Self::Unusable {
                path: files.certificate.clone(),
                source: error.into(),
            },
        }
    }
}
