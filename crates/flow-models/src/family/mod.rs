//! Model families: the dimensions of BERT and its relatives, and the names of their tensors.

mod architecture;
mod tensors;

pub use architecture::ArchitectureError;
pub(crate) use architecture::{Architecture, ClassificationActivation, LayerPart, ModelFamily};
pub(crate) use tensors::{LayerNormTensors, LinearTensors, ModelTensors};
