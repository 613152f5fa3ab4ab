//! The files of a flow with credentials: certificates, private keys and API keys.

use anyhow::Context;
use flow_gateway::auth::KeyFile;
use flow_net::tls::{
    CertificateFiles, ClientCertificates, ClientTls, ServerTls, ServerTlsFiles, TlsOptions,
};
use flow_spec::{CallTls, GatewayTls, Plan};

use crate::exit::BadUsage;

/// The gateway's files for TLS.
pub(crate) fn tls_files(tls: &GatewayTls) -> ServerTlsFiles {
    let clients = tls.clients.as_ref().map(|clients| {
        let wanted = match clients.wanted {
            flow_spec::ClientCertificates::Required => ClientCertificates::Required,
            flow_spec::ClientCertificates::Optional => ClientCertificates::Optional,
        };
        (clients.roots.clone(), wanted)
    });
    ServerTlsFiles {
        own: certificate(&tls.own),
        clients,
    }
}

/// The files for TLS of the calls to an external executor.
fn call_options(tls: &CallTls) -> TlsOptions {
    TlsOptions {
        roots: tls.roots.clone(),
        own: tls.own.as_ref().map(certificate),
        server_name: tls.server_name.clone(),
    }
}

fn certificate(files: &flow_spec::CertificateFiles) -> CertificateFiles {
    CertificateFiles {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
    }
}

/// Reads every file of a plan whose paths are absolute, so that a wrong one is reported before anything starts.
pub(crate) fn check(plan: &Plan) -> anyhow::Result<()> {
    if let Some(tls) = &plan.gateway.tls {
        let wrong = || BadUsage("the gateway cannot serve TLS".to_owned());
        ServerTls::load(tls_files(tls)).with_context(wrong)?;
    }
    if let Some(keys) = &plan.gateway.api_keys {
        let wrong = || BadUsage("the gateway cannot check API keys".to_owned());
        KeyFile::read(&keys.file).with_context(wrong)?;
    }
    if let Some(jwt) = &plan.gateway.jwt {
        let wrong = || BadUsage("the gateway cannot check tokens".to_owned());
        flow_gateway::auth::check_jwt(jwt).with_context(wrong)?;
    }
    for node in &plan.nodes {
        if let Some(tls) = &node.calls.tls {
            let wrong = || BadUsage(format!("`{}` cannot be called with TLS", node.name));
            ClientTls::load(call_options(tls)).with_context(wrong)?;
        }
    }
    Ok(())
}
