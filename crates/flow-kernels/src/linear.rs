//! Linear layers: cuts a matrix product into tiles, and finishes each tile while it is in the L1 cache.

use std::ops::Range;

use crate::activation::Activation;
use crate::activations::{Rows, RowsMut};
use crate::aligned::AlignedVec;
use crate::int8::{Int8Tile, STEP};
use crate::kernels::Kernels;
use crate::packed::PackedWeights;
use crate::precision::CpuPrecision;
use crate::quantized_states::{QuantizedStates, with_buffer};
use crate::row_layout::RowLayout;
use crate::split::split_evenly;
use crate::tile::{PANEL, Tile, TileSums};

/// Bytes of states that are multiplied by one panel after another. They stay in the L2 cache, which has one or two
/// megabytes.
const BLOCK_BYTES: usize = 384 * 1024;

/// A linear layer with a fused activation: `activation(states · weightsᵀ + bias)`.
#[derive(Debug, Clone)]
pub struct Linear {
    weights: PackedWeights,
    /// The bias, padded with zeros to whole panels.
    bias: AlignedVec<f32>,
    activation: Activation,
}

impl Linear {
    /// Creates a layer from packed weights of `outputs × inputs` and a bias of `outputs` values.
    ///
    /// # Panics
    ///
    /// If the bias has another length.
    #[must_use]
    pub fn new(weights: PackedWeights, bias: &[f32], activation: Activation) -> Self {
        assert_eq!(bias.len(), weights.outputs(), "one bias per output");
        let mut panels = AlignedVec::zeros(weights.panels() * PANEL);
        panels[..bias.len()].copy_from_slice(bias);
        Self {
            weights,
            bias: panels,
            activation,
        }
    }

    /// The bias of a panel.
    fn bias(&self, panel: usize) -> &[f32; PANEL] {
        &self.bias.as_chunks().0[panel]
    }

    /// The packed weights.
    #[must_use]
    pub fn weights(&self) -> &PackedWeights {
        &self.weights
    }
}

/// Some rows that are multiplied by one panel after another.
struct Block<'a> {
    rows: Range<usize>,
    states: &'a Rows<'a>,
    /// The rows of the block as 8-bit integers, if the weights are.
    quantized: Option<&'a QuantizedStates>,
}

/// Where the sums of a tile go: `rows` rows, `stride` values apart.
struct Sums<'a> {
    /// The number of the tile among those of the panel.
    tile: usize,
    rows: Range<usize>,
    values: &'a mut [f32],
    stride: usize,
    /// Whether the 32-bit floats are part of the output.
    is_stored: bool,
}

impl Kernels {
    /// Applies the columns of `panels` of a layer to each row of `states`, and writes them to `out` from its first
    /// column on.
    ///
    /// `states` has shape `rows × inputs`, `out` has `rows` rows of at least [`PANEL`] values per panel. It is filled in
    /// every format that it stores.
    ///
    /// # Panics
    ///
    /// If the shapes do not fit, or the weights were packed for other kernels.
    pub fn linear(
        &self,
        layer: &Linear,
        panels: Range<usize>,
        states: Rows<'_>,
        out: &mut RowsMut<'_>,
    ) {
        let weights = &layer.weights;
        assert_eq!(states.width, weights.inputs(), "values of a state");
        assert_eq!(
            weights.columns(),
            self.columns(),
            "packed for other kernels"
        );
        assert_eq!(states.count, out.count, "number of rows");
        assert!(panels.end <= weights.panels(), "panels");
        assert!(panels.len() <= out.width.div_ceil(PANEL), "columns");
        let (tile_rows, _) = self.tile_rows();
        let block = (BLOCK_BYTES / (self.operand_bytes() * states.stride)).max(tile_rows);
        for rows in split_evenly(0..states.count, block, 1) {
            let mut run = |quantized: Option<&QuantizedStates>| {
                let block = Block {
                    rows: rows.clone(),
                    states: &states,
                    quantized,
                };
                self.linear_block(layer, panels.clone(), &block, out);
            };
            match weights.int8() {
                None => run(None),
                Some(int8) => with_buffer(|buffer| {
                    buffer.fill(self, &int8.states, (&states, rows.clone()));
                    run(Some(buffer));
                }),
            }
        }
        (self.table().finish)();
    }

    /// Bytes of a value that products read.
    fn operand_bytes(&self) -> usize {
        match self.precision() {
            CpuPrecision::F32 => 4,
            CpuPrecision::Bf16 => 2,
            CpuPrecision::Int8 => 1,
        }
    }

    /// Maximum rows of a tile, and the unit of its rows.
    fn tile_rows(&self) -> (usize, usize) {
        let table = self.table();
        match self.precision() {
            CpuPrecision::F32 => (table.f32.rows, table.f32.unit),
            CpuPrecision::Bf16 => (table.bf16.rows, table.bf16.unit),
            CpuPrecision::Int8 => (table.int8.rows, table.int8.unit),
        }
    }

    /// [`Kernels::linear`] for the rows of one block.
    fn linear_block(
        &self,
        layer: &Linear,
        panels: Range<usize>,
        block: &Block<'_>,
        out: &mut RowsMut<'_>,
    ) {
        let mut scratch = TileSums::ZEROS;
        let (rows_max, unit) = self.tile_rows();
        for (column, panel) in panels.enumerate() {
            let tiles = split_evenly(block.rows.clone(), rows_max, unit);
            for (tile, rows) in tiles.enumerate() {
                let start = rows.start * out.stride + column * PANEL;
                // Where 32-bit floats are stored, tiles write them in place.
                let is_stored = !out.f32s.is_empty();
                let (values, stride) = if is_stored {
                    (&mut out.f32s[start..], out.stride)
                } else {
                    (&mut scratch.0[..], PANEL)
                };
                let mut sums = Sums {
                    tile,
                    rows,
                    values,
                    stride,
                    is_stored,
                };
                self.multiply(layer, panel, block, &mut sums);
                let stores_bf16 = !out.bf16s.is_empty();
                let bf16s = stores_bf16.then(|| (&mut out.bf16s[start..], out.stride));
                self.activate_tile(layer.activation, &mut sums, bf16s);
            }
        }
    }

    /// Applies the activation to a tile, and rounds it to bf16 if `bf16s` is given.
    fn activate_tile(
        &self,
        activation: Activation,
        sums: &mut Sums<'_>,
        bf16s: Option<(&mut [u16], usize)>,
    ) {
        let layout = RowLayout {
            rows: sums.rows.len(),
            width: PANEL,
            stride: sums.stride,
        };
        match bf16s {
            Some((bf16s, stride)) if !sums.is_stored => {
                self.activate_bf16(activation, (sums.values, layout), bf16s, stride);
            }
            Some((bf16s, stride)) => {
                self.activate(activation, sums.values, layout);
                self.round(sums.values, layout, bf16s, stride);
            }
            None => self.activate(activation, sums.values, layout),
        }
    }

    /// Multiplies the rows of one tile by one panel, and adds the bias.
    fn multiply(&self, layer: &Linear, panel: usize, block: &Block<'_>, sums: &mut Sums<'_>) {
        if let Some(quantized) = block.quantized {
            return self.multiply_int8(layer, panel, (quantized, block.rows.start), sums);
        }
        let states = block.states;
        let start = sums.rows.start * states.stride;
        let bias = layer.bias(panel);
        let columns = layer.weights.columns();
        let half = |k| half_distance(k, columns);
        if let Some(b) = layer.weights.panel_f32(panel) {
            let k = layer.weights.inputs();
            self.tile_f32(Tile {
                rows: sums.rows.len(),
                k,
                a: &states.f32s[start..],
                a_stride: states.stride,
                b,
                b_stride: columns,
                b_half: half(k),
                c: sums.values,
                c_stride: sums.stride,
                bias,
                ahead: Some(sums.tile),
            });
        } else if let Some(b) = layer.weights.panel_bf16(panel) {
            let k = layer.weights.inputs().div_ceil(2);
            self.tile_bf16(Tile {
                rows: sums.rows.len(),
                k,
                a: &states.bf16s[start..],
                a_stride: states.stride,
                b,
                b_stride: 2 * columns,
                b_half: 2 * half(k),
                c: sums.values,
                c_stride: sums.stride,
                bias,
                ahead: Some(sums.tile),
            });
        }
    }

    /// [`Self::multiply`] for 8-bit integers. The first of the quantized states is row `first`.
    fn multiply_int8(
        &self,
        layer: &Linear,
        panel: usize,
        (states, first): (&QuantizedStates, usize),
        sums: &mut Sums<'_>,
    ) {
        let Some(int8) = layer.weights.int8() else {
            return;
        };
        let (row, columns) = (sums.rows.start - first, layer.weights.columns());
        let k = layer.weights.inputs().div_ceil(STEP);
        let bytes = k * STEP * PANEL;
        self.tile_int8(Int8Tile {
            rows: sums.rows.len(),
            k,
            a: &states.values[row * states.stride..],
            a_stride: states.stride,
            row_scales: &states.scales[row..],
            b: &int8.values[panel * bytes..][..bytes],
            b_stride: STEP * columns,
            b_half: STEP * half_distance(k, columns),
            columns: &int8.columns[panel],
            c: sums.values,
            c_stride: sums.stride,
            bias: layer.bias(panel),
            ahead: Some(sums.tile),
        });
    }
}

/// Columns of `k` steps from the first half of a panel to its second half, which is in the same row, or behind the first halves
/// of all rows.
fn half_distance(k: usize, columns: usize) -> usize {
    if columns == PANEL {
        PANEL / 2
    } else {
        k * columns
    }
}
