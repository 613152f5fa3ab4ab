//! `uvicorn_kwargs`: options of the server that Jina uses for HTTP and WebSocket. Some have an option of the gateway.

use super::form::{Shape, ValueForm};
use super::scalar::{CLIENT_CERTIFICATES, IN_FLIGHT_MAX, TEXT, entries, integer, mapping};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::values::{ClientCertificates, UvicornOptions};
use crate::yaml::{YamlEntry, YamlNode};

pub(crate) const UVICORN: ValueForm<UvicornOptions> = ValueForm::new(Shape::Mapping, uvicorn);

fn uvicorn(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<UvicornOptions> {
    let node = mapping(node, diagnostics)?;
    let mut options = UvicornOptions::default();
    for entry in entries(&node, diagnostics)? {
        if !entry.value.is_null() {
            option(&mut options, entry, diagnostics);
        }
    }
    // Python requests client certificates only if this is set, whichever authorities it trusts.
    if options.ssl_client_certs.is_none() {
        options.ssl_ca_certs = None;
    }
    Some(options)
}

fn option(options: &mut UvicornOptions, entry: &YamlEntry, diagnostics: &mut Diagnostics) {
    match entry.key.as_str() {
        "ssl_certfile" => options.ssl_certfile = read(&TEXT, entry, diagnostics),
        "ssl_keyfile" => options.ssl_keyfile = read(&TEXT, entry, diagnostics),
        "ssl_ca_certs" => options.ssl_ca_certs = read(&TEXT, entry, diagnostics),
        "ssl_cert_reqs" => options.ssl_client_certs = client_certificates(entry, diagnostics),
        "limit_concurrency" => {
            options.in_flight_max = read(&IN_FLIGHT_MAX, entry, diagnostics);
        }
        "ssl_keyfile_password" => {
            let message =
                "`ssl_keyfile_password` is not supported: flow reads keys without a password";
            let remedy = "decrypt the key with `openssl pkey`, and protect its file";
            diagnostics.problem(Problem::new(&entry.span, message).remedy(remedy));
        }
        other => {
            let why = match other {
                "timeout_keep_alive" => {
                    "idle connections stay open until others need their place (`connections_max`)"
                }
                "workers" => "the gateway is one process with several threads",
                _ => "flow's server is not uvicorn",
            };
            let message = format!("`{other}` has no effect: {why}");
            diagnostics.warn(Problem::new(&entry.span, message));
        }
    }
}

fn read<T>(
    form: &ValueForm<T>,
    entry: &YamlEntry,
    diagnostics: &mut Diagnostics,
) -> Option<Spanned<T>> {
    Some(Spanned {
        value: (form.read)(&entry.value, diagnostics)?,
        span: entry.value.span.clone(),
    })
}

/// The number of Python's constant: `CERT_NONE`, `CERT_OPTIONAL` or `CERT_REQUIRED`.
fn client_certificates(
    entry: &YamlEntry,
    diagnostics: &mut Diagnostics,
) -> Option<Spanned<ClientCertificates>> {
    let value = match integer(&entry.value) {
        Some(0) => return None,
        Some(1) => ClientCertificates::Optional,
        Some(2) => ClientCertificates::Required,
        _ => return read(&CLIENT_CERTIFICATES, entry, diagnostics),
    };
    Some(Spanned {
        value,
        span: entry.value.span.clone(),
    })
}
