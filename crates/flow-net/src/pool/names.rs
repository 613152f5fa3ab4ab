//! The names behind which a pool finds its replicas, and the state of their lookups.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::SetOnce;

use super::host_name::HostName;
use super::service_name::ServiceName;

/// A name that leads to replicas.
#[derive(Debug)]
pub enum ReplicaName {
    /// A host. The system looks up its addresses.
    Host(HostName),
    /// A service. Its instances are in SRV records of the DNS.
    Service(Box<ServiceName>),
}

/// The result of a name's last lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameState {
    /// No lookup has succeeded yet.
    #[default]
    Unknown,
    /// The last lookup succeeded.
    Resolved,
    /// The last lookup failed. The earlier addresses are still used.
    Stale,
}

/// A name that is looked up repeatedly, and the state of its lookups.
#[derive(Debug)]
pub(super) struct FollowedName {
    pub(super) name: ReplicaName,
    lookups: Mutex<Lookups>,
    /// Set when the first lookup has ended. If it succeeded, its replicas are in the pool.
    was_looked_up: SetOnce<()>,
}

/// The state of a name's lookups.
#[derive(Debug, Default)]
struct Lookups {
    state: NameState,
    /// Why the last lookup failed; `None` if it succeeded.
    failure: Option<String>,
    /// When the next lookup is due; `None` before the first one ends.
    due: Option<Instant>,
}

impl ReplicaName {
    /// Returns the name as a URI: `http://host:port` or `srv://service`.
    #[must_use]
    pub fn uri(&self) -> &str {
        match self {
            Self::Host(name) => name.uri(),
            Self::Service(name) => name.uri(),
        }
    }
}

impl FollowedName {
    pub(super) fn new(name: ReplicaName) -> Self {
        Self {
            name,
            lookups: Mutex::default(),
            was_looked_up: SetOnce::new(),
        }
    }

    pub(super) fn state(&self) -> NameState {
        self.lookups().state
    }

    /// Returns why the last lookup failed; `None` if it succeeded.
    pub(super) fn failure(&self) -> Option<String> {
        self.lookups().failure.clone()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.lookups().due
    }

    /// Records that a lookup succeeded, and schedules the next one after `valid_for`. Logs the first success after a failure.
    pub(super) fn succeeded(&self, valid_for: Duration) {
        let mut lookups = self.lookups();
        if lookups.failure.take().is_some() {
            tracing::info!(name = self.name.uri(), "name can be looked up again");
        }
        lookups.state = NameState::Resolved;
        lookups.due = Some(Instant::now() + valid_for);
    }

    /// Records that a lookup failed, and schedules the next one after `again_in`. Logs the first failure as a warning, and later ones at
    /// the level `debug`.
    pub(super) fn failed(&self, failure: String, again_in: Duration) {
        let mut lookups = self.lookups();
        if lookups.state == NameState::Resolved {
            lookups.state = NameState::Stale;
        }
        let name = self.name.uri();
        match (&lookups.failure, lookups.state) {
            (Some(_), _) => tracing::debug!(name, %failure, "name cannot be looked up"),
            (None, NameState::Unknown) => {
                tracing::warn!(name, %failure, "name cannot be looked up");
            }
            (None, _) => {
                tracing::warn!(name, %failure, "name cannot be looked up; its last addresses are used");
            }
        }
        lookups.failure = Some(failure);
        lookups.due = Some(Instant::now() + again_in);
    }

    /// Records that a lookup has ended.
    pub(super) fn was_looked_up(&self) {
        // An error means that it is already set.
        drop(self.was_looked_up.set(()));
    }

    /// Waits until the first lookup has ended.
    pub(super) async fn first_lookup(&self) {
        self.was_looked_up.wait().await;
    }

    fn lookups(&self) -> MutexGuard<'_, Lookups> {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
