//! How many lines of one kind may be logged, so that a flood of failures neither fills the disk nor slows down the rest.
//! Pure: the time is an argument.

use std::time::{Duration, Instant};

/// The number of lines that may still be logged.
#[derive(Debug, Default)]
pub struct LineBudget {
    /// The start of the current period.
    since: Option<Instant>,
    /// Lines logged in this period.
    logged: u32,
    /// Lines left out that have not been reported yet.
    left_out: u64,
}

impl LineBudget {
    /// Maximum number of lines per [`PERIOD`](Self::PERIOD): enough to see what fails, and at most a few kilobytes a second.
    pub const LINES_MAX: u32 = 50;

    /// Time that a budget of lines lasts.
    pub const PERIOD: Duration = Duration::from_secs(10);

    /// Whether one more line may be logged; counts it in either case.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= Self::PERIOD;
        if self.since.is_none_or(is_over) {
            self.since = Some(now);
            self.logged = 0;
        }
        let may = self.logged < Self::LINES_MAX;
        match may {
            true => self.logged += 1,
            false => self.left_out += 1,
        }
        may
    }

    /// The lines left out since the last call, which are to be reported.
    pub fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = LineBudget::PERIOD;

    #[test]
    fn a_budget_of_lines_lasts_for_a_period_and_further_lines_are_counted() {
        let (mut budget, start) = (LineBudget::default(), Instant::now());
        for _ in 0..LineBudget::LINES_MAX {
            assert!(budget.take(start));
        }
        assert!(!budget.take(start + PERIOD / 2));
        assert!(!budget.take(start + PERIOD - Duration::from_millis(1)));
        assert_eq!(budget.take_left_out(), 2);
        assert!(budget.take(start + PERIOD));
        assert_eq!((budget.logged, budget.take_left_out()), (1, 0));
    }

    #[test]
    fn a_clock_that_stops_or_goes_back_does_no_harm() {
        let (mut budget, start) = (LineBudget::default(), Instant::now());
        assert!(budget.take(start + PERIOD));
        assert!(budget.take(start));
        assert_eq!(budget.logged, 2);
    }
}
