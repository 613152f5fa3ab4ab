//! States as 8-bit integers, which are computed just before a product.

use std::cell::RefCell;
use std::ops::Range;

use crate::activations::Rows;
use crate::aligned::AlignedVec;
use crate::int8::{RowScale, StateLayout};
use crate::kernels::Kernels;

/// Alignment of rows, in bytes: a cache line.
const LINE: usize = 64;

/// Rows of 8-bit states, which a product reads.
#[derive(Debug, Default)]
pub(crate) struct QuantizedStates {
    pub(crate) values: AlignedVec<u8>,
    /// Bytes from one row to the next.
    pub(crate) stride: usize,
    pub(crate) scales: Vec<RowScale>,
    /// A row before it is rounded.
    rotated: Vec<f32>,
}

thread_local! {
    /// The states of the product that this thread computes.
    static BUFFER: RefCell<QuantizedStates> = RefCell::default();
}

/// Calls `work` with this thread's buffer.
pub(crate) fn with_buffer(work: impl FnOnce(&mut QuantizedStates)) {
    BUFFER.with_borrow_mut(work);
}

impl QuantizedStates {
    /// Quantizes some rows for a product.
    pub(crate) fn fill(
        &mut self,
        kernels: &Kernels,
        layout: &StateLayout,
        (states, rows): (&Rows<'_>, Range<usize>),
    ) {
        // A row of padding keeps rows apart in the L1 cache.
        self.stride = states.width.next_multiple_of(LINE) + LINE;
        self.values.grow(rows.len() * self.stride);
        self.rotated.resize(states.width, 0.0);
        self.scales.clear();
        for (row, values) in rows.zip(self.values.chunks_exact_mut(self.stride)) {
            let scale = kernels.quantize(states.row(row), layout, &mut self.rotated, values);
            self.scales.push(scale);
        }
    }
}
