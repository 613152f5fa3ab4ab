//! Kernels for ARM's vector instructions.

mod dotprod;
mod float;
mod i8mm;
mod integers;

pub(crate) use dotprod::{ROWS as DOTPROD_ROWS, tile_int8 as tile_dotprod};
pub(crate) use float::{ROWS, tile_f32};
pub(crate) use i8mm::{ROWS as I8MM_ROWS, UNIT as I8MM_UNIT, tile_int8 as tile_i8mm};
