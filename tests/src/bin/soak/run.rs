//! The shared state of a run: its clock, its phases, and the account of requests.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::account::{Account, Class, Ticket};

/// The part of a run without faults at its start, and the longest time that it takes.
const QUIET_PART: f64 = 0.15;
const QUIET_MAX: Duration = Duration::from_secs(120);

/// The part of a run without faults at its end, for what was broken to come back.
const END_PART: f64 = 0.1;
const END_MAX: Duration = Duration::from_secs(120);

/// When the phases of a run end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phases {
    /// Until then there is load and no fault.
    pub(crate) quiet: Duration,
    /// Until then there are faults.
    pub(crate) faults: Duration,
    /// Until then requests leave.
    pub(crate) end: Duration,
}

impl Phases {
    pub(crate) fn of(length: Duration) -> Self {
        Self {
            quiet: length.mul_f64(QUIET_PART).min(QUIET_MAX),
            faults: length - length.mul_f64(END_PART).min(END_MAX),
            end: length,
        }
    }
}

/// A run in progress.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) port: u16,
    pub(crate) phases: Phases,
    begun: Instant,
    account: Mutex<Account>,
}

impl Run {
    pub(crate) fn new(port: u16, phases: Phases) -> Self {
        Self {
            port,
            phases,
            begun: Instant::now(),
            account: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.begun + at
    }

    pub(crate) fn is_over(&self) -> bool {
        self.now() >= self.phases.end
    }

    pub(crate) fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}", self.port)
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    pub(crate) fn issue(&self, class: Class, once: bool, due: Duration) -> Ticket {
        self.account().issue(class, once, due)
    }

    pub(crate) fn settle(&self, ticket: &Ticket, outcome: Result<(), String>) {
        let now = self.now();
        self.account().settle(ticket.id, now, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_has_quiet_parts_and_a_long_one_has_no_longer_ones_than_it_needs() {
        let short = Phases::of(Duration::from_secs(200));
        assert_eq!(short.quiet, Duration::from_secs(30));
        assert_eq!(short.faults, Duration::from_secs(180));
        let long = Phases::of(Duration::from_secs(3600));
        assert_eq!(long.quiet, Duration::from_secs(120));
        assert_eq!(long.faults, Duration::from_secs(3480));
    }
}
