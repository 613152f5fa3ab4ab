//! The schedule of the faults: a pure function of a seed and a length.

use std::fmt;
use std::time::Duration;

use flow_tests::SplitMix64;

/// The shortest and the longest pause between the starts of two faults, in milliseconds.
const PAUSE_MS: (u64, u64) = (4_000, 10_000);

/// Milliseconds for which a process is stopped; three failed health checks, after which it would be killed, take longer.
const FREEZE_MS: (u64, u64) = (1_000, 4_000);

/// Milliseconds for which the log of `flow up` is not read.
const LOG_PIPE_MS: (u64, u64) = (2_000, 6_000);

/// Milliseconds for which clients do not read what they asked for.
const SLOW_MS: (u64, u64) = (2_000, 5_000);

/// How many clients hang up, cancel, or read slowly at a time.
const CLIENTS: (u64, u64) = (5, 20);

/// Replicas after a change; the flow file has 3.
const REPLICAS: (u64, u64) = (2, 5);

/// Draws for the replica that a fault hits; what runs then decides which one it is.
const PICKS: (u64, u64) = (0, 59);

/// The nodes of the flow that have replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    /// The idempotent one.
    Work,
    /// The one that writes down what it runs, and runs nothing twice.
    Book,
}

impl Node {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Book => "book",
        }
    }
}

/// Something that goes wrong, or that an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL to one replica.
    Kill(Node, u64),
    /// SIGSTOP to one replica, and SIGCONT after this many milliseconds.
    Freeze(Node, u64, u64),
    /// `flow restart`.
    Restart(Node),
    /// `flow scale work=N`.
    Scale(u64),
    /// `flow reload` after a change of the flow file.
    Reload,
    /// So many clients that send a request, or half of one, and close the connection.
    HangUps(u64),
    /// So many clients that cancel a call.
    Cancels(u64),
    /// This many clients, which do not read large replies for this many milliseconds.
    SlowReaders(u64, u64),
    /// The log of `flow up` is not read for this many milliseconds.
    FullLogPipe(u64),
    /// The external executor closes all of its connections.
    CloseConnections,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(node, pick) => write!(f, "kill {} pick {pick}", node.name()),
            Self::Freeze(node, pick, ms) => {
                write!(f, "freeze {} pick {pick} for {ms} ms", node.name())
            }
            Self::Restart(node) => write!(f, "restart {}", node.name()),
            Self::Scale(replicas) => write!(f, "scale work={replicas}"),
            Self::Reload => write!(f, "reload"),
            Self::HangUps(clients) => write!(f, "{clients} clients hang up"),
            Self::Cancels(clients) => write!(f, "{clients} clients cancel"),
            Self::SlowReaders(clients, ms) => {
                write!(f, "{clients} clients do not read for {ms} ms")
            }
            Self::FullLogPipe(ms) => write!(f, "log pipe full for {ms} ms"),
            Self::CloseConnections => write!(f, "external executor closes connections"),
        }
    }
}

/// A fault and when it is due, from the beginning of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// The faults between two times. Each kind comes once before any comes again, in an order that differs each time.
pub(crate) fn schedule(seed: u64, from: Duration, to: Duration) -> Vec<Planned> {
    let mut draws = SplitMix64(seed);
    let mut plan = Vec::new();
    let mut at = from;
    loop {
        for fault in shuffled_faults(&mut draws) {
            if at >= to {
                return plan;
            }
            plan.push(Planned { at, fault });
            at += Duration::from_millis(draws.between(PAUSE_MS));
        }
    }
}

fn shuffled_faults(draws: &mut SplitMix64) -> Vec<Fault> {
    let mut faults = Vec::new();
    for node in [Node::Work, Node::Book] {
        faults.push(Fault::Kill(node, draws.between(PICKS)));
        faults.push(Fault::Freeze(
            node,
            draws.between(PICKS),
            draws.between(FREEZE_MS),
        ));
        faults.push(Fault::Restart(node));
    }
    faults.extend([
        Fault::Scale(draws.between(REPLICAS)),
        Fault::Reload,
        Fault::HangUps(draws.between(CLIENTS)),
        Fault::Cancels(draws.between(CLIENTS)),
        Fault::SlowReaders(draws.between(CLIENTS), draws.between(SLOW_MS)),
        Fault::FullLogPipe(draws.between(LOG_PIPE_MS)),
        Fault::CloseConnections,
    ]);
    for last in (1..faults.len()).rev() {
        let other = draws.between((0, last as u64));
        faults.swap(last, usize::try_from(other).unwrap_or_default());
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

    use super::*;

    const KINDS: usize = 13;

    fn plan(seed: u64, seconds: u64) -> Vec<Planned> {
        schedule(seed, Duration::from_secs(10), Duration::from_secs(seconds))
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_one_others() {
        assert_eq!(plan(7, 600), plan(7, 600));
        assert_ne!(plan(7, 600), plan(8, 600));
    }

    #[test]
    fn a_longer_run_begins_as_a_shorter_one_does() {
        let (short, long) = (plan(7, 120), plan(7, 600));
        assert_eq!(short, long[..short.len()]);
    }

    #[test]
    fn faults_are_planned_within_their_time_and_seconds_apart() {
        let plan = plan(3, 900);
        assert_eq!(plan[0].at, Duration::from_secs(10));
        assert!(plan.iter().all(|it| it.at < Duration::from_secs(900)));
        let pauses = plan.windows(2).map(|pair| pair[1].at - pair[0].at);
        let allowed = Duration::from_secs(4)..=Duration::from_secs(10);
        assert!(pauses.into_iter().all(|pause| allowed.contains(&pause)));
    }

    #[test]
    fn each_kind_comes_once_before_any_comes_again() {
        let plan = plan(1, 900);
        let kinds = |part: &[Planned]| {
            let mut kinds = Vec::new();
            for it in part {
                let node = match it.fault {
                    Fault::Kill(node, _) | Fault::Freeze(node, _, _) | Fault::Restart(node) => {
                        Some(node)
                    }
                    _ => None,
                };
                let kind = (discriminant(&it.fault), node);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            kinds.len()
        };
        assert_eq!(kinds(&plan[..KINDS]), KINDS);
        assert_eq!(kinds(&plan[KINDS..2 * KINDS]), KINDS);
    }
}
