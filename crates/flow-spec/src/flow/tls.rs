//! Encrypted connections: of clients to the gateway, and of the gateway to external executors.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::entry::EntryChecker;
use super::options::{is_set, value};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan, Spanned};
use crate::keys::{GatewayOptions, Options as _};
use crate::plan::Address;
use crate::values::ClientCertificates;

/// TLS at the gateway's port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayTls {
    /// The gateway's own certificate.
    pub own: CertificateFiles,
    /// Which clients need a certificate; `None` if clients are not asked.
    pub clients: Option<ClientAuthorities>,
}

/// A certificate and its private key, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFiles {
    /// File of the certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
}

/// Whose certificates clients may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientAuthorities {
    /// File of the authorities' certificates.
    pub roots: PathBuf,
    /// Whether a client needs a certificate.
    pub wanted: ClientCertificates,
}

/// TLS of the calls to an external executor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTls {
    /// File of the authorities that are trusted; `None` for those that Mozilla trusts.
    pub roots: Option<PathBuf>,
    /// The gateway's own certificate; `None` if it has none.
    pub own: Option<CertificateFiles>,
    /// The name in the executor's certificate; `None` for the host of its address.
    pub server_name: Option<String>,
}

impl GatewayTls {
    /// The paths of all files.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let clients = self.clients.iter_mut().map(|it| &mut it.roots);
        [&mut self.own.certificate, &mut self.own.key]
            .into_iter()
            .chain(clients)
    }
}

impl CallTls {
    /// The paths of all files.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let own = self.own.iter_mut();
        let own = own.flat_map(|it| [&mut it.certificate, &mut it.key]);
        own.chain(&mut self.roots)
    }
}

type Text = Option<Spanned<String>>;

/// The certificate and the key that two options name. One without the other is a problem.
fn pair(
    (certificate, certificate_key): (&Text, &str),
    (key, key_key): (&Text, &str),
    diagnostics: &mut Diagnostics,
) -> Option<CertificateFiles> {
    let (written, missing) = match (certificate, key) {
        (None, None) => return None,
        (Some(certificate), Some(key)) => {
            return Some(CertificateFiles {
                certificate: PathBuf::from(&certificate.value),
                key: PathBuf::from(&key.value),
            });
        }
        (Some(written), None) => (written, key_key),
        (None, Some(written)) => (written, certificate_key),
    };
    let message = format!("`{certificate_key}` and `{key_key}` belong together");
    let problem = Problem::new(&written.span, message).remedy(format!("add `{missing}`"));
    diagnostics.problem(problem);
    None
}

/// TLS at the gateway.
pub(super) fn of_gateway(
    options: &GatewayOptions,
    diagnostics: &mut Diagnostics,
) -> Option<GatewayTls> {
    let certificate = (&options.ssl_certfile, "ssl_certfile");
    let own = pair(
        certificate,
        (&options.ssl_keyfile, "ssl_keyfile"),
        diagnostics,
    );
    let is_half = options.ssl_certfile.is_some() || options.ssl_keyfile.is_some();
    let roots = options.ssl_ca_certs.as_ref();
    let wanted = options.ssl_client_certs.as_ref();
    if !is_half && let Some(span) = first_span(roots, wanted) {
        let message = "client certificates need a gateway with TLS";
        let remedy = "add `ssl_certfile` and `ssl_keyfile`";
        diagnostics.problem(Problem::new(span, message).remedy(remedy));
    }
    if let (None, Some(wanted)) = (roots, wanted) {
        let message = "nothing says whose client certificates are trusted";
        let remedy = "name the authorities' certificates in `ssl_ca_certs`";
        diagnostics.problem(Problem::new(&wanted.span, message).remedy(remedy));
    }
    let clients = roots.map(|roots| ClientAuthorities {
        roots: PathBuf::from(&roots.value),
        wanted: wanted.map_or(ClientCertificates::Required, |it| it.value),
    });
    own.map(|own| GatewayTls { own, clients })
}

fn first_span<'s, A, B>(
    one: Option<&'s Spanned<A>>,
    other: Option<&'s Spanned<B>>,
) -> Option<&'s SourceSpan> {
    one.map(|it| &it.span).or(other.map(|it| &it.span))
}

impl EntryChecker<'_> {
    /// TLS of the calls to an external executor at these addresses.
    pub(super) fn call_tls(
        &self,
        addresses: &[Address],
        diagnostics: &mut Diagnostics,
    ) -> Option<CallTls> {
        if !addresses.iter().any(Address::is_encrypted) {
            for span in self.tls_files() {
                let message = "TLS options have no effect without TLS";
                let remedy = "write `tls: true`, or an address that begins with `grpcs://`";
                diagnostics.problem(Problem::new(span, message).remedy(remedy));
            }
            return None;
        }
        let options = &self.effective.options;
        let certificate = (&options.tls_certfile, "tls_certfile");
        let own = pair(
            certificate,
            (&options.tls_keyfile, "tls_keyfile"),
            diagnostics,
        );
        Some(CallTls {
            roots: value(&options.tls_ca_certs).map(PathBuf::from),
            own,
            server_name: value(&options.tls_server_name),
        })
    }

    /// Reports options of TLS where the flow starts the executor.
    pub(super) fn refuse_tls(&self, diagnostics: &mut Diagnostics) {
        let own = &self.entry.inherited.options;
        let flag = own.tls.as_ref().filter(|_| is_set(&own.tls));
        for span in flag.map(|it| &it.span).into_iter().chain(self.tls_files()) {
            let message = "TLS is for external executors: the flow calls those that it starts on this machine";
            let remedy = "leave it out, or write `external: true`";
            diagnostics.problem(Problem::new(span, message).remedy(remedy));
        }
    }

    /// The spans of the options that have no effect without TLS.
    fn tls_files(&self) -> impl Iterator<Item = &SourceSpan> {
        let written = self.entry.inherited.options.written().into_iter();
        let written = written.filter(|(key, _)| key.name.starts_with("tls_"));
        written.map(|(_, span)| span)
    }
}

#[cfg(test)]
mod tests;
