//! Reads certificates and private keys in PEM format.

use std::path::Path;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{CertificateFiles, TlsError};

const CERTIFICATE: &str = "certificate";
const KEY: &str = "private key";
const ENCRYPTED: &str = "; a key that is protected by a password must be decrypted first";

/// A certificate with those that lead to its authority, and its private key.
pub(super) fn pair(
    files: &CertificateFiles,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    Ok((certificates(&files.certificate)?, key(&files.key)?))
}

/// The certificates that are trusted.
pub(super) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::Unusable {
            path: path.to_owned(),
            source: error.into(),
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path, CERTIFICATE)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| TlsError::Unusable {
        path: path.to_owned(),
        source: error.into(),
    })?;
    match found.is_empty() {
        true => Err(missing(path, CERTIFICATE, "")),
        false => Ok(found),
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    // The cause is left out, so that no message has any part of a key.
    PrivateKeyDer::from_pem_slice(&read(path, KEY)?).map_err(|_| missing(path, KEY, ENCRYPTED))
}

fn missing(path: &Path, what: &'static str, remedy: &'static str) -> TlsError {
    TlsError::Missing {
        what,
        path: path.to_owned(),
        remedy,
    }
}

fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        what,
        path: path.to_owned(),
        source,
    })
}
