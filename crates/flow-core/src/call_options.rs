//! What travels with a request from the edge of a flow to the executors.

use bytes::Bytes;

use crate::Deadline;

/// What a caller asks for besides the reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOptions {
    /// When the caller stops waiting for the reply.
    pub deadline: Deadline,
    /// Which requests this one overtakes.
    pub priority: Option<Priority>,
}

/// Which requests overtake which in an executor's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Priority {
    /// Somebody waits for the reply. The default.
    Interactive,
    /// Work in the background, which interactive requests overtake.
    Bulk,
    /// Any other value. It is forwarded, and executors refuse it.
    Other(Bytes),
}

impl Priority {
    /// The priority that a caller wrote as this text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        match text {
            b"interactive" => Self::Interactive,
            b"bulk" => Self::Bulk,
            other => Self::Other(Bytes::copy_from_slice(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_priorities_are_kept() {
        assert_eq!(Priority::parse(b"interactive"), Priority::Interactive);
        assert_eq!(Priority::parse(b"bulk"), Priority::Bulk);
        let other = Priority::Other(Bytes::from_static(b"urgent"));
        assert_eq!(Priority::parse(b"urgent"), other);
    }
}
