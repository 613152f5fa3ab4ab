//! Weights of a linear layer, packed in the order in which tiles read them.

use crate::aligned::{AlignedVec, PlainNumber};
use crate::bf16;
use crate::int8::{Int8Matrix, Int8Panels, STEP};
use crate::precision::CpuPrecision;
use crate::tile::PANEL;

/// A packed weight matrix of `outputs × inputs`.
///
/// A panel holds [`PANEL`] outputs, as one block or two: a block is as many columns as the kernel reads side by side.
/// A block is a sequence of steps, each of which holds the weights of the block's outputs for one input (32-bit floats),
/// or for two or four inputs, output by output (bf16 and 8-bit integers). The last panel and the last step are padded with
/// zeros. GotoBLAS
/// introduced this layout (Goto and van de Geijn, *Anatomy of High-Performance Matrix Multiplication*, 2008).
#[derive(Debug, Clone)]
pub struct PackedWeights {
    inputs: usize,
    outputs: usize,
    columns: usize,
    panels: Panels,
}

#[derive(Debug, Clone)]
enum Panels {
    F32(AlignedVec<f32>),
    Bf16(AlignedVec<u16>),
    Int8(Int8Panels),
}

impl PackedWeights {
    /// See [`crate::Kernels::pack`]. `columns` is the number of columns of a block.
    pub(crate) fn new(
        weights: &[f32],
        inputs: usize,
        (precision, columns): (CpuPrecision, usize),
    ) -> Self {
        assert!(
            inputs > 0 && weights.len().is_multiple_of(inputs),
            "whole outputs"
        );
        let outputs = weights.len() / inputs;
        let panels = match precision {
            CpuPrecision::F32 => Panels::F32(pack(weights, inputs, (1, columns), |value| value)),
            CpuPrecision::Bf16 => Panels::Bf16(pack(weights, inputs, (2, columns), bf16::from_f32)),
            CpuPrecision::Int8 => {
                let matrix = Int8Matrix::round(weights, vec![1.0; inputs]);
                return Self::from_int8(&matrix, columns);
            }
        };
        Self {
            inputs,
            outputs,
            columns,
            panels,
        }
    }

    /// See [`crate::Kernels::pack_int8`].
    pub(crate) fn from_int8(matrix: &Int8Matrix, columns: usize) -> Self {
        let inputs = matrix.inputs();
        let outputs = matrix.scales.len();
        assert_eq!(matrix.values.len(), outputs * inputs, "shape of the matrix");
        let pack = |values: &[i8]| pack(values, inputs, (STEP, columns), |value| value);
        Self {
            inputs,
            outputs,
            columns,
            panels: Panels::Int8(Int8Panels::new(matrix, pack)),
        }
    }

    /// Number of values in a row of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of values in a row of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of panels.
    #[must_use]
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    /// Number of columns of a block.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.panels {
            Panels::F32(values) => size_of_val(&values[..]),
            Panels::Bf16(values) => size_of_val(&values[..]),
            Panels::Int8(panels) => panels.bytes(),
        }
    }

    /// Format of the weights.
    #[must_use]
    pub fn precision(&self) -> CpuPrecision {
        match &self.panels {
            Panels::F32(_) => CpuPrecision::F32,
            Panels::Bf16(_) => CpuPrecision::Bf16,
            Panels::Int8(_) => CpuPrecision::Int8,
        }
    }

    /// All panels of 8-bit integers. `None` if the weights are floats.
    pub(crate) fn int8(&self) -> Option<&Int8Panels> {
        match &self.panels {
            Panels::Int8(panels) => Some(panels),
            Panels::F32(_) | Panels::Bf16(_) => None,
        }
    }

    /// A panel of 32-bit floats. `None` if the weights have another format.
    pub(crate) fn panel_f32(&self, panel: usize) -> Option<&[f32]> {
        let Panels::F32(values) = &self.panels else {
            return None;
        };
        let length = self.inputs * PANEL;
        Some(&values[panel * length..][..length])
    }

    /// A panel of bf16. `None` if the weights have another format.
    pub(crate) fn panel_bf16(&self, panel: usize) -> Option<&[u16]> {
        let Panels::Bf16(values) = &self.panels else {
            return None;
        };
        let length = self.inputs.div_ceil(2) * 2 * PANEL;
        Some(&values[panel * length..][..length])
    }
}

/// Packs weights into panels. A step is `step` inputs, and a block has `columns` columns.
fn pack<W: Copy, T: PlainNumber>(
    weights: &[W],
    inputs: usize,
    (step, columns): (usize, usize),
    convert: impl Fn(W) -> T,
) -> AlignedVec<T> {
    let steps = inputs.div_ceil(step);
    let panels = (weights.len() / inputs).div_ceil(PANEL);
    let mut packed = AlignedVec::zeros(panels * steps * step * PANEL);
    for (output, row) in weights.chunks_exact(inputs).enumerate() {
        // A panel is a whole number of blocks.
        let block = &mut packed[output / columns * steps * step * columns..];
        for (input, &weight) in row.iter().enumerate() {
            let index = (input / step * columns + output % columns) * step + input % step;
            block[index] = convert(weight);
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_holds_its_outputs_input_by_input() {
        let weights: Vec<f32> = (0..33 * 3).map(|value| value as f32).collect();
        let packed = PackedWeights::new(&weights, 3, (CpuPrecision::F32, PANEL));
        assert_eq!(
            (packed.inputs(), packed.outputs(), packed.panels()),
            (3, 33, 2)
        );
        let first = packed.panel_f32(0).unwrap();
        // Weights of outputs 0, 1 and 2 for input 0, and of output 0 for input 1.
        assert_eq!(
            (first[0], first[1], first[2], first[PANEL]),
            (0.0, 3.0, 6.0, 1.0)
        );
        let second = packed.panel_f32(1).unwrap();
        assert_eq!((second[0], second[1], second[PANEL]), (96.0, 0.0, 97.0));
        assert!(packed.panel_bf16(0).is_none());
    }

    #[test]
    fn a_panel_of_two_blocks_holds_one_after_the_other() {
        let weights: Vec<f32> = (0..33 * 3).map(|value| value as f32).collect();
        let packed = PackedWeights::new(&weights, 3, (CpuPrecision::F32, PANEL / 2));
        let first = packed.panel_f32(0).unwrap();
        // Outputs 0 and 1 for input 0, output 0 for input 1; then output 16 for both.
        assert_eq!((first[0], first[1], first[16]), (0.0, 3.0, 1.0));
        assert_eq!((first[48], first[64]), (48.0, 49.0));
        assert_eq!(packed.panel_f32(1).unwrap()[0], 96.0);
    }

    #[test]
    fn a_panel_of_bf16_holds_pairs_and_pads_an_odd_last_input_with_zero() {
        let weights: Vec<f32> = (0..2 * 3).map(|value| value as f32).collect();
        let packed = PackedWeights::new(&weights, 3, (CpuPrecision::Bf16, PANEL));
        let panel: Vec<f32> = packed
            .panel_bf16(0)
            .unwrap()
            .iter()
            .map(|value| bf16::to_f32(*value))
            .collect();
        assert_eq!(panel[..4], [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(panel[2 * PANEL..][..4], [2.0, 0.0, 5.0, 0.0]);
        assert_eq!(packed.bytes(), 4 * PANEL * 2);
    }
}
