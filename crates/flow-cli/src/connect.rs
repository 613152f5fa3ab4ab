//! Connects to what a user named, and says in a user's words why that did not work.

use std::error::Error;
use std::io;

use flow_net::{Client, ConnectError};

use crate::exit::BadUsage;

/// Connects to `grpc://host:port`. A text that is no address ends the program with exit code 2.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Client> {
    Client::connect(url).await.map_err(|error| match &error {
        ConnectError::Url { .. } | ConnectError::Tls { .. } => BadUsage(error.to_string()).into(),
        ConnectError::Connect { url, source } => match reason(source) {
            Some(reason) => anyhow::anyhow!("cannot connect to `{url}`: {reason}; is the flow up?"),
            None => error.into(),
        },
    })
}

/// What the operating system said, without the layers above it.
fn reason(error: &(dyn Error + 'static)) -> Option<String> {
    let mut told = None;
    let mut cause = Some(error);
    while let Some(error) = cause {
        told = error.downcast_ref::<io::Error>().or(told);
        cause = error.source();
    }
    let told = told?;
    Some(match told.raw_os_error() {
        Some(_) => told.kind().to_string(),
        // Without an error number the text is all there is, such as a name that nobody knows.
        None => told.to_string(),
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
    async fn a_closed_port_is_told_in_plain_words() {
        let wanted = "cannot connect to `grpc://127.0.0.1:1`: connection refused; is the flow up?";
        check("grpc://127.0.0.1:1", wanted).await;
    }

    #[tokio::test]
    async fn what_is_no_address_is_the_users_to_repair() {
        check(
            "ftp://x:1",
            "`ftp://x:1` is not an address: write `grpc://host:port`",
        )
        .await;
        let error = connect("nonsense").await.unwrap_err();
        assert!(error.is::<BadUsage>());
    }
}
