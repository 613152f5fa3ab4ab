//! Requests under way, and the order in which their replies are handed out.
//!
//! Replies come as they are done; they leave in the order in which the requests went. Nothing here
//! bounds how many there are: `feed.rs` lets no more through than the window has room for, and a reply
//! that waits for its turn still has its place.

use std::collections::{HashMap, VecDeque};

/// Requests under way with what was noted of them, and the outcomes that wait for their turn.
#[derive(Debug)]
pub(super) struct Window<N, O> {
    /// The place of the first slot among all requests.
    first: u64,
    slots: VecDeque<(N, Option<O>)>,
    places: HashMap<String, u64>,
}

impl<N, O> Default for Window<N, O> {
    fn default() -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            places: HashMap::new(),
        }
    }
}

impl<N, O> Window<N, O> {
    /// A request goes out.
    pub(super) fn open(&mut self, id: String, note: N) {
        let place = self.first + self.slots.len() as u64;
        self.places.insert(id, place);
        self.slots.push_back((note, None));
    }

    /// A request has its outcome. False if there is no such request under way.
    pub(super) fn settle(&mut self, id: &str, outcome: O) -> bool {
        let slot = self
            .places
            .remove(id)
            .and_then(|place| usize::try_from(place - self.first).ok())
            .and_then(|at| self.slots.get_mut(at));
        match slot {
            Some((_, settled)) => {
                *settled = Some(outcome);
                true
            }
            None => false,
        }
    }

    /// The oldest request, if it has its outcome.
    pub(super) fn take_first(&mut self) -> Option<(N, O)> {
        let (note, outcome) = self.slots.pop_front()?;
        match outcome {
            Some(outcome) => {
                self.first += 1;
                Some((note, outcome))
            }
            None => {
                self.slots.push_front((note, None));
                None
            }
        }
    }

    /// Whether no request is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Gives up: what has no outcome now will never have one. In order, all of them.
    pub(super) fn take_all(&mut self) -> Vec<(N, Option<O>)> {
        self.places.clear();
        self.first += self.slots.len() as u64;
        self.slots.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests go out in order 0, 1, 2, …; replies come in the order `replies`.
    fn check(requests: u32, replies: &[u32], wanted: &[u32]) {
        let mut window = Window::default();
        for request in 0..requests {
            window.open(request.to_string(), request);
        }
        let mut taken = Vec::new();
        for reply in replies {
            assert!(window.settle(&reply.to_string(), ()));
            taken.extend(std::iter::from_fn(|| window.take_first()).map(|(request, ())| request));
        }
        assert_eq!(taken, wanted, "{replies:?}");
    }

    #[test]
    fn replies_leave_in_the_order_of_their_requests() {
        check(3, &[0, 1, 2], &[0, 1, 2]);
        check(3, &[2, 1, 0], &[0, 1, 2]);
        check(4, &[1, 0, 3], &[0, 1]);
        check(2, &[1], &[]);
    }

    #[test]
    fn a_reply_that_nobody_asked_for_changes_nothing() {
        let mut window = Window::default();
        window.open("a".to_owned(), 1);
        assert!(!window.settle("b", ()));
        assert!(window.settle("a", ()));
        assert!(!window.settle("a", ()));
        assert_eq!(window.take_first(), Some((1, ())));
    }

    #[test]
    fn giving_up_gives_everything_back_in_order() {
        let mut window = Window::default();
        window.open("a".to_owned(), 1);
        window.open("b".to_owned(), 2);
        window.settle("b", 'x');
        assert_eq!(window.take_all(), [(1, None), (2, Some('x'))]);
        window.open("c".to_owned(), 3);
        assert!(window.settle("c", 'y'));
        assert_eq!(window.take_first(), Some((3, 'y')));
    }
}
