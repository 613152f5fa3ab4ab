//! The files that a gateway reads: its certificate and key, the authorities of its clients, and API keys. Pure.
//!
//! The flow file names files of the machine that runs `flow up`. In a container the gateway gets them from secrets.

use std::path::PathBuf;

use flow_spec::{CallTls, Gateway, Plan};

use crate::render::export::{ExportError, GatewayFiles};

impl GatewayFiles {
    /// Refuses what would silently be left out: files of this machine that no secret holds.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), ExportError> {
        let tls = plan.gateway.tls.as_ref();
        let has_all = self.certificate.is_some() && self.key.is_some();
        if tls.is_some() && !has_all {
            return Err(ExportError::GatewayFiles("`ssl_certfile`"));
        }
        if tls.is_some_and(|tls| tls.clients.is_some()) && self.client_authorities.is_none() {
            return Err(ExportError::GatewayFiles("`ssl_ca_certs`"));
        }
        if plan.gateway.api_keys.is_some() && self.api_keys.is_none() {
            return Err(ExportError::GatewayFiles("`api_keys`"));
        }
        let has_files = |tls: &CallTls| tls.roots.is_some() || tls.own.is_some();
        let mut nodes = plan.nodes.iter();
        match nodes.find(|node| node.calls.tls.as_ref().is_some_and(has_files)) {
            Some(node) => Err(ExportError::CallFiles(node.name.to_string())),
            None => Ok(()),
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

/// The keys of the flow file that name files of the gateway, in their order in the reference.
pub(crate) fn keys(gateway: &Gateway) -> Vec<&'static str> {
    let tls = gateway.tls.as_ref();
    let all = [
        (CERTIFICATE, tls.is_some()),
        (KEY, tls.is_some()),
        (AUTHORITIES, tls.is_some_and(|tls| tls.clients.is_some())),
        (API_KEYS, gateway.api_keys.is_some()),
    ];
    let named = all.into_iter().filter(|(_, is_named)| *is_named);
    named.map(|(key, _)| key).collect()
}

/// The key for the certificate.
pub(crate) const CERTIFICATE: &str = "ssl_certfile";
/// The key for the private key.
pub(crate) const KEY: &str = "ssl_keyfile";
/// The key for the authorities of clients.
pub(crate) const AUTHORITIES: &str = "ssl_ca_certs";
/// The key for API keys.
pub(crate) const API_KEYS: &str = "api_keys";
