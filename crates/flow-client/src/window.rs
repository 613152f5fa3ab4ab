//! The requests in progress, and the order in which their outcomes are returned. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// The requests in progress, and the outcomes that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Window<N, O> {
    order: OutcomeOrder,
    /// Number of the next request.
    next: u64,
    slots: BTreeMap<u64, Slot<N, O>>,
    /// Numbers of the requests without an outcome, by their ids.
    numbers: HashMap<String, u64>,
    /// Numbers of the requests with an outcome, in the order of the outcomes. Unused if outcomes are returned in the order
    /// of the requests.
    settled: VecDeque<u64>,
}

/// The order in which outcomes are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeOrder {
    /// The order of the requests.
    Requests,
    /// The order in which the outcomes arrive.
    Outcomes,
}

#[derive(Debug)]
struct Slot<N, O> {
    note: N,
    outcome: Option<O>,
}

impl<N, O> Window<N, O> {
    pub(crate) fn new(order: OutcomeOrder) -> Self {
        Self {
            order,
            next: 0,
            slots: BTreeMap::new(),
            numbers: HashMap::new(),
            settled: VecDeque::new(),
        }
    }

    /// Adds a request.
    pub(crate) fn open(&mut self, id: String, note: N) {
        let slot = Slot {
            note,
            outcome: None,
        };
        self.slots.insert(self.next, slot);
        self.numbers.insert(id, self.next);
        self.next += 1;
    }

    /// The note of a request without an outcome.
    pub(crate) fn note_mut(&mut self, id: &str) -> Option<&mut N> {
        let slot = self.slots.get_mut(self.numbers.get(id)?)?;
        Some(&mut slot.note)
    }

    /// Sets the outcome of a request. Returns whether there is such a request without an outcome.
    pub(crate) fn settle(&mut self, id: &str, outcome: O) -> bool {
        let Some(number) = self.numbers.remove(id) else {
            return false;
        };
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.outcome = Some(outcome);
        }
        if self.order == OutcomeOrder::Outcomes {
            self.settled.push_back(number);
        }
        true
    }

    /// Takes the next outcome, if it has arrived.
    pub(crate) fn take(&mut self) -> Option<(N, O)> {
        let number = match self.order {
            OutcomeOrder::Requests => *self.slots.first_key_value()?.0,
            OutcomeOrder::Outcomes => *self.settled.front()?,
        };
        let slot = self.slots.get_mut(&number)?;
        let outcome = slot.outcome.take()?;
        self.settled.pop_front();
        let slot = self.slots.remove(&number)?;
        Some((slot.note, outcome))
    }

    /// Takes all requests in their order, with the outcomes that have arrived.
    pub(crate) fn take_all(&mut self) -> Vec<(N, Option<O>)> {
        self.numbers.clear();
        self.settled.clear();
        let slots = std::mem::take(&mut self.slots).into_values();
        slots.map(|slot| (slot.note, slot.outcome)).collect()
    }

    /// The notes of the requests without an outcome, in the order of the requests.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = &N> {
        let slots = self.slots.values().filter(|slot| slot.outcome.is_none());
        slots.map(|slot| &slot.note)
    }

    /// Whether every request has an outcome.
    pub(crate) fn is_settled(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Number of requests whose outcome has not been taken.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens the requests 0, 1, 2, …; outcomes arrive in the order `arriving`, and are taken as soon as possible.
    #[track_caller]
    fn check(order: OutcomeOrder, requests: u32, arriving: &[u32], expected: &[u32]) {
        let mut window = Window::new(order);
        for request in 0..requests {
            window.open(request.to_string(), request);
        }
        let mut taken = Vec::new();
        for outcome in arriving {
            assert!(window.settle(&outcome.to_string(), ()));
            taken.extend(std::iter::from_fn(|| window.take()).map(|(request, ())| request));
        }
        assert_eq!(taken, expected, "{arriving:?}");
        assert_eq!(window.len(), requests as usize - expected.len());
    }

    #[test]
    fn outcomes_leave_in_the_order_of_the_requests() {
        check(OutcomeOrder::Requests, 3, &[0, 1, 2], &[0, 1, 2]);
        check(OutcomeOrder::Requests, 3, &[2, 1, 0], &[0, 1, 2]);
        check(OutcomeOrder::Requests, 4, &[1, 0, 3], &[0, 1]);
        check(OutcomeOrder::Requests, 2, &[1], &[]);
    }

    #[test]
    fn outcomes_leave_as_they_arrive() {
        check(OutcomeOrder::Outcomes, 3, &[2, 0, 1], &[2, 0, 1]);
        check(OutcomeOrder::Outcomes, 3, &[1], &[1]);
    }

    #[test]
    fn an_outcome_of_an_unknown_request_is_ignored() {
        let mut window = Window::new(OutcomeOrder::Requests);
        window.open("a".to_owned(), 1);
        assert!(!window.settle("b", ()));
        assert!(window.settle("a", ()));
        assert!(!window.settle("a", ()));
        assert_eq!(window.take(), Some((1, ())));
    }

    #[test]
    fn all_requests_are_taken_in_their_order_with_the_outcomes_so_far() {
        let mut window = Window::new(OutcomeOrder::Requests);
        window.open("a".to_owned(), 1);
        window.open("b".to_owned(), 2);
        window.settle("b", 'x');
        assert_eq!(window.unsettled().collect::<Vec<_>>(), [&1]);
        assert_eq!(window.take_all(), [(1, None), (2, Some('x'))]);
        assert!(window.is_settled());
        window.open("c".to_owned(), 3);
        assert!(window.settle("c", 'y'));
        assert_eq!(window.take(), Some((3, 'y')));
    }
}
