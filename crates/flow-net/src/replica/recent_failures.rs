//! Whether a replica fails most of its calls. Pure: outcomes are arguments.

/// Calls that are remembered, one bit each.
const REMEMBERED: u32 = 9;

/// Calls below which nothing is known yet.
const NEEDED: u32 = 5;

/// The outcomes of the last calls of a replica.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecentFailures {
    /// The newest call is the lowest bit. A call that failed is a 1.
    outcomes: u16,
    /// Calls that are remembered.
    known: u32,
}

impl RecentFailures {
    /// Adds a call, in place of the oldest one.
    pub(super) fn add(&mut self, failed: bool) {
        self.outcomes = (self.outcomes << 1 | u16::from(failed)) & ((1 << REMEMBERED) - 1);
        self.known = (self.known + 1).min(REMEMBERED);
    }

    /// Whether more than half of the last calls failed. Too few calls say nothing.
    pub(super) fn are_most(self) -> bool {
        self.known >= NEEDED && self.outcomes.count_ones() * 2 > self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(calls: &str, expected: bool) {
        let mut failures = RecentFailures::default();
        calls.chars().for_each(|it| failures.add(it == 'x'));
        assert_eq!(failures.are_most(), expected, "{calls}");
    }

    #[test]
    fn a_replica_fails_most_of_its_calls_if_more_than_half_of_the_last_nine_failed() {
        check("xxxx", false);
        check("xxxxx", true);
        check("xx..x", true);
        check("x..x.", false);
        check("xxxxx....", true);
        check("xxxx.....", false);
        check("xxxxxxxxx.....", false);
        check(".........xxxxx", true);
    }
}
