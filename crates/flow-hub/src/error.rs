//! Errors of registries, one for each remedy.

/// Why a request to a registry failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// No connection to the registry.
    #[error("no registry answers at `{host}` (is its name right, and does it run?)")]
    Unreachable {
        /// The registry.
        host: String,
        /// The cause.
        source: Box<ureq::Error>,
    },
    /// Its certificate is not trusted.
    #[error(
        "the certificate of the registry `{host}` is not trusted (put the certificate of its authority into \
         `/etc/docker/certs.d/{host}/ca.crt`)"
    )]
    Untrusted {
        /// The registry.
        host: String,
        /// The cause.
        source: Box<ureq::Error>,
    },
    /// It requires a login.
    #[error("the registry `{host}` denies access to {what} (log in with `docker login {host}`)")]
    Forbidden {
        /// The registry.
        host: String,
        /// What was requested.
        what: String,
    },
    /// It has no such content.
    #[error("the registry `{host}` has no {what}")]
    Missing {
        /// The registry.
        host: String,
        /// What was requested.
        what: String,
    },
    /// It does not list its images.
    #[error("the registry `{0}` does not list its images; name one with `flow hub info NAME`")]
    NoCatalog(String),
    /// It answered with an unexpected status.
    #[error("the registry `{host}` answered {status} to the request for {what}")]
    UnexpectedStatus {
        /// The registry.
        host: String,
        /// What was requested.
        what: String,
        /// The HTTP status.
        status: u16,
    },
    /// It answered with something that is not the expected JSON.
    #[error("the registry `{host}` sent an invalid answer to the request for {what}")]
    InvalidResponse {
        /// The registry.
        host: String,
        /// What was requested.
        what: String,
        /// The cause.
        source: serde_json::Error,
    },
}
