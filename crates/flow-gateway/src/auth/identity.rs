//! The identity behind a request, and what its key allows.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flow_core::{Code, DocumentLimits, Failure};
use flow_proto::Envelope;

use super::key_ring::Key;
use crate::metrics::RefusalReason;

tokio::task_local! {
    /// Whose request this task answers. Set by `guard.rs` alone, around everything that answers a request.
    pub(super) static CURRENT: Identity;
}

/// Whose request this task answers; `None` without API keys, and for requests that need none.
pub(crate) fn current() -> Option<Identity> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Answers further requests of a client in a task of its own, such as those of a WebSocket.
pub(crate) async fn on_behalf_of<F: Future>(identity: Option<Identity>, answer: F) -> F::Output {
    match identity {
        Some(identity) => CURRENT.scope(identity, answer).await,
        None => answer.await,
    }
}

/// Whose request it is. An extension of every request with an API key or a token.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(super) key: Arc<Key>,
    /// Whether the path of the request said already that the key allows it, so that the endpoint need not.
    pub(super) is_path_allowed: bool,
}

impl Identity {
    /// The name of the API key, or the subject of the token.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.key.entry.name
    }

    /// The name of the API key, for everything that is known of the request.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.key.name.clone()
    }

    /// Checks the endpoint of a request, and counts its documents.
    ///
    /// # Errors
    ///
    /// If the key does not allow the endpoint, or no more documents today.
    pub(crate) fn admit(&self, request: &Envelope) -> Result<(), Failure> {
        let header = request.header.as_ref();
        let endpoint = header.and_then(|header| header.exec_endpoint.as_deref());
        self.check_endpoint(endpoint)?;
        self.count(documents(request.data.as_ref()))
    }

    /// Checks an endpoint; `None` is the default endpoint.
    ///
    /// # Errors
    ///
    /// If the key does not allow it.
    pub(crate) fn check_endpoint(&self, endpoint: Option<&str>) -> Result<(), Failure> {
        let endpoint = endpoint.unwrap_or("/");
        if self.is_path_allowed || self.key.entry.allows(endpoint) {
            return Ok(());
        }
        self.key.count_refusal(RefusalReason::Forbidden);
        let title = self.key.title();
        let message = format!("{title} does not allow the endpoint `{endpoint}`");
        Err(Failure::new(Code::Forbidden, message))
    }

    /// Whether the key names an endpoint in full, as it must to do more than call the flow.
    pub(crate) fn names(&self, endpoint: &str) -> bool {
        self.key.entry.names(endpoint)
    }

    /// Counts a request that was refused because the key does not allow it.
    pub(crate) fn count_forbidden(&self) {
        self.key.count_refusal(RefusalReason::Forbidden);
    }

    /// Counts documents.
    ///
    /// # Errors
    ///
    /// If no more are allowed today.
    pub(crate) fn count(&self, documents: usize) -> Result<(), Failure> {
        self.key.add_documents(documents).map_err(|after| {
            self.key.count_refusal(RefusalReason::DocumentsPerDay);
            let max = self.key.entry.documents_per_day.unwrap_or_default();
            let name = self.name();
            let message = format!("the API key `{name}` allows {max} documents a day");
            Failure::new(Code::Overloaded, message).with_retry_after(after)
        })
    }

    /// Checks that tokens are left for a request. How many it takes is known when it has been answered, so the request that
    /// takes the last ones is answered in full.
    ///
    /// # Errors
    ///
    /// If no more are allowed today.
    pub(crate) fn check_tokens(&self) -> Result<(), Failure> {
        self.key.check_tokens().map_err(|after| {
            self.key.count_refusal(RefusalReason::TokensPerDay);
            let max = self.key.entry.tokens_per_day.unwrap_or_default();
            let name = self.name();
            let message = format!("the API key `{name}` allows {max} tokens a day");
            Failure::new(Code::Overloaded, message).with_retry_after(after)
        })
    }

    /// Counts the tokens that models read for a request.
    pub(crate) fn add_tokens(&self, tokens: u64) {
        self.key.add_tokens(tokens);
    }

    /// Waits until the key allows one more request of a stream: a stream is slowed down, and loses nothing.
    ///
    /// # Errors
    ///
    /// If the key or the token has expired since the stream began.
    pub(crate) async fn wait_for_turn(&self) -> Result<(), Failure> {
        while let Err(after) = self.key.take_request() {
            tokio::time::sleep(after.max(Duration::from_millis(1))).await;
        }
        if self.key.is_expired(SystemTime::now()) {
            self.key.count_refusal(RefusalReason::ExpiredKey);
            let message = format!("{} has expired", self.key.title());
            return Err(Failure::new(Code::Unauthenticated, message));
        }
        self.key.counters.accepted.add(1);
        Ok(())
    }
}

/// The number of documents in a request's data, nested ones included; 0 if they cannot be read, which is reported where they are
/// decoded. Nothing is decoded here: the limits on documents are checked later.
pub(crate) fn documents(data: Option<&Bytes>) -> usize {
    const ANY: DocumentLimits = DocumentLimits {
        depth_max: usize::MAX,
        documents_max: usize::MAX,
    };
    data.and_then(|data| ANY.check(data).ok()).unwrap_or(0)
}

/// The name alone.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.name()).finish()
    }
}
