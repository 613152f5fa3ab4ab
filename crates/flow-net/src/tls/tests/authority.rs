//! Certificates for tests.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::CertificateFiles;

/// A certificate authority with a folder of its own.
pub(super) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let name = folder.path().display().to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self { folder, issuer }
    }

    /// Its own certificate.
    pub(super) fn file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for a host.
    pub(super) fn issue(&self, host: &str) -> CertificateFiles {
        self.issue_until(host, 2100)
    }

    /// A certificate that expires at the beginning of a year.
    pub(super) fn issue_until(&self, host: &str, year: i32) -> CertificateFiles {
        let files = CertificateFiles {
            certificate: self.path(&format!("{host}.pem")),
            key: self.path(&format!("{host}.key")),
        };
        self.write(host, year, &files);
        files
    }

    /// Writes a new certificate, and its key, in place of others.
    pub(super) fn write(&self, host: &str, year: i32, files: &CertificateFiles) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        replace(&files.key, &key.serialize_pem());
        replace(&files.certificate, &certificate.pem());
    }
}

/// Replaces a file by a rename, as programs that renew certificates do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}
