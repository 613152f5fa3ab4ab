//! The ports of a process.

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
