//! The last hour of a flow or of a node, in slots of some seconds. Pure.

use std::time::Duration;

use serde::Serialize;

use super::histogram::Histogram;

/// Length of a slot: what the charts resolve.
pub(super) const SLOT: Duration = Duration::from_secs(5);

/// Slots of a series: one hour.
pub(super) const SLOTS: usize = 720;

/// The slots before the present one over which present rates and latencies are taken: half a minute.
const RECENT: u64 = 6;

/// What happened in a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Slot {
    requests: u32,
    failed: u32,
    /// The times of successful requests.
    took: Histogram,
}

/// The last hour, as a ring.
#[derive(Debug)]
pub(super) struct Series {
    slots: Box<[Slot]>,
    /// The number of the newest slot: seconds since 1970, divided by [`SLOT`].
    newest: u64,
}

/// A slot as the console shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SlotReport {
    /// The number of the slot.
    pub(crate) slot: u64,
    pub(crate) requests: u32,
    pub(crate) failed: u32,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

/// The last half minute.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Recent {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) per_second: f64,
    pub(crate) failed_per_second: f64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

impl Series {
    /// Bytes of a series on the heap.
    pub(super) const BYTES: usize = SLOTS * size_of::<Slot>();

    /// A series whose first slot has this number.
    pub(super) fn new(slot: u64) -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS].into(),
            newest: slot,
        }
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Counts a request that ended in this slot. If the clock was set back, it counts in the newest one.
    pub(super) fn add(&mut self, slot: u64, took: Duration, failed: bool) {
        self.advance(slot);
        let slot = &mut self.slots[place(self.newest)];
        slot.requests = slot.requests.saturating_add(1);
        match failed {
            true => slot.failed = slot.failed.saturating_add(1),
            false => slot.took.add(took),
        }
    }

    /// Empties the slots up to this one, which were used an hour ago.
    fn advance(&mut self, slot: u64) {
        let first = (self.newest + 1).max((slot + 1).saturating_sub(SLOTS as u64));
        for number in first..=slot {
            self.slots[place(number)] = Slot::default();
        }
        self.newest = self.newest.max(slot);
    }

    fn get(&self, number: u64) -> Option<&Slot> {
        let is_kept = number <= self.newest && number + SLOTS as u64 > self.newest;
        is_kept.then(|| &self.slots[place(number)])
    }

    /// The slots from this one on that have requests.
    pub(super) fn since(&self, first: u64, now: u64) -> Vec<SlotReport> {
        let oldest = (now + 1).saturating_sub(SLOTS as u64);
        let numbers = first.max(oldest)..=now;
        let slots = numbers.filter_map(|number| Some((number, self.get(number)?)));
        let used = slots.filter(|(_, slot)| slot.requests > 0);
        used.map(|(number, slot)| SlotReport {
            slot: number,
            requests: slot.requests,
            failed: slot.failed,
            p50_ms: slot.took.quantile_ms(0.5),
            p99_ms: slot.took.quantile_ms(0.99),
        })
        .collect()
    }

    /// The last half minute, of which the series may have existed for only some seconds.
    pub(super) fn recent(&self, now_s: f64, exists_s: f64) -> Recent {
        let now = slot_of(now_s);
        let first = now.saturating_sub(RECENT);
        let began = first as f64 * SLOT.as_secs_f64();
        // A rate over less than a second says nothing.
        let seconds = (now_s - began).min(exists_s).max(1.0);
        let (mut requests, mut failed) = (0, 0);
        let mut took = Histogram::default();
        for slot in (first..=now).filter_map(|number| self.get(number)) {
            requests += u64::from(slot.requests);
            failed += u64::from(slot.failed);
            took.merge(&slot.took);
        }
        Recent {
            seconds,
            requests,
            failed,
            per_second: requests as f64 / seconds,
            failed_per_second: failed as f64 / seconds,
            p50_ms: took.quantile_ms(0.5),
            p99_ms: took.quantile_ms(0.99),
        }
    }
}

/// The number of the slot at this time, in seconds since 1970.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time is positive, and a float beyond the integers becomes the largest one"
)]
pub(super) fn slot_of(seconds: f64) -> u64 {
    (seconds / SLOT.as_secs_f64()) as u64
}

fn place(number: u64) -> usize {
    usize::try_from(number % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn requests_count_in_their_slot_for_an_hour() {
        let mut series = Series::new(1000);
        series.add(1000, MS, false);
        series.add(1002, MS, true);
        series.add(1002, MS, false);
        let counts = |series: &Series, now| {
            let slots = series.since(0, now).into_iter();
            slots
                .map(|it| (it.slot, it.requests, it.failed))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&series, 1002), [(1000, 1, 0), (1002, 2, 1)]);
        assert_eq!(counts(&series, 1719), [(1000, 1, 0), (1002, 2, 1)]);
        assert_eq!(counts(&series, 1720), [(1002, 2, 1)]);
        series.add(1721, MS, false);
        assert_eq!(counts(&series, 1721), [(1002, 2, 1), (1721, 1, 0)]);
        series.add(1_000_000, MS, false);
        assert_eq!(counts(&series, 1_000_000), [(1_000_000, 1, 0)]);
    }

    #[test]
    fn only_slots_that_are_asked_for_are_reported() {
        let mut series = Series::new(10);
        for slot in 10..20 {
            series.add(slot, MS, false);
        }
        assert_eq!(series.since(18, 19).len(), 2);
        assert_eq!(series.since(20, 25).len(), 0);
    }

    #[test]
    fn a_clock_that_is_set_back_loses_nothing() {
        let mut series = Series::new(1000);
        series.add(1000, MS, false);
        series.add(900, MS, false);
        assert_eq!(series.since(0, 1000)[0].requests, 2);
    }

    #[test]
    fn rates_are_those_of_the_last_half_minute() {
        let mut series = Series::new(0);
        for slot in 0..20 {
            for _ in 0..10 {
                series.add(slot, MS, slot == 19);
            }
        }
        // The present slot is half over: six whole ones and 2.5 s.
        let recent = series.recent(19.5 * 5.0, 1e9);
        assert_eq!((recent.requests, recent.failed), (70, 10));
        assert!((recent.seconds - 32.5).abs() < 1e-9);
        assert!((recent.per_second - 70.0 / 32.5).abs() < 1e-9);
        assert!(recent.p50_ms.is_some());
        // A flow that began 10 s ago had no time for more.
        assert!((series.recent(19.5 * 5.0, 10.0).per_second - 7.0).abs() < 1e-9);
        let later = series.recent(1e6, 1e9);
        assert_eq!((later.requests, later.p50_ms), (0, None));
    }
}
