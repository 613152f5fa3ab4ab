//! Decides whether a process that died is started again, and when.
//!
//! This module only decides. It knows no process and reads no clock: how long the process was of use
//! is an argument. `supervise.rs` waits and starts.
//!
//! The rules:
//! - The first restart comes soon; each further one waits twice as long, up to a bound.
//! - A process that was stable has paid its debts: counting begins anew.
//! - After so many restarts in a row that changed nothing, it is given up.

use std::time::Duration;

/// How often and how soon a process is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    /// Wait before the first restart.
    pub wait_min: Duration,
    /// No wait is longer than this.
    pub wait_max: Duration,
    /// Restarts in a row after which the process is given up.
    pub in_a_row_max: u32,
    /// A process that was ready for this long counts as healthy again.
    pub stable_after: Duration,
}

impl Default for Restarts {
    fn default() -> Self {
        Self {
            // Long enough that a process that dies at once does not fill a core with its restarts.
            wait_min: Duration::from_millis(100),
            wait_max: Duration::from_secs(10),
            // With the waits above: about half a minute of trying.
            in_a_row_max: 8,
            // Longer than the longest wait, or a process that dies every time it is asked would never be
            // given up.
            stable_after: Duration::from_secs(30),
        }
    }
}

/// What to do with a process that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Start it again after this long.
    RestartAfter(Duration),
    /// It will not get better by itself.
    GiveUp,
}

/// The record of one process.
#[derive(Debug)]
pub(crate) struct Backoff {
    restarts: Restarts,
    in_a_row: u32,
}

impl Backoff {
    pub(crate) fn new(restarts: Restarts) -> Self {
        Self {
            restarts,
            in_a_row: 0,
        }
    }

    /// The process died after it had been ready for `served`; zero if it never was.
    pub(crate) fn died(&mut self, served: Duration) -> Verdict {
        if served >= self.restarts.stable_after {
            self.in_a_row = 0;
        }
        if self.in_a_row >= self.restarts.in_a_row_max {
            return Verdict::GiveUp;
        }
        let wait = self.wait();
        self.in_a_row += 1;
        Verdict::RestartAfter(wait)
    }

    fn wait(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.in_a_row);
        let wait = self.restarts.wait_min.saturating_mul(factor);
        wait.min(self.restarts.wait_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESTARTS: Restarts = Restarts {
        wait_min: ms(100),
        wait_max: ms(1_000),
        in_a_row_max: 6,
        stable_after: ms(5_000),
    };

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// How long the process was ready each time → how long each restart waits; 0: given up.
    fn check(served_ms: &[u64], waits_ms: &[u64]) {
        let mut backoff = Backoff::new(RESTARTS);
        let waits: Vec<u64> = served_ms
            .iter()
            .map(|&served| match backoff.died(ms(served)) {
                Verdict::RestartAfter(wait) => wait.as_millis().try_into().unwrap(),
                Verdict::GiveUp => 0,
            })
            .collect();
        assert_eq!(waits, waits_ms, "served {served_ms:?}");
    }

    #[test]
    fn waits_double_up_to_the_bound_and_then_it_is_given_up() {
        check(&[9; 7], &[100, 200, 400, 800, 1_000, 1_000, 0]);
    }

    #[test]
    fn a_stable_process_starts_anew() {
        check(&[9, 9, 4_999, 9], &[100, 200, 400, 800]);
        check(&[9, 9, 5_000, 9], &[100, 200, 100, 200]);
        check(&[9, 9, 5_001, 9], &[100, 200, 100, 200]);
    }

    #[test]
    fn a_given_up_process_that_was_stable_before_gets_all_its_restarts() {
        check(
            &[9, 9, 9, 9, 9, 9, 6_000],
            &[100, 200, 400, 800, 1_000, 1_000, 100],
        );
    }

    #[test]
    fn no_number_of_restarts_overflows() {
        let endless = Restarts {
            in_a_row_max: u32::MAX,
            ..RESTARTS
        };
        let mut backoff = Backoff::new(endless);
        backoff.in_a_row = 4_000;
        assert_eq!(
            backoff.died(Duration::ZERO),
            Verdict::RestartAfter(RESTARTS.wait_max)
        );
    }
}
