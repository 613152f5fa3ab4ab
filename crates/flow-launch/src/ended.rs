//! How a process ended, in words.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Lines of a dead process that a log line quotes; all were relayed when they were written.
const QUOTED_MAX: usize = 5;

/// The end of a process: how, and what it said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub cause: Cause,
    /// What it wrote last, oldest first.
    pub last_lines: Vec<String>,
}

impl Ended {
    /// The last few lines, for a log.
    pub(crate) fn quoted(&self) -> &[String] {
        let skipped = self.last_lines.len().saturating_sub(QUOTED_MAX);
        &self.last_lines[skipped..]
    }
}

/// `ended with exit code 1; its last lines:`, and then the lines.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        write_lines(f, &self.last_lines)
    }
}

/// The end of a message: `; its last lines:` and the lines, if there are any.
pub(crate) fn write_lines(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return f.write_str(" and wrote nothing");
    }
    f.write_str("; its last lines:")?;
    lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It chose to, with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Its container used more memory than it may.
    OutOfMemory,
    /// Its container is not there any more, and nobody knows how it ended.
    Gone,
}

impl From<flow_docker::Ended> for Cause {
    fn from(ended: flow_docker::Ended) -> Self {
        /// Above it, an engine's exit codes are signals.
        const SIGNALS: i32 = 128;
        let code = ended.code.and_then(|it| i32::try_from(it).ok());
        match (ended.out_of_memory, code) {
            (true, _) => Self::OutOfMemory,
            (false, None) => Self::Gone,
            (false, Some(code)) if code > SIGNALS => Self::Signal(code - SIGNALS),
            (false, Some(code)) => Self::Code(code),
        }
    }
}

impl From<ExitStatus> for Cause {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // The kernel tells one or the other; the raw status is all there would be to say.
            (None, None) => Self::Code(status.into_raw()),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "was ended by signal {name}"),
                None => write!(f, "was ended by signal {number}"),
            },
            Self::OutOfMemory => f.write_str(
                "ran out of memory in its container (`docker_kwargs: {mem_limit: …}` says how much it gets)",
            ),
            Self::Gone => f.write_str(
                "is gone: somebody has removed its container, or the Docker engine has ended",
            ),
        }
    }
}

/// Names of the signals that end processes in practice.
fn signal_name(number: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        // Nobody but the kernel does this uninvited, and then it is nearly always this.
        (Signal::KILL, "SIGKILL (by hand, or because memory ran out)"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::SYS, "SIGSYS"),
    ];
    let found = names.iter().find(|(signal, _)| signal.as_raw() == number);
    found.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: i32, expected: &str) {
        assert_eq!(Cause::from(ExitStatus::from_raw(raw)).to_string(), expected);
    }

    #[test]
    fn a_containers_end_is_told_as_a_process_s_and_more() {
        let check = |code: Option<i64>, out_of_memory: bool, expected: Cause| {
            let ended = flow_docker::Ended {
                code,
                out_of_memory,
                message: String::new(),
            };
            assert_eq!(Cause::from(ended), expected);
        };
        check(Some(0), false, Cause::Code(0));
        check(Some(3), false, Cause::Code(3));
        check(Some(137), false, Cause::Signal(9));
        check(Some(137), true, Cause::OutOfMemory);
        check(None, false, Cause::Gone);
    }

    #[test]
    fn an_end_is_an_exit_code_or_a_signals_name() {
        check(0, "ended with exit code 0");
        check(1 << 8, "ended with exit code 1");
        check(101 << 8, "ended with exit code 101");
        check(11, "was ended by signal SIGSEGV");
        check(
            9,
            "was ended by signal SIGKILL (by hand, or because memory ran out)",
        );
        check(40, "was ended by signal 40");
    }

    #[test]
    fn a_log_quotes_the_last_lines_only() {
        let ended = |n: usize| Ended {
            cause: Cause::Code(1),
            last_lines: (0..n).map(|i| i.to_string()).collect(),
        };
        assert_eq!(ended(0).quoted(), [""; 0]);
        assert_eq!(ended(5).quoted(), ["0", "1", "2", "3", "4"]);
        assert_eq!(ended(6).quoted(), ["1", "2", "3", "4", "5"]);
    }
}
