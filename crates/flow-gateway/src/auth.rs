//! API keys and tokens: who may call the gateway, which endpoints, and how much.
//!
//! ```text
//! key_file.rs  the file: names, hashes and limits of keys
//! limits.rs    requests a second, documents and tokens a day            pure
//! key_ring.rs  the keys in use, which follow changes of the file
//! identity.rs  whose request it is, and what its key allows
//! jwt.rs       tokens of an identity provider, instead of keys
//! bad_token.rs  why a token is refused
//! credentials.rs  the keys and the tokens that a gateway accepts
//! guard.rs     checks every request of a port before its body is read
//! refusal.rs   responses to refused requests, in the shape of the API
//! refusal_log.rs  lines on refused requests
//! ```
//!
//! `guard.rs` is the only place where keys are checked, whatever the protocol. What only a request's content shows, its
//! endpoint and the number of its documents, is checked by `service.rs` with `identity::current`. `admission.rs` counts the
//! tokens of a request that has been answered.

mod bad_token;
mod credentials;
mod guard;
mod identity;
mod jwt;
mod key_file;
mod key_ring;
mod limits;
mod refusal;
mod refusal_log;

pub use jwt::{BadJwt, check as check_jwt};
pub use key_file::{BadKeyFile, KeyEntry, KeyFile, KeyHash};

pub(crate) use credentials::AcceptedCredentials;
pub(crate) use guard::{Guarded, KeysFor, Open};
pub(crate) use identity::{Identity, current, documents, on_behalf_of};

use std::path::PathBuf;

/// API keys of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeys {
    /// The file with the keys.
    pub file: PathBuf,
    /// Whether health checks need a key, too.
    pub for_health: bool,
}
