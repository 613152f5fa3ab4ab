//! Decides whether a process that exited is restarted, and when. Pure: how long the process served is an argument.
//!
//! The rules:
//! - The first restart comes soon; each further one waits twice as long, up to a bound.
//! - After a process was stable, counting starts again.
//! - After a number of restarts in a row, the process is given up.

use std::time::Duration;

/// How often and how soon a process is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Wait before the first restart.
    pub wait_min: Duration,
    /// Longest wait before a restart.
    pub wait_max: Duration,
    /// RestartPolicy in a row after which the process is given up.
    pub in_a_row_max: u32,
    /// A process that served for this long is stable.
    pub stable_after: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            // Long enough that a process that exits at once does not occupy a core with its restarts.
            wait_min: Duration::from_millis(100),
            wait_max: Duration::from_secs(10),
            // With these waits: about half a minute of restarts.
            in_a_row_max: 8,
            // Longer than the longest wait. Otherwise a process that exits at every request would never be given up.
            stable_after: Duration::from_secs(30),
        }
    }
}

/// What to do with a process that exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartDecision {
    /// Restart it after this wait.
    RestartAfter(Duration),
    /// Do not restart it.
    GiveUp,
}

/// The restarts of one process so far.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: RestartPolicy,
    in_a_row: u32,
}

impl Backoff {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            in_a_row: 0,
        }
    }

    /// Decides after an exit. `served` is the time that the process was ready; zero if it never was.
    pub(crate) fn on_exit(&mut self, served: Duration) -> RestartDecision {
        if served >= self.policy.stable_after {
            self.in_a_row = 0;
        }
        if self.in_a_row >= self.policy.in_a_row_max {
            return RestartDecision::GiveUp;
        }
        let wait = self.wait();
        self.in_a_row += 1;
        RestartDecision::RestartAfter(wait)
    }

    fn wait(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.in_a_row);
        let wait = self.policy.wait_min.saturating_mul(factor);
        wait.min(self.policy.wait_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RestartPolicy = RestartPolicy {
        wait_min: ms(100),
        wait_max: ms(1_000),
        in_a_row_max: 6,
        stable_after: ms(5_000),
    };

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// How long the process was ready each time → the wait before each restart; 0 for given up.
    fn check(served_ms: &[u64], waits_ms: &[u64]) {
        let mut backoff = Backoff::new(POLICY);
        let waits: Vec<u64> = served_ms
            .iter()
            .map(|&served| match backoff.on_exit(ms(served)) {
                RestartDecision::RestartAfter(wait) => wait.as_millis().try_into().unwrap(),
                RestartDecision::GiveUp => 0,
            })
            .collect();
        assert_eq!(waits, waits_ms, "served {served_ms:?}");
    }

    #[test]
    fn waits_double_up_to_the_bound_and_then_the_process_is_given_up() {
        check(&[9; 7], &[100, 200, 400, 800, 1_000, 1_000, 0]);
    }

    #[test]
    fn counting_starts_again_after_a_stable_run() {
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
        let endless = RestartPolicy {
            in_a_row_max: u32::MAX,
            ..POLICY
        };
        let mut backoff = Backoff::new(endless);
        backoff.in_a_row = 4_000;
        assert_eq!(
            backoff.on_exit(Duration::ZERO),
            RestartDecision::RestartAfter(POLICY.wait_max)
        );
    }
}
