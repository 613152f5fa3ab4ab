//! A card of the picture, or the lane of a link, in its column.

/// A card or a lane in a column.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) rank: usize,
    pub(super) is_aside: bool,
    /// Linked cells of the column before, and of the column after.
    pub(super) before: Vec<usize>,
    pub(super) after: Vec<usize>,
    pub(super) is_lane: bool,
    pub(super) height: f64,
}
