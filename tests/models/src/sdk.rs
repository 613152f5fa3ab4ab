//! What the queue of an executor needs of its SDK.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchMetric {
    Documents,
    Custom,
}
