//! Layer norms.

use flow_kernels::{Kernels, Rows, RowsMut};

use crate::family::LayerNormTensors;

/// The parameters of a layer norm.
#[derive(Debug)]
pub(super) struct LayerNorm {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl LayerNorm {
    pub(super) fn new(tensors: LayerNormTensors, epsilon: f32) -> Self {
        Self {
            scale: tensors.scale,
            shift: tensors.shift,
            epsilon,
        }
    }

    /// Number of values of a normalized row.
    pub(super) fn width(&self) -> usize {
        self.scale.len()
    }

    /// Adds `added` to `values`, then normalizes each row.
    pub(super) fn add(&self, kernels: &Kernels, added: Rows<'_>, values: &mut RowsMut<'_>) {
        kernels.add_layer_norm(added, (&self.scale, &self.shift, self.epsilon), values);
    }
}
