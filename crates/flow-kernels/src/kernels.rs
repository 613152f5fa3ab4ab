//! The operations on states, by whichever back end was chosen.
//!
//! All calls of a back end's functions stand here; the pieces of work are made elsewhere.

use crate::activations::{Rows, RowsMut};
use crate::select::{BackEnd, Format};
use crate::elementwise::{Norm, Shape};
use crate::packed::Packed;
use crate::linear::Activation;
use crate::dispatch::Table;
use crate::tile::Tile;

/// The operations of one back end.
#[derive(Clone, Copy)]
pub struct Kernels {
    back_end: BackEnd,
    format: Format,
    /// Private, and only [`BackEnd`] makes one: so a table is only ever called where its instructions are.
    table: &'static Table,
}

impl Kernels {
    pub(crate) fn new(back_end: BackEnd, format: Format, table: &'static Table) -> Self {
        Self {
            back_end,
            format,
            table,
        }
    }

    /// Who computes.
    #[must_use]
    pub fn back_end(&self) -> BackEnd {
        self.back_end
    }

    /// The numbers that go into products.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Packs weights for this back end. They stand as PyTorch keeps a linear layer: output after output, each
    /// with its `inputs` weights.
    ///
    /// # Panics
    ///
    /// If `weights` are no whole number of outputs.
    #[must_use]
    pub fn pack(&self, weights: &[f32], inputs: usize) -> Packed {
        Packed::new(weights, inputs, (self.format, self.columns()))
    }

    /// How many columns of weights a tile reads side by side.
    pub(crate) fn columns(&self) -> usize {
        match self.format {
            Format::F32 => self.table.exact_columns,
            Format::Bf16 => self.table.rounded_columns,
        }
    }

    /// Adds `added` to `values`, and normalises each row: mean 0, variance 1, then `scale` and `shift`.
    ///
    /// # Panics
    ///
    /// If they are not of one size, or 32-bit floats are not kept.
    pub fn add_norm(
        &self,
        added: Rows<'_>,
        (scale, shift, epsilon): (&[f32], &[f32], f32),
        values: &mut RowsMut<'_>,
    ) {
        assert_eq!((added.count, added.width), (values.count, values.width));
        assert_eq!((scale.len(), shift.len()), (values.width, values.width));
        let norm = Norm {
            scale,
            shift,
            epsilon,
        };
        for row in 0..values.count {
            let start = row * values.stride;
            let exact = &mut values.exact[start..][..values.width];
            // SAFETY: the table is only had where its instructions are.
            unsafe { (self.table.elementwise.add_norm)(exact, added.row(row), &norm) };
        }
        if !values.rounded.is_empty() {
            values.round(self);
        }
    }

    pub(crate) fn table(&self) -> &'static Table {
        self.table
    }

    pub(crate) fn exact(&self, mut tile: Tile<'_, f32>) {
        tile.check(1, self.table.exact_rows);
        // SAFETY: the table is only had where its instructions are, and the tile has just been checked.
        unsafe { (self.table.exact)(&mut tile) };
    }

    pub(crate) fn rounded(&self, mut tile: Tile<'_, u16>) {
        tile.check(2, self.table.rounded_rows);
        // SAFETY: the table is only had where its instructions are, and the tile has just been checked.
        unsafe { (self.table.rounded)(&mut tile) };
    }

    pub(crate) fn activate(&self, activation: Activation, values: &mut [f32], shape: Shape) {
        let functions = &self.table.elementwise;
        let function = match activation {
            Activation::None => return,
            Activation::Gelu => functions.gelu,
            Activation::GeluTanh => functions.gelu_tanh,
            Activation::Relu => functions.relu,
        };
        // SAFETY: the table is only had where its instructions are.
        unsafe { function(values, shape) };
    }

    /// Puts the bf16 of each value into rows that begin `stride` after each other.
    pub(crate) fn round(&self, values: &[f32], shape: Shape, rounded: &mut [u16], stride: usize) {
        // SAFETY: the table is only had where its instructions are.
        unsafe { (self.table.elementwise.round)(values, shape, rounded, stride) };
    }

    /// See `elementwise::soft_max`: a factor for each row.
    pub(crate) fn soft_max(&self, rows: &mut [f32], shape: Shape, by: f32, factors: &mut [f32]) {
        // SAFETY: the table is only had where its instructions are.
        unsafe { (self.table.elementwise.soft_max)(rows, shape, by, factors) }
    }

    /// Multiplies each row by its factor.
    pub(crate) fn scale(&self, values: &mut [f32], shape: Shape, factors: &[f32]) {
        // SAFETY: the table is only had where its instructions are.
        unsafe { (self.table.elementwise.scale)(values, shape, factors) };
    }
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels")
            .field("back_end", &self.back_end)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}
