//! 8-bit weights, packed in the order in which tiles read them.

use super::matrix::Int8Matrix;
use super::rotation::Rotation;
use super::state_layout::StateLayout;
use crate::aligned::AlignedVec;
use crate::tile::PANEL;

/// The panels of an [`Int8Matrix`], and how states become operands of its products.
#[derive(Debug, Clone)]
pub(crate) struct Int8Panels {
    /// Blocks of steps, as for bf16. A step is four inputs, output by output.
    pub(crate) values: AlignedVec<i8>,
    /// One for each panel.
    pub(crate) columns: Vec<ColumnScales>,
    pub(crate) states: StateLayout,
}

/// What a panel's sums are scaled with.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct ColumnScales {
    pub(crate) scales: [f32; PANEL],
    /// The sum of each column's weights, which is multiplied by the zero point of a row.
    pub(crate) sums: [i32; PANEL],
}

impl Int8Panels {
    /// `pack` copies the values into panels.
    pub(crate) fn new(matrix: &Int8Matrix, pack: impl FnOnce(&[i8]) -> AlignedVec<i8>) -> Self {
        let inputs = matrix.inputs();
        let empty = ColumnScales {
            scales: [0.0; PANEL],
            sums: [0; PANEL],
        };
        let mut columns = vec![empty; matrix.scales.len().div_ceil(PANEL)];
        let rows = matrix.values.chunks_exact(inputs).zip(&matrix.scales);
        for (output, (row, scale)) in rows.enumerate() {
            let panel = &mut columns[output / PANEL];
            panel.scales[output % PANEL] = *scale;
            panel.sums[output % PANEL] = row.iter().map(|value| i32::from(*value)).sum();
        }
        Self {
            values: pack(&matrix.values),
            columns,
            states: StateLayout {
                factors: matrix.factors.clone(),
                rotation: Rotation::of_width(inputs),
            },
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.values.len() + size_of_val(&self.columns[..]) + size_of_val(&self.states.factors[..])
    }
}
