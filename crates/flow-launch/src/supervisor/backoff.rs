//! Decides when a process that exited is restarted. Pure: how long the process served is an argument.
//!
//! The first restart comes soon; each further one waits twice as long, up to a bound. After a process was stable, the waits
//! start again. There is no last restart: if there were, a client that knows a request which ends the process could end the
//! service for all others.

use std::time::Duration;

/// How soon a process is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Wait before the first restart.
    pub wait_min: Duration,
    /// Longest wait before a restart.
    pub wait_max: Duration,
    /// A process that served for this long is stable.
    pub stable_after: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            // Long enough that a process that exits at once does not occupy a core with its restarts.
            wait_min: Duration::from_millis(100),
            wait_max: Duration::from_secs(10),
            stable_after: Duration::from_secs(30),
        }
    }
}

/// The restarts of one process so far.
#[derive(Debug)]
pub(crate) struct RestartBackoff {
    policy: RestartPolicy,
    in_a_row: u32,
}

impl RestartBackoff {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            in_a_row: 0,
        }
    }

    /// Returns the wait before the restart. `served` is the time that the process was ready; zero if it never was.
    pub(crate) fn on_exit(&mut self, served: Duration) -> Duration {
        if served >= self.policy.stable_after {
            self.in_a_row = 0;
        }
        let wait = self.wait();
        self.in_a_row = self.in_a_row.saturating_add(1);
        wait
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
        stable_after: ms(5_000),
    };

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// How long the process was ready each time → the wait before each restart.
    fn check(served_ms: &[u64], waits_ms: &[u64]) {
        let mut backoff = RestartBackoff::new(POLICY);
        let served = served_ms.iter().map(|&served| ms(served));
        let waits: Vec<Duration> = served.map(|served| backoff.on_exit(served)).collect();
        let expected: Vec<Duration> = waits_ms.iter().map(|&wait| ms(wait)).collect();
        assert_eq!(waits, expected, "served {served_ms:?}");
    }

    #[test]
    fn waits_double_up_to_the_bound() {
        check(&[9; 7], &[100, 200, 400, 800, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn counting_starts_again_after_a_stable_run() {
        check(&[9, 9, 4_999, 9], &[100, 200, 400, 800]);
        check(&[9, 9, 5_000, 9], &[100, 200, 100, 200]);
        check(&[9, 9, 5_001, 9], &[100, 200, 100, 200]);
    }

    #[test]
    fn no_number_of_restarts_overflows() {
        let mut backoff = RestartBackoff::new(POLICY);
        for in_a_row in [4_000, u32::MAX] {
            backoff.in_a_row = in_a_row;
            assert_eq!(backoff.on_exit(Duration::ZERO), POLICY.wait_max);
        }
    }
}
