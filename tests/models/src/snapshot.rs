//! A snapshot that is two numbers: a request that finds two different ones has seen half of it.

use std::sync::PoisonError;

use crate::pools::{PlacementError, PlacementIndependent};
use crate::sync::{Arc, CancellationToken, DropGuard, Mutex, thread};

/// A placement, which keeps the number of its snapshot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placement {
    pub(crate) is_refused: bool,
    pub(crate) number: Arc<Mutex<usize>>,
    pub(crate) dropped: Dropped,
}

/// The numbers of the snapshots that are dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dropped(Arc<Mutex<Vec<usize>>>);

#[derive(Debug)]
pub(crate) struct Snapshot {
    number: usize,
    same_number: usize,
    dropped: Dropped,
    pub(crate) shared: PlacementIndependent,
    /// The last field, as in the program: it tells that all others are dropped.
    _ended: DropGuard,
}

impl Dropped {
    pub(crate) fn contains(&self, number: usize) -> bool {
        let numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.contains(&number)
    }
}

impl Snapshot {
    pub(crate) fn new(
        placement: Placement,
        shared: PlacementIndependent,
        before: Option<&Self>,
        ended: CancellationToken,
    ) -> Result<Self, PlacementError> {
        let number = before.map_or(0, |it| it.number + 1);
        // A plan is long to make.
        thread::yield_now();
        if placement.is_refused {
            return Err(PlacementError);
        }
        *placement.number.lock().unwrap() = number;
        Ok(Self {
            number,
            same_number: before.map_or(0, |it| it.same_number + 1),
            dropped: placement.dropped,
            shared,
            _ended: ended.drop_guard(),
        })
    }

    /// Its number, once it is found whole and in use.
    pub(crate) fn number(&self) -> usize {
        assert_eq!(self.number, self.same_number, "half of a snapshot");
        assert!(!self.dropped.contains(self.number), "it is dropped already");
        self.number
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut numbers = self.dropped.0.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.push(self.number);
    }
}
