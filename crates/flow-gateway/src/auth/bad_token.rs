//! Why a token of an identity provider is refused.

use std::fmt;
use std::time::Duration;

use jsonwebtoken::errors::{Error, ErrorKind};

/// How long after a failure the address of the provider's keys is asked again.
pub(super) const RETRY_EVERY: Duration = Duration::from_secs(10);

/// Why a token is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BadToken {
    Unreadable,
    Algorithm,
    UnknownKey,
    Signature,
    Expired,
    NotYet,
    Audience,
    Issuer,
    Missing(String),
}

impl BadToken {
    pub(super) fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidSignature => Self::Signature,
            ErrorKind::ExpiredSignature => Self::Expired,
            ErrorKind::ImmatureSignature => Self::NotYet,
            ErrorKind::InvalidAudience => Self::Audience,
            ErrorKind::InvalidIssuer => Self::Issuer,
            ErrorKind::MissingRequiredClaim(claim) => Self::Missing(claim.clone()),
            ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => Self::Algorithm,
            _ => Self::Unreadable,
        }
    }
}

/// The reason, without quotation marks: it is a part of the header `www-authenticate`.
impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "it is not a JSON Web Token with a signature of a public key",
            Self::Algorithm => "its key does not allow its algorithm",
            Self::UnknownKey => "it is signed with a key that is not known here",
            Self::Signature => "its signature is invalid",
            Self::Expired => "it has expired",
            Self::NotYet => "it is not valid yet",
            Self::Audience => "it is for another audience",
            Self::Issuer => "it is from another issuer",
            Self::Missing(claim) => return write!(f, "it has no valid {claim}"),
        })
    }
}
