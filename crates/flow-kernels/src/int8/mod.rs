//! Products of 8-bit integers.
//!
//! Weights are signed, with a scale for each output. States are unsigned, with a scale and a zero point for each row, which
//! are computed just before the product. Sums are 32-bit integers, which no order of summation changes, so all instruction
//! sets have the same results, bit for bit.
//!
//! Eight bits are enough only if all values of a row are of similar size. [`Rotation`] makes them so: it multiplies states
//! and weights by a Hadamard matrix, which leaves their products as they are and distributes outliers over many values
//! (Ashkboos et al., *QuaRot*, 2024).

mod matrix;
mod packed;
mod rotation;
mod state_layout;
mod tile;

pub use matrix::Int8Matrix;
pub use rotation::Rotation;

#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use packed::ColumnScales;
pub(crate) use packed::Int8Panels;
pub(crate) use rotation::rotate;
pub(crate) use state_layout::StateLayout;
pub(crate) use tile::{Int8Tile, Int8TileFn, RowScale, STEP};
