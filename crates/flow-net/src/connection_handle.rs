//! The connection that a request came on, for protocols that keep it after the response, such as WebSocket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Extensions;

use crate::byte_budget::ByteBudget;
use crate::open_connections::OpenConnection;
use crate::reply_body::OpenRequest;

/// The connection of a request, as an extension of the request. A connection that was upgraded counts as open until its
/// stream is dropped, and as idle while there is no [`OpenRequest`] of it.
#[derive(Debug, Clone)]
pub struct ConnectionHandle(Arc<OpenConnection>);

impl ConnectionHandle {
    pub(crate) fn new(connection: &Arc<OpenConnection>) -> Self {
        Self(connection.clone())
    }

    /// The address of the client; `None` if its socket has none.
    #[must_use]
    pub fn client(&self) -> Option<IpAddr> {
        self.0.client()
    }

    /// The part of the server's byte budget that the connection has; `None` if there is no limit.
    #[must_use]
    pub fn budget(&self) -> Option<&ByteBudget> {
        self.0.budget.as_ref()
    }

    /// The same for the connection of a request with these extensions.
    #[must_use]
    pub fn budget_of(extensions: &Extensions) -> Option<&ByteBudget> {
        extensions.get().and_then(Self::budget)
    }

    /// The other end of the connection; `None` if its socket has no address.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer()
    }

    /// Returns when the connection has to finish its requests and close.
    pub async fn closing(&self) {
        self.0.closing.cancelled().await;
    }

    /// Returns when the connection has to close at once.
    pub async fn cut(&self) {
        self.0.cut.cancelled().await;
    }

    /// Counts what is read from here on in the connection's budget, until [`end_message`](Self::end_message). Call it when
    /// the connection is upgraded: nothing else counts the bytes of a message that is not complete.
    pub fn count_messages(&self) {
        if let Some(budget) = &self.0.budget {
            self.0.partial.begin(budget);
        }
    }

    /// Counts further bytes of the message that has begun, such as those that it has after decompression.
    ///
    /// # Errors
    ///
    /// If there is no room for them.
    pub fn count_more(&self, bytes: usize) -> io::Result<()> {
        self.0.partial.grow(bytes)
    }

    /// Notes that what was read has become a message, which the caller counts.
    pub fn end_message(&self) {
        self.0.partial.complete();
    }

    /// Records that this many of the bytes that were read belong to no message, but to a frame between its parts.
    pub fn leave_out(&self, bytes: usize) {
        self.0.partial.leave_out(bytes);
    }

    /// Counts a request on the connection, until the result is dropped.
    #[must_use]
    pub fn begin_request(&self) -> OpenRequest {
        OpenRequest::begin(&self.0)
    }
}
