//! The files that a gateway reads: its certificate and key, the authorities of its clients, and API keys. Pure.
//!
//! The flow file names files of the machine that runs `flow up`. In a container the gateway gets them from secrets.

use std::path::{Path, PathBuf};

use flow_spec::{CallTls, Gateway, Jwt, Plan};

use crate::render::export::{ExportError, GatewayFiles};

/// The key for the certificate.
pub(crate) const CERTIFICATE: &str = "ssl_certfile";
/// The key for the private key.
pub(crate) const KEY: &str = "ssl_keyfile";
/// The key for the authorities of clients.
pub(crate) const AUTHORITIES: &str = "ssl_ca_certs";
/// The key for API keys.
pub(crate) const API_KEYS: &str = "api_keys";

/// The keys of the flow file that name files of the gateway, each with the option that names a secret for it.
const SECRETS: [(&str, &str); 4] = [
    (CERTIFICATE, "--secret ssl_certfile=SECRET"),
    (KEY, "--secret ssl_keyfile=SECRET"),
    (AUTHORITIES, "--secret ssl_ca_certs=SECRET"),
    (API_KEYS, "--secret api_keys=SECRET"),
];

impl GatewayFiles {
    /// The files in a container, by the keys of the flow file.
    pub(crate) fn at(path: impl Fn(&'static str) -> Option<PathBuf>) -> Self {
        Self {
            certificate: path(CERTIFICATE),
            key: path(KEY),
            client_authorities: path(AUTHORITIES),
            api_keys: path(API_KEYS),
        }
    }

    /// Replaces the paths of this machine by those in the container.
    pub(crate) fn place(&self, gateway: &mut Gateway) {
        let replace = |path: &mut PathBuf, inside: &Option<PathBuf>| {
            if let Some(inside) = inside {
                path.clone_from(inside);
            }
        };
        if let Some(tls) = &mut gateway.tls {
            replace(&mut tls.own.certificate, &self.certificate);
            replace(&mut tls.own.key, &self.key);
            if let Some(clients) = &mut tls.clients {
                replace(&mut clients.roots, &self.client_authorities);
            }
        }
        if let Some(keys) = &mut gateway.api_keys {
            replace(&mut keys.file, &self.api_keys);
        }
    }
}

/// The files of a gateway on this machine, by the keys of the flow file and in their order in the reference.
pub(crate) fn files(gateway: &Gateway) -> Vec<(&'static str, &Path)> {
    let tls = gateway.tls.as_ref();
    let clients = tls.and_then(|tls| tls.clients.as_ref());
    let all = [
        (CERTIFICATE, tls.map(|tls| &tls.own.certificate)),
        (KEY, tls.map(|tls| &tls.own.key)),
        (AUTHORITIES, clients.map(|clients| &clients.roots)),
        (API_KEYS, gateway.api_keys.as_ref().map(|keys| &keys.file)),
    ];
    let named = all.into_iter();
    named
        .filter_map(|(key, path)| Some((key, path?.as_path())))
        .collect()
}

/// Checks that each file of the gateway has a secret, and each secret a file.
pub(crate) fn check_secrets(
    gateway: &Gateway,
    is_given: impl Fn(&str) -> bool,
) -> Result<(), ExportError> {
    let needed = files(gateway);
    for (key, option) in SECRETS {
        let is_needed = needed.iter().any(|(name, _)| *name == key);
        match (is_needed, is_given(key)) {
            (true, false) => return Err(ExportError::NoSecret { key, option }),
            (false, true) => return Err(ExportError::UnusedSecret { key, option }),
            (true, true) | (false, false) => {}
        }
    }
    Ok(())
}

/// Refuses what would silently be left out: files of this machine by which tokens are checked, and with which executors are
/// called.
pub(crate) fn check_files(plan: &Plan) -> Result<(), ExportError> {
    if plan.gateway.jwt.as_ref().is_some_and(Jwt::has_files) {
        return Err(ExportError::TokenFiles);
    }
    let has_files = |tls: &CallTls| tls.roots.is_some() || tls.own.is_some();
    let mut nodes = plan.nodes.iter();
    match nodes.find(|node| node.calls.tls.as_ref().is_some_and(has_files)) {
        Some(node) => Err(ExportError::CallFiles(node.name.to_string())),
        None => Ok(()),
    }
}
