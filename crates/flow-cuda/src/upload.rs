//! Brings numbers to a device, in the format and the strides that kernels want.

use crate::gpu::GpuError;
use crate::kernel::Format;
use crate::memory::{Buffer, Staging, Stream};
use crate::convert::{to_bf16, to_f16};

/// Numbers of a row are filled up to a multiple of so many, so that each row begins at 16 bytes.
pub(crate) const STRIDE: usize = 8;

/// Bytes that are copied at once: enough for the device's bus, few enough to be nothing beside a model.
const PIECE_BYTES: usize = 4 << 20;

/// One way to a device.
#[derive(Debug)]
pub(crate) struct Upload<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) staging: &'a mut Staging,
}

/// From one row to the next.
pub(crate) fn stride(columns: usize) -> usize {
    columns.next_multiple_of(STRIDE)
}

impl Upload<'_> {
    /// A matrix of rows of `columns` values, each filled up with zeros.
    pub(crate) fn matrix(
        &mut self,
        values: &[f32],
        columns: usize,
        format: Format,
    ) -> Result<Buffer, GpuError> {
        let row_bytes = stride(columns) * format.bytes();
        let buffer = Buffer::new(self.stream.gpu(), values.len() / columns * row_bytes)?;
        self.rows(values, (columns, row_bytes), format, &buffer)?;
        Ok(buffer)
    }

    /// 32-bit floats as they are.
    pub(crate) fn floats(&mut self, values: &[f32]) -> Result<Buffer, GpuError> {
        let buffer = Buffer::new(self.stream.gpu(), size_of_val(values))?;
        let columns = values.len().clamp(1, PIECE_BYTES / size_of::<f32>());
        let row_bytes = columns * size_of::<f32>();
        self.rows(values, (columns, row_bytes), Format::F32, &buffer)?;
        Ok(buffer)
    }

    /// Piece by piece, each in its format only when its turn has come. The last row may be shorter.
    fn rows(
        &mut self,
        values: &[f32],
        (columns, row_bytes): (usize, usize),
        format: Format,
        to: &Buffer,
    ) -> Result<(), GpuError> {
        let each = (PIECE_BYTES / row_bytes).max(1);
        for (number, rows) in values.chunks(each * columns).enumerate() {
            let start = number * each * row_bytes;
            let whole = rows.len().div_ceil(columns) * row_bytes;
            let staging = self.staging.of(self.stream.gpu(), whole)?;
            let places = staging.bytes_mut().chunks_mut(row_bytes);
            for (row, place) in rows.chunks(columns).zip(places) {
                fill(place, row, format);
            }
            let bytes = whole.min(to.bytes() - start);
            // SAFETY: nobody touches either before the copy is done, which the next line waits for.
            unsafe { self.stream.copy_in(to, start, staging, bytes)? };
            self.stream.finish()?;
        }
        Ok(())
    }
}

/// Puts a row into its place, and zeros behind it.
fn fill(place: &mut [u8], row: &[f32], format: Format) {
    let end = row.len() * format.bytes();
    let (values, rest) = place.split_at_mut(end);
    match format {
        Format::F32 | Format::Tf32 => {
            for (bytes, value) in values.as_chunks_mut().0.iter_mut().zip(row) {
                *bytes = value.to_le_bytes();
            }
        }
        Format::F16 => fill_halves(values, row, to_f16),
        Format::Bf16 => fill_halves(values, row, to_bf16),
    }
    rest.fill(0);
}

fn fill_halves(place: &mut [u8], row: &[f32], half: impl Fn(f32) -> u16) {
    for (bytes, value) in place.as_chunks_mut().0.iter_mut().zip(row) {
        *bytes = half(*value).to_le_bytes();
    }
}
