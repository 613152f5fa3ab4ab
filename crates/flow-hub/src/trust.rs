//! Who may vouch for a registry: the world's authorities, and those that somebody has put in place for it.
//!
//! The places are Docker's, for what the engine trusts flow should, and the other way: a folder for each registry,
//! `certs.d/HOST:PORT`, with certificates in files that end in `.crt`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Where systems keep the world's authorities: Debian's kin, Red Hat's, SUSE's, Alpine.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How such a certificate's file ends.
const ENDING: &str = "crt";

/// Who may vouch for one registry. By default those who are built in.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Put in place for this registry.
    own: Vec<Certificate<'static>>,
    /// In place of those who are built in.
    others: Option<Vec<Certificate<'static>>>,
}

/// Why it is not known who may vouch for a registry.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file is there and cannot be read.
    #[error("cannot read certificates in `{path}`")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("`{path}` holds no certificate (it must be in PEM, `-----BEGIN CERTIFICATE-----`)")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Trust {
    /// Reads who may vouch for the registry `host[:port]`: what lies in a folder of its name in one of `folders`,
    /// and in `authorities`, a file that takes the place of those who are built in (SSL_CERT_FILE).
    ///
    /// # Errors
    /// If something is there that cannot be read, or is no certificate.
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
            // Those who are built in cannot be listed beside others; the system's are mostly the same.
            None if !own.is_empty() => Some(of_system()),
            None => None,
        };
        Ok(Self { own, others })
    }

    /// Whether somebody has put a certificate in place for this very registry.
    pub(crate) fn is_own(&self) -> bool {
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

/// The files of certificates in a folder, which need not be there.
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
    let is_one = |path: &PathBuf| path.extension().is_some_and(|it| it == ENDING);
    let mut paths: Vec<PathBuf> = paths.filter(is_one).collect();
    paths.sort();
    Ok(paths)
}

/// What a file holds; never nothing.
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

fn of_system() -> Vec<Certificate<'static>> {
    let mut found = SYSTEM.iter().filter_map(|path| fs::read(path).ok());
    found.next().map(|text| in_pem(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are as good as a certificate's where nobody looks into it.
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[test]
    fn certificates_of_a_registry_lie_in_a_folder_of_its_name() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        let own = one.join("r.example.com:5000");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("ca.crt"), PEM.repeat(2)).unwrap();
        fs::write(own.join("client.key"), "another matter").unwrap();
        let read = |host: &str| Trust::read(host, &[two.clone(), one.clone()], None).unwrap();
        assert_eq!(read("r.example.com:5000").own.len(), 2);
        let other = read("r.example.com");
        assert!(!other.is_own() && other.others.is_none());
    }

    #[test]
    fn a_file_takes_the_place_of_those_who_are_built_in() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("authorities.pem");
        let read = || Trust::read("r.example.com", &[], Some(&file));
        let error = read().unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read certificates in `"),
            "{error}"
        );
        fs::write(&file, "nothing of the kind").unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("holds no certificate"), "{error}");
        fs::write(&file, PEM).unwrap();
        assert_eq!(read().unwrap().others.unwrap().len(), 1);
    }
}
