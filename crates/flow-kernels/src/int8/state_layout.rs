//! How states become operands of a product.

use super::rotation::Rotation;

/// How states become operands of a product.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StateLayout {
    /// What each value is multiplied by, before the row is rotated.
    pub(crate) factors: Vec<f32>,
    pub(crate) rotation: Rotation,
}
