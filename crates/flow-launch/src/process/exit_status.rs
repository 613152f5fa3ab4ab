//! How a process exited, and how an error or a log line describes it.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Last lines that a log line quotes. All of them were relayed when they were written.
const QUOTED_MAX: usize = 5;

/// The exit of a process, and its last lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// How it exited.
    pub cause: ExitCause,
    /// The last lines that it wrote, oldest first.
    pub last_lines: Vec<String>,
}

impl ProcessExit {
    /// The last few lines, for a log line.
    pub(crate) fn quoted(&self) -> &[String] {
        let skipped = self.last_lines.len().saturating_sub(QUOTED_MAX);
        &self.last_lines[skipped..]
    }
}

/// `ended with exit code 1; its last lines:`, followed by the lines.
impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        write_lines(f, &self.last_lines)
    }
}

/// Writes the end of a message: `; its last lines:` and the lines, if there are any.
pub(crate) fn write_lines(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return f.write_str(" and wrote nothing");
    }
    f.write_str("; its last lines:")?;
    lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
}

/// How a process exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Its container used more memory than its limit.
    OutOfMemory,
    /// It used more memory than its sandbox allows, and the kernel ended it.
    OverMemoryLimit,
    /// Its container does not exist any more, so the cause is unknown.
    Gone,
    /// It was killed, but neither the kernel nor the Docker engine confirmed its exit in time.
    NotConfirmed,
}

impl From<flow_docker::ContainerExit> for ExitCause {
    fn from(exit: flow_docker::ContainerExit) -> Self {
        /// A Docker engine adds this to the number of a signal.
        const SIGNALS: i32 = 128;
        let code = exit.code.and_then(|it| i32::try_from(it).ok());
        match (exit.out_of_memory, code) {
            (true, _) => Self::OutOfMemory,
            (false, None) => Self::Gone,
            (false, Some(code)) if code > SIGNALS => Self::Signal(code - SIGNALS),
            (false, Some(code)) => Self::Code(code),
        }
    }
}

impl From<ExitStatus> for ExitCause {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // The kernel reports one or the other; the raw status is all that is left.
            (None, None) => Self::Code(status.into_raw()),
        }
    }
}

impl fmt::Display for ExitCause {
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
            Self::OverMemoryLimit => f.write_str(
                "ran out of memory (`sandbox: {memory: …}` says how much it gets)",
            ),
            Self::Gone => f.write_str(
                "is gone: its container was removed, or the Docker engine has ended",
            ),
            Self::NotConfirmed => f.write_str("was killed, but its exit was not confirmed in time"),
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
        // Sent by a person, or by the kernel when memory runs out.
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
        assert_eq!(
            ExitCause::from(ExitStatus::from_raw(raw)).to_string(),
            expected
        );
    }

    #[test]
    fn the_exit_of_a_container_is_described_like_that_of_a_process() {
        let check = |code: Option<i64>, out_of_memory: bool, expected: ExitCause| {
            let exit = flow_docker::ContainerExit {
                code,
                out_of_memory,
                message: String::new(),
            };
            assert_eq!(ExitCause::from(exit), expected);
        };
        check(Some(0), false, ExitCause::Code(0));
        check(Some(3), false, ExitCause::Code(3));
        check(Some(137), false, ExitCause::Signal(9));
        check(Some(137), true, ExitCause::OutOfMemory);
        check(None, false, ExitCause::Gone);
    }

    #[test]
    fn an_exit_is_described_by_its_code_or_signal() {
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
    fn a_log_line_quotes_only_the_last_lines() {
        let exit = |n: usize| ProcessExit {
            cause: ExitCause::Code(1),
            last_lines: (0..n).map(|i| i.to_string()).collect(),
        };
        assert_eq!(exit(0).quoted(), [""; 0]);
        assert_eq!(exit(5).quoted(), ["0", "1", "2", "3", "4"]);
        assert_eq!(exit(6).quoted(), ["1", "2", "3", "4", "5"]);
    }
}
