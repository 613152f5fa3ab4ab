//! The families of models that can be loaded: their dimensions and the names of their tensors.

mod layout;
mod tensors;

pub use layout::LayoutError;
pub(crate) use layout::{Config, Family, Layout, Part};
pub(crate) use tensors::{Linear, Norm, Tensors};
