//! What can go wrong with a registry, told apart by what a person would do about it.

/// Why a registry did not answer a question.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Nobody answers.
    #[error("no registry answers at `{host}` (is its name right, and does it run?)")]
    Silent {
        /// Where it was looked for.
        host: String,
        /// What the attempt met.
        source: Box<ureq::Error>,
    },
    /// Nobody whom we trust vouches for it.
    #[error(
        "the registry `{host}` shows a certificate that nobody vouches for (put that of its authority into \
         `/etc/docker/certs.d/{host}/ca.crt`)"
    )]
    Untrusted {
        /// The registry.
        host: String,
        /// What is wrong with it.
        source: Box<ureq::Error>,
    },
    /// It wants to know who we are.
    #[error("the registry `{host}` does not let us see {what} (log in with `docker login {host}`)")]
    Forbidden {
        /// The registry.
        host: String,
        /// What was asked for.
        what: String,
    },
    /// It does not have it.
    #[error("the registry `{host}` has no {what}")]
    Missing {
        /// The registry.
        host: String,
        /// What was asked for.
        what: String,
    },
    /// It tells nobody which images it has.
    #[error(
        "the registry `{0}` does not list what it has; ask for a name with `flow hub info NAME`"
    )]
    NoCatalog(String),
    /// It answered as no registry does.
    #[error("the registry `{host}` answered {status} when asked for {what}")]
    Refused {
        /// The registry.
        host: String,
        /// What was asked for.
        what: String,
        /// The HTTP status.
        status: u16,
    },
    /// It answered something else than what the API says.
    #[error("the registry `{host}` did not give {what} as registries do")]
    Strange {
        /// The registry.
        host: String,
        /// What was asked for.
        what: String,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
}
