//! What was applied, for the log.

/// What was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Each limit, and the means by which it holds.
    pub limits: Vec<String>,
    /// What the kernel could not do of a limit that holds otherwise.
    pub gaps: Vec<String>,
}
