//! Decides how to continue after an error of `accept`. Pure: the current time is an argument.
//!
//! A connection that its client closed before it was accepted is no problem. Other errors, such as too many open
//! files, last until something else changes, so the next attempt waits, and longer each time. One warning
//! reports such an episode, however many attempts it takes.

use std::io;
use std::time::{Duration, Instant};

/// Wait after the first error of an episode; doubled for each further one.
const WAIT_FIRST: Duration = Duration::from_millis(10);

/// Longest wait: also how late a client is accepted after the cause has gone. A client expects an answer within a second,
/// and four attempts a second take no time worth mentioning.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// Time without errors after which the next one begins a new episode.
const EPISODE_GAP: Duration = Duration::from_secs(60);

/// The errors of one listener.
#[derive(Debug, Default)]
pub(crate) struct AcceptErrors {
    /// Errors since the last connection was accepted.
    in_a_row: u32,
    last: Option<Instant>,
}

/// What to do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptBackoff {
    /// Time to wait before the next attempt.
    pub(crate) wait: Duration,
    /// Whether the error is the first of an episode.
    pub(crate) is_new: bool,
}

impl AcceptErrors {
    /// Notes a connection that was accepted.
    pub(crate) fn accepted(&mut self) {
        self.in_a_row = 0;
    }

    /// Notes an error; `None` if the next attempt may follow at once.
    pub(crate) fn failed(&mut self, error: &io::Error, now: Instant) -> Option<AcceptBackoff> {
        if is_about_one_connection(error) {
            return None;
        }
        let is_recent =
            |last: Instant| now.saturating_duration_since(last) < WAIT_MAX + EPISODE_GAP;
        let is_new = !self.last.is_some_and(is_recent);
        let wait = WAIT_FIRST
            .saturating_mul(1 << self.in_a_row.min(10))
            .min(WAIT_MAX);
        self.in_a_row += 1;
        self.last = Some(now);
        Some(AcceptBackoff { wait, is_new })
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_many_open_files() -> io::Error {
        io::Error::other("too many open files")
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn waits_double_up_to_a_quarter_of_a_second() {
        let mut errors = AcceptErrors::default();
        let now = Instant::now();
        let mut wait = || errors.failed(&too_many_open_files(), now).map(|it| it.wait);
        let waits: Vec<_> = (0..9).filter_map(|_| wait()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 250, 250, 250, 250].map(ms));
    }

    #[test]
    fn an_accepted_connection_resets_the_wait() {
        let mut errors = AcceptErrors::default();
        let now = Instant::now();
        for _ in 0..3 {
            errors.failed(&too_many_open_files(), now);
        }
        errors.accepted();
        let backoff = errors.failed(&too_many_open_files(), now).unwrap();
        assert_eq!(backoff.wait, WAIT_FIRST);
    }

    #[test]
    fn an_episode_is_new_once() {
        let mut errors = AcceptErrors::default();
        let start = Instant::now();
        let mut is_new = |after: Duration| {
            errors.accepted();
            let backoff = errors.failed(&too_many_open_files(), start + after);
            backoff.unwrap().is_new
        };
        assert!(is_new(Duration::ZERO));
        assert!(!is_new(ms(10)));
        assert!(!is_new(Duration::from_secs(60)));
        assert!(is_new(Duration::from_secs(200)));
    }

    #[test]
    fn a_client_that_left_early_delays_no_other() {
        let mut errors = AcceptErrors::default();
        let left = io::Error::from(io::ErrorKind::ConnectionAborted);
        assert_eq!(errors.failed(&left, Instant::now()), None);
    }
}
