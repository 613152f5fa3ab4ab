//! Why a model could not be fetched from the hub.

use std::path::PathBuf;
use std::time::Duration;

use super::super::folder::WEIGHTS_FILE;
use super::limits::ATTEMPTS_MAX;

/// A model could not be fetched from the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The user has forbidden network access.
    #[error("HF_HUB_OFFLINE forbids requests to `{0}`")]
    Offline(String),
    /// A request failed.
    #[error("cannot fetch `{what}` from `{endpoint}`")]
    Request {
        /// URL of the hub.
        endpoint: String,
        /// The requested repository or file.
        what: String,
        /// The error of the HTTP client.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The hub refused a request.
    #[error("`{url}` answered with status {status}{}", advice(*.status))]
    Status {
        /// The requested URL.
        url: String,
        /// The HTTP status code.
        status: u16,
    },
    /// An answer did not arrive in time.
    #[error("`{url}` did not answer within {limit:?}")]
    Timeout {
        /// The requested URL.
        url: String,
        /// The time limit of the answer.
        limit: Duration,
    },
    /// An answer has an invalid part.
    #[error("the answer of `{url}` has an invalid {part} {found:?}: expected {expected}")]
    InvalidResponse {
        /// The requested URL.
        url: String,
        /// The part of the answer.
        part: &'static str,
        /// What was found there, shortened.
        found: String,
        /// What is valid.
        expected: &'static str,
    },
    /// The description of a repository is invalid.
    #[error("`{url}` does not describe a repository")]
    Description {
        /// The requested URL.
        url: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A redirect that is not followed.
    #[error("`{url}` redirects {reason}")]
    Redirect {
        /// The requested URL.
        url: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// A file is longer than a model's file may be.
    #[error("`{file}` has {announced} bytes; a file of this kind may have at most {max}")]
    TooLarge {
        /// The file.
        file: String,
        /// The length that the hub announces.
        announced: u64,
        /// The limit.
        max: u64,
    },
    /// The hub sent more bytes than it announced.
    #[error("`{file}` is longer than the {announced} bytes that the hub announced")]
    TooLong {
        /// The file.
        file: String,
        /// The length that the hub announced.
        announced: u64,
    },
    /// The hub sent fewer bytes than it announced.
    #[error(
        "the download of `{file}` ended after {received} of {announced} bytes; the next one continues there"
    )]
    TooShort {
        /// The file.
        file: String,
        /// The bytes that arrived.
        received: u64,
        /// The length that the hub announced.
        announced: u64,
    },
    /// The repository has no weights in a supported format.
    #[error("the repository has no `{WEIGHTS_FILE}`; weights in other formats are not supported")]
    NoWeights,
    /// A file was corrupt after every download.
    #[error(
        "`{file}` was corrupt after {ATTEMPTS_MAX} downloads: its checksum is not `{expected}`"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// The checksum that the hub gives.
        expected: String,
    },
    /// Another process downloads the same file.
    #[error("another process is writing `{0}`; try again when it has finished")]
    Busy(PathBuf),
    /// The cache could not be written.
    #[error("cannot write to the cache `{0}`")]
    Cache(PathBuf, #[source] std::io::Error),
}

/// What helps against a status code.
fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "; a private model needs a token in HF_TOKEN, which is sent over HTTPS only",
        404 => "; check the name and the revision of the model",
        _ => "",
    }
}
