//! Who may read logs and change the flow in the console.
//!
//! Lines of logs may hold what others sent, and a change affects all users, so a request needs more than the data that
//! the page shows otherwise:
//!
//! - **With API keys**, the key must name the route in full among its endpoints. A key that may call everything does not
//!   name it, nor does `/_console/*`: keys that were given before must not gain a right with a new version.
//! - **Without API keys**, only this machine may reach the gateway, and the client must run on it as the gateway's user,
//!   who may use the control socket, too. The browser must have come by an address that is always its own machine, so that
//!   no web site can have it by DNS rebinding. A request that a proxy has forwarded is not from this machine, whatever its
//!   connection says.

use std::fmt;
use std::net::IpAddr;

use axum::extract::Request;
use flow_net::ConnectionHandle;
use flow_spec::Console;
use http::{HeaderMap, Uri};
use serde::Serialize;

use super::{same_origin, same_user};
use crate::auth::{self, Identity};
use crate::http::state::HttpState;

/// Headers that proxies add.
const OF_PROXIES: [&str; 5] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
];

/// What needs a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    /// To restart, scale and reload, and to see the processes.
    Actions,
    /// To read the logs.
    Logs,
}

impl Permission {
    /// The route, which an API key has to name.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Actions => "/_console/api/actions",
            Self::Logs => "/_console/api/logs",
        }
    }
}

/// Why a request does not have a right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PermissionDenied {
    /// The gateway does not belong to a supervisor.
    NoSupervisor(Permission),
    /// The flow file turns actions off.
    ReadOnly,
    /// The API key does not name the route.
    Key { name: String, path: &'static str },
    /// It may come from another machine or another user.
    Elsewhere,
}

impl fmt::Display for PermissionDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSupervisor(Permission::Actions) => f.write_str(
                "This gateway was not started by `flow up`. Restart and scale its processes with the tool that started them, such as Docker Compose or Kubernetes.",
            ),
            Self::NoSupervisor(Permission::Logs) => f.write_str(
                "This gateway was not started by `flow up`. The logs are where the processes of the flow write them: \
                 `docker compose logs` and `kubectl logs` show them.",
            ),
            Self::ReadOnly => f.write_str("`console: read-only` in the flow file turns actions off."),
            Self::Key { name, path } => write!(
                f,
                "The API key `{name}` does not allow this. A key that does has `{path}` among its endpoints."
            ),
            Self::Elsewhere => f.write_str(
                "Without API keys, this is only for browsers that run on the machine of the gateway as its user and \
                 open it at `localhost` or `127.0.0.1`, and only if the gateway listens there alone. Set `api_keys` to \
                 allow it to others.",
            ),
        }
    }
}

/// Who sent the request, as far as that is known.
#[derive(Debug)]
pub(super) struct Requester {
    key: Option<Identity>,
    /// Whether it surely is the user of the gateway, on this machine.
    is_user: bool,
}

impl Requester {
    /// Finds out who sent a request. The future does not hold the request, whose body no other thread may look at.
    pub(super) fn of(state: &HttpState, request: &Request) -> impl Future<Output = Self> + use<> {
        let operations = &state.operations;
        let looks_local = !operations.has_keys && operations.is_local() && is_local(request);
        let connection = request.extensions().get::<ConnectionHandle>();
        let peer = connection.and_then(ConnectionHandle::peer);
        let peer = peer.filter(|_| looks_local);
        let (key, gateway) = (auth::current(), operations.addresses.clone());
        async move {
            let is_user = match peer {
                Some(peer) => {
                    let look_up = move || same_user::look_up(peer, &gateway);
                    tokio::task::spawn_blocking(look_up).await.unwrap_or(false)
                }
                None => false,
            };
            Self { key, is_user }
        }
    }

    /// Checks whether it has a right.
    ///
    /// # Errors
    ///
    /// If it has not, with the reason.
    pub(super) fn check(
        &self,
        right: Permission,
        state: &HttpState,
    ) -> Result<(), PermissionDenied> {
        let operations = &state.operations;
        if !operations.has_supervisor() {
            return Err(PermissionDenied::NoSupervisor(right));
        }
        if right == Permission::Actions && state.options.console != Console::On {
            return Err(PermissionDenied::ReadOnly);
        }
        match (operations.has_keys, &self.key) {
            (true, Some(key)) if key.names(right.path()) => Ok(()),
            (true, key) => Err(PermissionDenied::Key {
                name: key.as_ref().map_or("", Identity::name).to_owned(),
                path: right.path(),
            }),
            (false, _) if self.is_user => Ok(()),
            (false, _) => Err(PermissionDenied::Elsewhere),
        }
    }

    /// The same for a request that is refused if it has not.
    pub(super) fn demand(
        &self,
        right: Permission,
        state: &HttpState,
    ) -> Result<(), PermissionDenied> {
        self.check(right, state).inspect_err(|_| {
            self.key.iter().for_each(Identity::count_forbidden);
        })
    }
}

fn is_local(request: &Request) -> bool {
    let connection = request.extensions().get::<ConnectionHandle>();
    let client = connection.and_then(ConnectionHandle::client);
    is_of_this_machine(client, request.headers(), request.uri())
}

/// Whether a request surely comes from this machine. Pure.
fn is_of_this_machine(client: Option<IpAddr>, headers: &HeaderMap, uri: &Uri) -> bool {
    let is_loopback = client.is_some_and(|it| it.to_canonical().is_loopback());
    let is_forwarded = OF_PROXIES.iter().any(|it| headers.contains_key(*it));
    is_loopback && !is_forwarded && same_origin::is_loopback(same_origin::host(headers, uri))
}

/// What the client may do, for the page.
#[derive(Debug, Serialize)]
pub(super) struct Permissions {
    actions: Allowed,
    logs: Allowed,
}

#[derive(Debug, Serialize)]
struct Allowed {
    is_allowed: bool,
    /// Why not.
    why: Option<String>,
}

impl Permissions {
    pub(super) fn of(state: &HttpState, asker: &Requester) -> Self {
        let allowed = |right| {
            let outcome = asker.check(right, state);
            Allowed {
                is_allowed: outcome.is_ok(),
                why: outcome.err().map(|it| it.to_string()),
            }
        };
        Self {
            actions: allowed(Permission::Actions),
            logs: allowed(Permission::Logs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(client: Option<&str>, headers: &[(&str, &str)], expected: bool) {
        let client = client.map(|it| it.parse().unwrap());
        let headers = headers.iter().map(|(name, value)| {
            let name: http::HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        });
        let headers = HeaderMap::from_iter(headers);
        let uri = Uri::from_static("/_console/api/logs");
        let found = is_of_this_machine(client, &headers, &uri);
        assert_eq!(found, expected, "{client:?} {headers:?}");
    }

    #[test]
    fn only_a_client_on_loopback_at_a_loopback_address_is_of_this_machine() {
        let host = ("host", "127.0.0.1:80");
        check(Some("127.0.0.1"), &[host], true);
        check(Some("::1"), &[("host", "localhost:80")], true);
        check(Some("::ffff:127.0.0.1"), &[host], true);
        check(Some("192.168.0.7"), &[host], false);
        check(None, &[host], false);
        check(Some("127.0.0.1"), &[("host", "gateway:80")], false);
        check(Some("127.0.0.1"), &[("host", "evil.example:80")], false);
        check(Some("127.0.0.1"), &[], false);
    }

    #[test]
    fn a_forwarded_request_is_not_from_this_machine() {
        let host = ("host", "127.0.0.1:80");
        for name in OF_PROXIES {
            check(Some("127.0.0.1"), &[host, (name, "127.0.0.1")], false);
        }
    }
}
