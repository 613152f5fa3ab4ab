//! The certificates that are trusted for a registry: public authorities, and those installed for this registry.
//!
//! The folders are Docker's, so that flow and the engine trust the same: `certs.d/HOST:PORT` for each registry, with
//! certificates in files that end in `.crt`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// The system's certificates of public authorities: Debian, Red Hat, SUSE, Alpine.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The extension of certificate files.
const EXTENSION: &str = "crt";

/// The certificates that are trusted for one registry. By default the built-in public authorities.
#[derive(Debug, Clone, Default)]
pub struct TrustStore {
    /// Installed for this registry.
    own: Vec<Certificate<'static>>,
    /// Replace the built-in authorities.
    others: Option<Vec<Certificate<'static>>>,
}

/// Why certificates cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file or folder cannot be read.
    #[error("cannot read certificates in `{path}`")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file has no certificate.
    #[error("`{path}` has no certificate (it must be in PEM, `-----BEGIN CERTIFICATE-----`)")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl TrustStore {
    /// Reads the certificates for the registry `host[:port]` from folders of its name in `folders`, and from
    /// `authorities`, a file that replaces the built-in authorities (SSL_CERT_FILE).
    ///
    /// # Errors
    /// If a file cannot be read, or has no certificate.
    pub fn read(
        host: &str,
        folders: &[PathBuf],
        authorities: Option<&Path>,
    ) -> Result<Self, TrustError> {
        let mut own = Vec::new();
        for file in folders.iter().map(|it| files(&it.join(host))) {
            for path in file? {
                own.extend(certificates(&path)?);
            }
        }
        let others = match authorities {
            Some(path) => Some(certificates(path)?),
            // The built-in authorities cannot be combined with others; the system's are mostly the same.
            None if !own.is_empty() => Some(system_certificates()),
            None => None,
        };
        Ok(Self { own, others })
    }

    /// Whether a certificate is installed for this registry.
    pub(crate) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    pub(crate) fn tls(&self) -> TlsConfig {
        let roots = match &self.others {
            None => RootCerts::WebPki,
            Some(others) => {
                let all = self.own.iter().chain(others).cloned();
                RootCerts::Specific(Arc::new(all.collect()))
            }
        };
        TlsConfig::builder().root_certs(roots).build()
    }
}

/// The certificate files in a folder, which may be missing.
fn files(folder: &Path) -> Result<Vec<PathBuf>, TrustError> {
    let wrong = |source| TrustError::Read {
        path: folder.to_owned(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>().map_err(wrong)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(error)),
    };
    let paths = entries.into_iter().map(|entry| entry.path());
    let is_one = |path: &PathBuf| path.extension().is_some_and(|it| it == EXTENSION);
    let mut paths: Vec<PathBuf> = paths.filter(is_one).collect();
    paths.sort();
    Ok(paths)
}

/// The certificates in a file; at least one.
fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, TrustError> {
    let text = fs::read(path).map_err(|source| TrustError::Read {
        path: path.to_owned(),
        source,
    })?;
    let found = in_pem(&text);
    match found.is_empty() {
        true => Err(TrustError::Empty {
            path: path.to_owned(),
        }),
        false => Ok(found),
    }
}

fn in_pem(text: &[u8]) -> Vec<Certificate<'static>> {
    let items = parse_pem(text).filter_map(Result::ok);
    let certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    items.filter_map(certificate).collect()
}

fn system_certificates() -> Vec<Certificate<'static>> {
    let mut found = SYSTEM.iter().filter_map(|path| fs::read(path).ok());
    found.next().map(|text| in_pem(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PEM block; its content is not parsed.
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[test]
    fn certificates_of_a_registry_are_in_a_folder_of_its_name() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        let own = one.join("r.example.com:5000");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("ca.crt"), PEM.repeat(2)).unwrap();
        fs::write(own.join("client.key"), "another matter").unwrap();
        let read = |host: &str| TrustStore::read(host, &[two.clone(), one.clone()], None).unwrap();
        assert_eq!(read("r.example.com:5000").own.len(), 2);
        let other = read("r.example.com");
        assert!(!other.has_own() && other.others.is_none());
    }

    #[test]
    fn a_file_replaces_the_built_in_authorities() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("authorities.pem");
        let read = || TrustStore::read("r.example.com", &[], Some(&file));
        let error = read().unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read certificates in `"),
            "{error}"
        );
        fs::write(&file, "nothing of the kind").unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("has no certificate"), "{error}");
        fs::write(&file, PEM).unwrap();
        assert_eq!(read().unwrap().others.unwrap().len(), 1);
    }
}
