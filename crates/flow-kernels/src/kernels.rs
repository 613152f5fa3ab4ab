//! The operations on hidden states, for one instruction set.
//!
//! Every call through the dispatch table is in this file. `linear.rs` and `attention.rs` cut the work into tiles.

use crate::activation::Activation;
use crate::activations::{Rows, RowsMut};
use crate::dispatch::{self, DispatchTable};
use crate::elementwise::{LayerNormArgs, ScoreBlock};
use crate::instruction_set::InstructionSet;
use crate::int8::{Int8Matrix, Int8Tile, RowScale, StateLayout};
use crate::packed::PackedWeights;
use crate::precision::CpuPrecision;
use crate::row_layout::RowLayout;
use crate::tile::{PANEL, Tile};

/// The operations of one instruction set in one precision.
#[derive(Clone, Copy)]
pub struct Kernels {
    instruction_set: InstructionSet,
    precision: CpuPrecision,
    /// Private, and set in [`Kernels::select`] and [`Kernels::all`] only, which check that the machine can run it.
    table: &'static DispatchTable,
}

impl Kernels {
    /// The machine must have the table's instructions.
    pub(crate) fn new(
        instruction_set: InstructionSet,
        precision: CpuPrecision,
        table: &'static DispatchTable,
    ) -> Self {
        Self {
            instruction_set,
            precision,
            table,
        }
    }

    /// The kernels that every machine has.
    pub(crate) fn portable(precision: CpuPrecision) -> Self {
        Self::new(InstructionSet::Portable, precision, &dispatch::PORTABLE)
    }

    /// The instruction set that computes.
    #[must_use]
    pub fn instruction_set(&self) -> InstructionSet {
        self.instruction_set
    }

    /// The format of operands of matrix products.
    #[must_use]
    pub fn precision(&self) -> CpuPrecision {
        self.precision
    }

    /// Whether attention should read bf16.
    #[must_use]
    pub fn attends_in_bf16(&self) -> bool {
        self.precision != CpuPrecision::F32 && self.instruction_set.has_bf16()
    }

    /// Packs the weights of a linear layer for these kernels.
    ///
    /// `weights` is a row-major matrix of `outputs × inputs`, as PyTorch stores it.
    ///
    /// # Panics
    ///
    /// If the length of `weights` is not a multiple of `inputs`.
    #[must_use]
    pub fn pack(&self, weights: &[f32], inputs: usize) -> PackedWeights {
        PackedWeights::new(weights, inputs, (self.precision, self.columns()))
    }

    /// Packs weights of 8-bit integers for these kernels.
    ///
    /// # Panics
    ///
    /// If the kernels have another precision, or the sizes of the matrix do not fit each other.
    #[must_use]
    pub fn pack_int8(&self, matrix: &Int8Matrix) -> PackedWeights {
        assert_eq!(self.precision, CpuPrecision::Int8, "precision");
        PackedWeights::from_int8(matrix, self.columns())
    }

    /// Number of columns of weights that a tile reads side by side.
    pub(crate) fn columns(&self) -> usize {
        match self.precision {
            CpuPrecision::F32 => self.table.f32.columns,
            CpuPrecision::Bf16 => self.table.bf16.columns,
            CpuPrecision::Int8 => self.table.int8.columns,
        }
    }

    /// Adds `added` to `values`, and applies a layer norm to each row: it subtracts the mean, divides by the standard
    /// deviation, multiplies by `scale` and adds `shift`. `epsilon` is added to the variance.
    ///
    /// # Panics
    ///
    /// If the sizes differ, or if either side does not store 32-bit floats.
    pub fn add_layer_norm(
        &self,
        added: Rows<'_>,
        (scale, shift, epsilon): (&[f32], &[f32], f32),
        values: &mut RowsMut<'_>,
    ) {
        assert_eq!((added.count, added.width), (values.count, values.width));
        assert_eq!((scale.len(), shift.len()), (values.width, values.width));
        let weights = LayerNormArgs {
            scale,
            shift,
            epsilon,
        };
        for row in 0..values.count {
            let start = row * values.stride;
            let state = &mut values.f32s[start..][..values.width];
            // SAFETY: the machine has the table's instructions.
            unsafe { (self.table.elementwise.add_layer_norm)(state, added.row(row), &weights) };
            if !values.bf16s.is_empty() {
                // The row is in the L1 cache.
                let layout = RowLayout {
                    rows: 1,
                    width: values.width,
                    stride: values.stride,
                };
                self.round(state, layout, &mut values.bf16s[start..], values.stride);
            }
        }
    }

    /// Updates the bf16 copy of all values from their 32-bit floats.
    pub fn round_rows(&self, rows: &mut RowsMut<'_>) {
        let layout = RowLayout {
            rows: rows.count,
            width: rows.width,
            stride: rows.stride,
        };
        self.round(rows.f32s, layout, rows.bf16s, rows.stride);
    }

    pub(crate) fn table(&self) -> &'static DispatchTable {
        self.table
    }

    /// Computes a tile of 32-bit floats.
    pub(crate) fn tile_f32(&self, mut tile: Tile<'_, f32>) {
        tile.check(1, self.table.f32.rows);
        // SAFETY: the machine has the table's instructions, and the tile has just been checked.
        unsafe { (self.table.f32.tile)(&mut tile) };
    }

    /// Computes a tile of bf16.
    pub(crate) fn tile_bf16(&self, mut tile: Tile<'_, u16>) {
        tile.check(2, self.table.bf16.rows);
        // SAFETY: the machine has the table's instructions, and the tile has just been checked.
        unsafe { (self.table.bf16.tile)(&mut tile) };
    }

    /// Computes tiles of bf16 for the same rows and several panels, which lie one behind the other. Sums begin with zeros.
    pub(crate) fn panels_bf16(&self, mut tile: Tile<'_, u16>, panels: usize) {
        let table = self.table;
        let is_short = (1..=table.bf16.steps).contains(&tile.k);
        let at_once = table.panels_bf16.filter(|_| is_short && panels > 0);
        let panel_values = tile.k * tile.b_stride;
        for panel in 0..panels {
            let tile = Tile {
                b: &tile.b[panel * panel_values..],
                c: &mut tile.c[panel * PANEL..],
                ..tile
            };
            match at_once {
                Some(_) => tile.check(2, table.bf16.rows),
                None => self.tile_bf16(tile),
            }
        }
        if let Some(compute) = at_once {
            // SAFETY: the machine has the table's instructions, and the tile of each panel has just been checked.
            unsafe { compute(&mut tile, panels) };
        }
    }

    /// Computes a tile of 8-bit integers.
    pub(crate) fn tile_int8(&self, mut tile: Int8Tile<'_>) {
        tile.check(self.table.int8.rows);
        // SAFETY: the machine has the table's instructions, and the tile has just been checked.
        unsafe { (self.table.int8.tile)(&mut tile) };
    }

    /// Turns a row of states into 8-bit integers. `rotated` is as long as the row, `quantized` at least as long.
    pub(crate) fn quantize(
        &self,
        row: &[f32],
        layout: &StateLayout,
        rotated: &mut [f32],
        quantized: &mut [u8],
    ) -> RowScale {
        // SAFETY: the machine has the table's instructions.
        unsafe { (self.table.elementwise.quantize)(row, layout, rotated, quantized) }
    }

    pub(crate) fn activate(&self, activation: Activation, values: &mut [f32], layout: RowLayout) {
        let functions = &self.table.elementwise;
        let function = match activation {
            Activation::None => return,
            Activation::Gelu => functions.gelu,
            Activation::GeluTanh => functions.gelu_tanh,
            Activation::Relu => functions.relu,
        };
        // SAFETY: the machine has the table's instructions.
        unsafe { function(values, layout) };
    }

    /// As [`Self::activate`], and rounds the results to bf16. Rows of `rounded` are `stride` values apart. `values` are
    /// unspecified afterwards.
    pub(crate) fn activate_bf16(
        &self,
        activation: Activation,
        (values, layout): (&mut [f32], RowLayout),
        rounded: &mut [u16],
        stride: usize,
    ) {
        match (activation, self.table.elementwise.gelu_bf16) {
            (Activation::Gelu, Some(gelu_bf16)) => {
                // SAFETY: the machine has the table's instructions.
                unsafe { gelu_bf16(values, layout, rounded, stride) };
            }
            _ => {
                self.activate(activation, values, layout);
                self.round(values, layout, rounded, stride);
            }
        }
    }

    /// Rounds each value to bf16. Rows of `rounded` are `stride` values apart.
    pub(crate) fn round(
        &self,
        values: &[f32],
        layout: RowLayout,
        rounded: &mut [u16],
        stride: usize,
    ) {
        // SAFETY: the machine has the table's instructions.
        unsafe { (self.table.elementwise.round)(values, layout, rounded, stride) };
    }

    /// Applies an unnormalized softmax to each row of `values · scale`, and writes to `factors` what normalizes each
    /// row. See `elementwise::softmax`.
    pub(crate) fn softmax(
        &self,
        values: &mut [f32],
        layout: RowLayout,
        scale: f32,
        factors: &mut [f32],
    ) {
        // SAFETY: the machine has the table's instructions.
        unsafe { (self.table.elementwise.softmax)(values, layout, scale, factors) }
    }

    /// Turns scores into weights in bf16.
    pub(crate) fn weigh_bf16(&self, block: &mut ScoreBlock<'_>) {
        // SAFETY: the machine has the table's instructions.
        unsafe { (self.table.elementwise.weigh_bf16)(block) }
    }

    /// Transposes up to a panel of keys. See [`crate::keys::TransposeKeysFn`].
    pub(crate) fn transpose_keys(&self, states: &[u16], keys: RowLayout, packed: &mut [u16]) {
        // SAFETY: the machine has the table's instructions.
        unsafe { (self.table.transpose_keys)(states, keys, packed) }
    }

    /// Transposes keys into panels of pairs, as many as `packed` has room for. The padding of the last panel is unspecified: its
    /// scores are never read.
    pub(crate) fn pack_keys(&self, states: &[u16], keys: RowLayout, packed: &mut [u16]) {
        let panel_values = keys.width.div_ceil(2) * 2 * PANEL;
        for (panel, packed) in packed.chunks_exact_mut(panel_values).enumerate() {
            let first = panel * PANEL;
            let layout = RowLayout {
                rows: (keys.rows - first).min(PANEL),
                ..keys
            };
            self.transpose_keys(&states[first * keys.stride..], layout, packed);
        }
    }

    /// Multiplies each row by its factor.
    pub(crate) fn scale_rows(&self, values: &mut [f32], layout: RowLayout, factors: &[f32]) {
        // SAFETY: the machine has the table's instructions.
        unsafe { (self.table.elementwise.scale_rows)(values, layout, factors) };
    }
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels")
            .field("instruction_set", &self.instruction_set)
            .field("precision", &self.precision)
            .finish_non_exhaustive()
    }
}
