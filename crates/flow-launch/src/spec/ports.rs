//! The ports of a process, and the socket that it may have instead of one.

use std::path::PathBuf;

/// Where a process is to listen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListenAt {
    /// Its ports.
    pub(crate) ports: Ports,
    /// The Unix socket for requests; `None` for the port. A program that does not know such sockets uses the port.
    pub(crate) socket: Option<PathBuf>,
}

/// Ports of this machine for a process; 0 stands for any free port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    /// For requests.
    pub(crate) serving: u16,
    /// For metrics; `None` if the process serves none.
    pub(crate) metrics: Option<u16>,
}

impl Ports {
    /// These ports, and the other ones where any free port would do.
    pub(crate) fn or(self, other: Self) -> Self {
        let or = |own: u16, other: u16| if own == 0 { other } else { own };
        Self {
            serving: or(self.serving, other.serving),
            metrics: self.metrics.map(|own| or(own, other.metrics.unwrap_or(0))),
        }
    }

    /// Whether a process with these other ports meets this choice.
    pub(crate) fn are_met_by(self, other: Self) -> bool {
        let fits = |wanted: u16, has: u16| wanted == 0 || wanted == has;
        fits(self.serving, other.serving)
            && match (self.metrics, other.metrics) {
                (Some(wanted), Some(has)) => fits(wanted, has),
                (wanted, has) => wanted == has,
            }
    }
}
