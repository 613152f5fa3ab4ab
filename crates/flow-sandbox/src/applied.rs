//! What was applied, for the log and for the program that follows.

/// What was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Each limit, and the means by which it holds.
    pub limits: Vec<String>,
    /// What the kernel could not do of a limit that holds otherwise.
    pub gaps: Vec<String>,
    /// Variables with which programs keep their limits without trouble.
    pub variables: Vec<(&'static str, &'static str)>,
}
