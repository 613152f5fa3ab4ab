//! The options that travel with a request from the edge of a flow to the executors.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Deadline, TraceContext};

/// What a caller asks for besides the reply, and what is known of the caller.
///
/// Each call of a node has a copy of what travels on, which allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOptions {
    /// When the caller stops waiting for the reply.
    pub deadline: Deadline,
    /// Which requests this one overtakes.
    pub priority: Option<Priority>,
    /// The id that the caller gave the call beside its messages, for a message without one.
    pub request_id: Option<Arc<str>>,
    /// The trace that the call belongs to, if it has one.
    pub trace: Option<Arc<TraceContext>>,
    /// What the caller wants every service to know that works for the call: the value of `baggage`.
    pub baggage: Option<Bytes>,
    /// Whether the caller asks where the time of its requests goes: replies then have a route for each stage.
    pub timing: bool,
    /// How the call came; it does not travel on.
    pub origin: Origin,
}

impl CallOptions {
    /// What travels on with one call of a node, with its own deadline.
    #[must_use]
    pub fn until(&self, deadline: Deadline) -> Self {
        Self {
            deadline: self.deadline.or_earlier(deadline),
            priority: self.priority.clone(),
            request_id: self.request_id.clone(),
            trace: self.trace.clone(),
            baggage: self.baggage.clone(),
            timing: self.timing,
            origin: Origin::default(),
        }
    }

    /// The same options for a call within another span.
    #[must_use]
    pub fn within(&self, trace: &Arc<TraceContext>) -> Self {
        Self {
            trace: Some(trace.clone()),
            ..self.until(Deadline::NEVER)
        }
    }
}

/// How a call came to the edge of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// `grpc`, `http` or `websocket`.
    pub protocol: Option<&'static str>,
    /// The address of the client.
    pub client: Option<IpAddr>,
    /// The name of the client's API key.
    pub key: Option<Arc<str>>,
    /// The method of gRPC, or the method and the route of HTTP.
    pub operation: Cow<'static, str>,
}

/// Which requests overtake which in an executor's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Priority {
    /// A person or program waits for the reply. The default.
    Interactive,
    /// Work in the background, which interactive requests overtake.
    Bulk,
    /// Any other value. It is forwarded, and executors refuse it.
    Other(Bytes),
}

impl Priority {
    /// The priority that a caller wrote as this text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        match text {
            b"interactive" => Self::Interactive,
            b"bulk" => Self::Bulk,
            other => Self::Other(Bytes::copy_from_slice(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_priorities_are_kept() {
        assert_eq!(Priority::parse(b"interactive"), Priority::Interactive);
        assert_eq!(Priority::parse(b"bulk"), Priority::Bulk);
        let other = Priority::Other(Bytes::from_static(b"urgent"));
        assert_eq!(Priority::parse(b"urgent"), other);
    }
}
