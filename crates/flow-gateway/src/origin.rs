//! The origin of a request: its connection, its API key and its route.

use std::borrow::Cow;

use flow_core::Origin;
use flow_net::ConnectionHandle;
use http::Extensions;

use crate::auth::Identity;

/// The origin of a request with these extensions.
pub(crate) fn origin(
    extensions: &Extensions,
    protocol: &'static str,
    operation: impl Into<Cow<'static, str>>,
) -> Origin {
    let connection = extensions.get::<ConnectionHandle>();
    let identity = extensions.get::<Identity>();
    Origin {
        protocol: Some(protocol),
        client: connection.and_then(ConnectionHandle::client),
        key: identity.map(Identity::shared_name),
        operation: operation.into(),
    }
}
