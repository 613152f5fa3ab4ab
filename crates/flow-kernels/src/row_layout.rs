//! How rows of a matrix lie in memory.

/// Number, width and spacing of some rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLayout {
    /// Number of rows.
    pub(crate) rows: usize,
    /// Values in a row.
    pub(crate) width: usize,
    /// Values from the start of a row to the start of the next.
    pub(crate) stride: usize,
}
