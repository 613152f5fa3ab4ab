//! Holds the snapshot for new requests, and waits for the end of older ones.
//!
//! A new placement makes a new snapshot, for every request that begins from then on. Requests in progress keep
//! theirs. A snapshot ends with its last request. The caller that replaced the placement learns when all earlier
//! snapshots have ended: from then on no request uses a replica that only they had.

use flow_spec::Placement;

use crate::pools::{PlacementError, PlacementIndependent};
use crate::snapshot::Snapshot;
use crate::sync::{Arc, CancellationToken, Mutex, PoisonError, TaskTracker, watch};

/// The newest snapshot, and what outlives every snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    newest: watch::Sender<Arc<Snapshot>>,
    /// The ends of all snapshots that may still have requests, the newest last.
    ends: Mutex<Vec<CancellationToken>>,
    /// One task per client stream.
    pub(crate) streams: TaskTracker,
}

/// A placement that new requests use already.
#[derive(Debug)]
#[must_use = "replicas of the placement before are in use until `everywhere` returns"]
pub struct Placed {
    before: Vec<CancellationToken>,
}

impl SnapshotStore {
    pub(crate) fn new(
        placement: Placement,
        shared: PlacementIndependent,
    ) -> Result<Self, PlacementError> {
        let ended = CancellationToken::new();
        let snapshot = Snapshot::new(placement, shared, None, ended.clone())?;
        Ok(Self::starting_with(snapshot, ended))
    }

    /// A store whose first snapshot cancels `ended` at its end.
    pub(crate) fn starting_with(snapshot: Snapshot, ended: CancellationToken) -> Self {
        Self {
            newest: watch::Sender::new(Arc::new(snapshot)),
            ends: Mutex::new(vec![ended]),
            streams: TaskTracker::new(),
        }
    }

    /// The snapshot for a request that begins now; the request holds it until it ends.
    pub(crate) fn newest(&self) -> Arc<Snapshot> {
        self.newest.borrow().clone()
    }

    /// Reports each new snapshot. A watcher must not hold a snapshot after it was replaced.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.newest.subscribe()
    }

    pub(crate) fn place(&self, placement: Placement) -> Result<Placed, PlacementError> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = CancellationToken::new();
        let before = self.newest();
        let shared = before.shared.clone();
        let snapshot = Snapshot::new(placement, shared, Some(&before), ended.clone())?;
        ends.retain(|end| !end.is_cancelled());
        let placed = Placed {
            before: ends.clone(),
        };
        ends.push(ended);
        self.newest.send_replace(Arc::new(snapshot));
        Ok(placed)
    }
}

impl Placed {
    /// Returns when no request that began before is in progress, not even in floating nodes.
    pub async fn everywhere(self) {
        for end in self.before {
            end.cancelled().await;
        }
    }
}
