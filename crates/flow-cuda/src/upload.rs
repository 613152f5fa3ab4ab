//! Copies matrices to a device, in the format and with the strides that kernels expect.

use crate::convert::{to_bf16, to_f16};
use crate::gpu::GpuError;
use crate::kernel::GpuPrecision;
use crate::memory::{CudaStream, DeviceBuffer, StagingBuffer};

/// Rows are padded to a multiple of this number of values, so that each row is aligned to 16 bytes.
pub(crate) const ROW_ALIGN: usize = 8;

/// Bytes that are copied at once: enough to saturate the bus, and few beside the size of a model.
const CHUNK_BYTES: usize = 4 << 20;

/// Copies matrices to a device, on one stream.
#[derive(Debug)]
pub(crate) struct Uploader<'a> {
    pub(crate) stream: &'a CudaStream,
    pub(crate) staging: &'a mut StagingBuffer,
}

/// Values from the start of a row to the start of the next.
pub(crate) fn stride(columns: usize) -> usize {
    columns.next_multiple_of(ROW_ALIGN)
}

impl Uploader<'_> {
    /// Uploads a row-major matrix. Rows are padded with zeros.
    pub(crate) fn matrix(
        &mut self,
        values: &[f32],
        columns: usize,
        precision: GpuPrecision,
    ) -> Result<DeviceBuffer, GpuError> {
        let row_bytes = stride(columns) * precision.bytes();
        let buffer = DeviceBuffer::new(self.stream.gpu(), values.len() / columns * row_bytes)?;
        self.copy_rows(values, (columns, row_bytes), precision, &buffer)?;
        Ok(buffer)
    }

    /// Uploads 32-bit floats without conversion or padding.
    pub(crate) fn floats(&mut self, values: &[f32]) -> Result<DeviceBuffer, GpuError> {
        let buffer = DeviceBuffer::new(self.stream.gpu(), size_of_val(values))?;
        let columns = values.len().clamp(1, CHUNK_BYTES / size_of::<f32>());
        let row_bytes = columns * size_of::<f32>();
        self.copy_rows(values, (columns, row_bytes), GpuPrecision::F32, &buffer)?;
        Ok(buffer)
    }

    /// Converts and copies the rows, chunk by chunk. The last row may be shorter.
    fn copy_rows(
        &mut self,
        values: &[f32],
        (columns, row_bytes): (usize, usize),
        precision: GpuPrecision,
        to: &DeviceBuffer,
    ) -> Result<(), GpuError> {
        let chunk_rows = (CHUNK_BYTES / row_bytes).max(1);
        for (index, rows) in values.chunks(chunk_rows * columns).enumerate() {
            let start = index * chunk_rows * row_bytes;
            let padded = rows.len().div_ceil(columns) * row_bytes;
            let staging = self.staging.with_bytes(self.stream.gpu(), padded)?;
            let slots = staging.bytes_mut().chunks_mut(row_bytes);
            for (row, slot) in rows.chunks(columns).zip(slots) {
                convert_row(slot, row, precision);
            }
            let bytes = padded.min(to.bytes() - start);
            // SAFETY: neither side is used before the next line has waited for the copy.
            unsafe { self.stream.copy_to_device(to, start, staging, bytes)? };
            self.stream.synchronize()?;
        }
        Ok(())
    }
}

/// Converts a row to a format, and fills the rest of its slot with zeros.
fn convert_row(slot: &mut [u8], row: &[f32], precision: GpuPrecision) {
    let end = row.len() * precision.bytes();
    let (values, padding) = slot.split_at_mut(end);
    match precision {
        GpuPrecision::F32 | GpuPrecision::Tf32 => {
            for (bytes, value) in values.as_chunks_mut().0.iter_mut().zip(row) {
                *bytes = value.to_le_bytes();
            }
        }
        GpuPrecision::F16 => convert_halves(values, row, to_f16),
        GpuPrecision::Bf16 => convert_halves(values, row, to_bf16),
    }
    padding.fill(0);
}

fn convert_halves(slot: &mut [u8], row: &[f32], convert: impl Fn(f32) -> u16) {
    for (bytes, value) in slot.as_chunks_mut().0.iter_mut().zip(row) {
        *bytes = convert(*value).to_le_bytes();
    }
}
