//! Connects to gateways and executors, with errors for users.

use std::error::Error;
use std::io;

use flow_net::{Client, ConnectError};

use crate::exit::BadUsage;

/// Connects to `grpc://host:port`. An invalid address is bad usage.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    Client::connect(url).await.map_err(|error| match &error {
        ConnectError::Url { .. } | ConnectError::NotEncrypted { .. } | ConnectError::Tls(_) => {
            BadUsage(error.to_string()).into()
        }
        ConnectError::Connect { url, source } => match reason(source) {
            Some(reason) => anyhow::anyhow!("cannot connect to `{url}`: {reason}; is the flow up?"),
            None => error.into(),
        },
    })
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
        Some(_) => found.kind().to_string(),
        // Errors without a number, such as that of an unknown host name, have a text only.
        None => found.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "`ftp://x:1` is not an address: write `grpc://host:port`",
        )
        .await;
        let error = connect("nonsense").await.unwrap_err();
        assert!(error.is::<BadUsage>());
    }
}
