//! Connects to gateways and executors, with errors for users.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use clap::Args;
use flow_core::Chain;
use flow_net::tls::{CertificateFiles, TlsOptions};
use flow_net::{ApiKey, Client, ConnectError, ConnectOptions};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// Heading of the options.
const CONNECTION: &str = "Connection";

/// The variable with the API key.
const API_KEY_VARIABLE: &str = "FLOW_API_KEY";

/// Options of a connection.
#[derive(Clone, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// Trust the certificate authorities in this PEM file, instead of those that Mozilla trusts
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    ca_cert: Option<PathBuf>,
    /// Present this certificate to the server, a PEM file
    #[arg(long, value_name = "FILE", requires = "client_key", help_heading = CONNECTION)]
    client_cert: Option<PathBuf>,
    /// Private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "client_cert", help_heading = CONNECTION)]
    client_key: Option<PathBuf>,
    /// Expect this name in the server's certificate, instead of the host of the URL
    #[arg(long, value_name = "NAME", help_heading = CONNECTION)]
    server_name: Option<String>,
    /// Send this API key; other users of this machine may see it, unlike that of the variable FLOW_API_KEY, which is the
    /// default
    #[arg(long, value_name = "KEY", help_heading = CONNECTION)]
    api_key: Option<String>,
}

impl ConnectionArgs {
    /// Connects to `grpc://host:port`, or with TLS to `grpcs://host:port`. An invalid address is bad usage.
    pub(crate) async fn connect(&self, url: &str, shell: &Shell) -> anyhow::Result<Client> {
        let connecting = Client::connect_with(url, self.options(shell)?);
        connecting.await.map_err(|error| match &error {
            ConnectError::Url { .. } | ConnectError::NotEncrypted { .. } | ConnectError::Tls(_) => {
                BadUsage(Chain(&error).to_string()).into()
            }
            ConnectError::Connect { url, source } => match reason(source) {
                Some(reason) => anyhow::anyhow!("cannot connect to `{url}`: {reason}"),
                None => error.into(),
            },
        })
    }

    fn options(&self, shell: &Shell) -> anyhow::Result<ConnectOptions> {
        let own = self.client_cert.clone().zip(self.client_key.clone());
        let variable = || shell.variable(API_KEY_VARIABLE).filter(|it| !it.is_empty());
        let api_key = self.api_key.clone().or_else(variable);
        let api_key = api_key.map(|text| ApiKey::new(&text)).transpose();
        Ok(ConnectOptions {
            tls: TlsOptions {
                roots: self.ca_cert.clone(),
                own: own.map(|(certificate, key)| CertificateFiles { certificate, key }),
                server_name: self.server_name.clone(),
            },
            api_key: api_key.map_err(|error| BadUsage(error.to_string()))?,
        })
    }
}

/// Leaves out the key.
impl fmt::Debug for ConnectionArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("ca_cert", &self.ca_cert)
            .field("client_cert", &self.client_cert)
            .finish_non_exhaustive()
    }
}

/// The error of the operating system, without the layers above it.
fn reason(error: &(dyn Error + 'static)) -> Option<String> {
    let mut found = None;
    let mut cause = Some(error);
    while let Some(error) = cause {
        found = error.downcast_ref::<io::Error>().or(found);
        cause = error.source();
    }
    let found: &io::Error = found?;
    Some(match found.raw_os_error() {
        Some(_) => format!("{}; is the flow up?", found.kind()),
        // Errors without a number, such as that of an unknown host name or of TLS, have a text only.
        None => format!("{found}{}", remedy(&found.to_string())),
    })
}

/// What to do about an error of TLS.
fn remedy(error: &str) -> &'static str {
    match error {
        _ if error.contains("UnknownIssuer") => {
            "; if you trust its authority, name it with `--ca-cert`"
        }
        _ if error.contains("not valid for name") => {
            "; if that is the server, name it with `--server-name`"
        }
        _ if error.contains("InvalidContentType") || error.contains("corrupt message") => {
            "; if the server has no TLS, use `grpc://`"
        }
        _ if error.contains("lookup") => "; is the flow up?",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn connect(url: &str) -> anyhow::Result<Client> {
        let shell = Shell::of([].into());
        ConnectionArgs::default().connect(url, &shell).await
    }

    async fn check(url: &str, wanted: &str) {
        let error = connect(url).await.unwrap_err();
        assert_eq!(format!("{error:#}"), wanted);
    }

    #[tokio::test]
    async fn a_closed_port_is_reported_without_details_of_layers() {
        let wanted = "cannot connect to `grpc://127.0.0.1:1`: connection refused; is the flow up?";
        check("grpc://127.0.0.1:1", wanted).await;
    }

    #[tokio::test]
    async fn an_invalid_address_is_bad_usage() {
        check(
            "ftp://x:1",
            "`ftp://x:1` is not an address: write `grpc://host:port` or `unix:/path`",
        )
        .await;
        let error = connect("nonsense").await.unwrap_err();
        assert!(error.is::<BadUsage>());
    }
}
