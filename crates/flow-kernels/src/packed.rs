//! A weight matrix as products read it: panel after panel.

use crate::select::Format;
use crate::bf16;
use crate::tile::PANEL;

/// A weight matrix, packed.
///
/// A panel is [`PANEL`] outputs, as one block or two: as many columns as the back end reads side by side.
/// Within a block lies step after step: the weights of all its outputs for one input (32-bit floats), or for
/// two inputs, output by output (bf16). The last panel is filled up with zeros, and so is an odd last input.
#[derive(Debug, Clone)]
pub struct Packed {
    inputs: usize,
    outputs: usize,
    columns: usize,
    panels: Panels,
}

#[derive(Debug, Clone)]
enum Panels {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
}

impl Packed {
    /// See [`crate::Kernels::pack`]; `columns` are read side by side.
    pub(crate) fn new(weights: &[f32], inputs: usize, (format, columns): (Format, usize)) -> Self {
        assert!(
            inputs > 0 && weights.len().is_multiple_of(inputs),
            "whole outputs"
        );
        let outputs = weights.len() / inputs;
        let panels = match format {
            Format::F32 => Panels::F32(pack(weights, inputs, (1, columns), |value| value)),
            Format::Bf16 => Panels::Bf16(pack(weights, inputs, (2, columns), bf16::round)),
        };
        Self {
            inputs,
            outputs,
            columns,
            panels,
        }
    }

    /// How many values a row of states must have.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How many values a row of results has.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many panels there are.
    #[must_use]
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    /// How many columns stand side by side.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.panels {
            Panels::F32(values) => size_of_val(&values[..]),
            Panels::Bf16(values) => size_of_val(&values[..]),
        }
    }

    /// What kind of numbers it holds.
    #[must_use]
    pub fn format(&self) -> Format {
        match &self.panels {
            Panels::F32(_) => Format::F32,
            Panels::Bf16(_) => Format::Bf16,
        }
    }

    /// One panel of 32-bit floats.
    pub(crate) fn exact(&self, panel: usize) -> Option<&[f32]> {
        let Panels::F32(values) = &self.panels else {
            return None;
        };
        let length = self.inputs * PANEL;
        Some(&values[panel * length..][..length])
    }

    /// One panel of bf16.
    pub(crate) fn rounded(&self, panel: usize) -> Option<&[u16]> {
        let Panels::Bf16(values) = &self.panels else {
            return None;
        };
        let length = self.inputs.div_ceil(2) * 2 * PANEL;
        Some(&values[panel * length..][..length])
    }
}

/// Panels whose steps are `step` inputs long, in blocks of so many columns.
fn pack<T: Copy + Default>(
    weights: &[f32],
    inputs: usize,
    (step, columns): (usize, usize),
    convert: impl Fn(f32) -> T,
) -> Vec<T> {
    let steps = inputs.div_ceil(step);
    let panels = (weights.len() / inputs).div_ceil(PANEL);
    let mut packed = vec![T::default(); panels * steps * step * PANEL];
    for (output, row) in weights.chunks_exact(inputs).enumerate() {
        // Panels are whole numbers of blocks.
        let block = &mut packed[output / columns * steps * step * columns..];
        for (input, &weight) in row.iter().enumerate() {
            let at = (input / step * columns + output % columns) * step + input % step;
            block[at] = convert(weight);
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
        let packed = Packed::new(&weights, 3, (Format::F32, PANEL));
        assert_eq!(
            (packed.inputs(), packed.outputs(), packed.panels()),
            (3, 33, 2)
        );
        let first = packed.exact(0).unwrap();
        // Weights of outputs 0, 1, 2 for input 0, and of output 0 for input 1.
        assert_eq!(
            (first[0], first[1], first[2], first[PANEL]),
            (0.0, 3.0, 6.0, 1.0)
        );
        let second = packed.exact(1).unwrap();
        assert_eq!((second[0], second[1], second[PANEL]), (96.0, 0.0, 97.0));
        assert!(packed.rounded(0).is_none());
    }

    #[test]
    fn a_panel_of_two_blocks_holds_one_after_the_other() {
        let weights: Vec<f32> = (0..33 * 3).map(|value| value as f32).collect();
        let packed = Packed::new(&weights, 3, (Format::F32, PANEL / 2));
        let first = packed.exact(0).unwrap();
        // Outputs 0 and 1 for input 0, output 0 for input 1; then output 16 for both.
        assert_eq!((first[0], first[1], first[16]), (0.0, 3.0, 1.0));
        assert_eq!((first[48], first[64]), (48.0, 49.0));
        assert_eq!(packed.exact(1).unwrap()[0], 96.0);
    }

    #[test]
    fn a_panel_of_bf16_holds_pairs_and_fills_up_the_last_with_zero() {
        let weights: Vec<f32> = (0..2 * 3).map(|value| value as f32).collect();
        let packed = Packed::new(&weights, 3, (Format::Bf16, PANEL));
        let panel: Vec<f32> = packed
            .rounded(0)
            .unwrap()
            .iter()
            .map(|v| bf16::widen(*v))
            .collect();
        assert_eq!(panel[..4], [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(panel[2 * PANEL..][..4], [2.0, 0.0, 5.0, 0.0]);
        assert_eq!(packed.bytes(), 4 * PANEL * 2);
    }
}
