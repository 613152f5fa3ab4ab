//! The core that new requests begin with, and the end of those before it.
//!
//! A new placement makes a new core, at once and for every request that begins from then on; requests
//! under way are not touched. A core ends with its last request. Whoever gave the placement is told when
//! all those before it have ended: from then on nobody calls a replica that only they knew.

use std::sync::{Arc, Mutex, PoisonError};

use flow_spec::Placement;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::{Core, Lasting};
use crate::gateway::BindError;

/// The newest core, and what outlives every core.
#[derive(Debug)]
pub(crate) struct Current {
    core: watch::Sender<Arc<Core>>,
    /// Ends of all cores that may still have requests, the newest last.
    ends: Mutex<Vec<CancellationToken>>,
    /// One task for each client's stream.
    pub(crate) streams: TaskTracker,
}

/// A placement that new requests follow already.
#[derive(Debug)]
#[must_use = "replicas of the placement before are in use until this says otherwise"]
pub struct Placed {
    before: Vec<CancellationToken>,
}

impl Current {
    pub(crate) fn new(placement: Placement, lasting: Lasting) -> Result<Self, BindError> {
        let ended = CancellationToken::new();
        let core = Core::new(placement, lasting, None, ended.clone())?;
        Ok(Self {
            core: watch::Sender::new(Arc::new(core)),
            ends: Mutex::new(vec![ended]),
            streams: TaskTracker::new(),
        })
    }

    /// What a request that begins now is to hold until it ends.
    pub(crate) fn core(&self) -> Arc<Core> {
        self.core.borrow().clone()
    }

    /// For whoever follows the changes. Must not keep a core longer than it is the newest.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Core>> {
        self.core.subscribe()
    }

    pub(crate) fn place(&self, placement: Placement) -> Result<Placed, BindError> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = CancellationToken::new();
        let core = self.core().next(placement, ended.clone())?;
        ends.retain(|end| !end.is_cancelled());
        let before = ends.clone();
        ends.push(ended);
        self.core.send_replace(Arc::new(core));
        Ok(Placed { before })
    }
}

impl Placed {
    /// Returns when no request that began before is under way any more, not even in floating nodes.
    pub async fn everywhere(self) {
        for end in self.before {
            end.cancelled().await;
        }
    }
}
