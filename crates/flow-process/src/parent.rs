//! Ends a process with the process that started it.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// This process cannot end with its parent.
#[derive(Debug, thiserror::Error)]
pub enum NoParent {
    /// The process that started this one has ended.
    #[error("process {0}, which started this one, has ended")]
    Ended(u32),
    /// The kernel refuses to send a signal when the parent ends.
    #[error("cannot request a signal for the end of process {parent}")]
    Signal {
        /// The parent.
        parent: u32,
        /// The cause.
        source: rustix::io::Errno,
    },
}

/// Makes the kernel kill this process when its parent ends, for whatever reason.
///
/// # Errors
///
/// If process `parent` is not the parent of this process, because it has ended already.
pub fn end_with_parent(parent: u32) -> Result<(), NoParent> {
    // The request comes before the check: of a parent that ends in between, one of the two notices.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|source| NoParent::Signal { parent, source })?;
    let current = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    if current == parent {
        Ok(())
    } else {
        Err(NoParent::Ended(parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_has_ended_is_an_error() {
        let error = end_with_parent(u32::MAX).unwrap_err();
        assert!(matches!(error, NoParent::Ended(u32::MAX)), "{error}");
    }
}
