//! Linear layers in 8-bit integers.

use flow_kernels::{Activation, Int8Matrix, Kernels, Linear};

use crate::engine::cpu::model::LinearPart;

/// A linear layer in 8-bit integers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Int8Linear {
    pub(crate) matrix: Int8Matrix,
    pub(crate) bias: Vec<f32>,
}

/// The linear layers of one layer, in the order of [`LinearPart::ALL`].
pub(crate) type Int8Layer = [Int8Linear; LinearPart::ALL.len()];

impl Int8Linear {
    pub(crate) fn pack(&self, kernels: &Kernels, activation: Activation) -> Linear {
        Linear::new(kernels.pack_int8(&self.matrix), &self.bias, activation)
    }
}

/// The results of an array, or the first error.
pub(super) fn transpose<T, E, const N: usize>(results: [Result<T, E>; N]) -> Result<[T; N], E> {
    let values = results.into_iter().collect::<Result<Vec<T>, E>>()?;
    Ok(values
        .try_into()
        .unwrap_or_else(|_| unreachable!("there are as many values as results")))
}
