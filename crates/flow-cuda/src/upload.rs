//! Brings numbers to a device, in the format and the strides that kernels want.

use crate::gpu::GpuError;
use crate::kernel::Format;
use crate::memory::{Buffer, Staging, Stream};
use crate::numbers::{to_bf16, to_f16};

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
        let rows = values.len() / columns;
        let row_bytes = stride(columns) * format.bytes();
        let buffer = Buffer::new(self.stream.gpu(), rows * row_bytes)?;
        let mut bytes = Vec::with_capacity(row_bytes * rows);
        for row in values.chunks_exact(columns) {
            let end = bytes.len() + row_bytes;
            row.iter()
                .for_each(|value| push(&mut bytes, *value, format));
            bytes.resize(end, 0);
        }
        self.copy(&bytes, &buffer)?;
        Ok(buffer)
    }

    /// 32-bit floats as they are.
    pub(crate) fn floats(&mut self, values: &[f32]) -> Result<Buffer, GpuError> {
        let buffer = Buffer::new(self.stream.gpu(), size_of_val(values))?;
        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.copy(&bytes, &buffer)?;
        Ok(buffer)
    }

    fn copy(&mut self, bytes: &[u8], to: &Buffer) -> Result<(), GpuError> {
        let bytes_max = bytes.len().min(PIECE_BYTES);
        let staging = self.staging.of(self.stream.gpu(), bytes_max)?;
        for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            staging.bytes_mut()[..piece.len()].copy_from_slice(piece);
            // SAFETY: nobody touches either before the copy is done, which the next line waits for.
            unsafe {
                self.stream
                    .copy_in(to, number * PIECE_BYTES, staging, piece.len())?;
            }
            self.stream.finish()?;
        }
        Ok(())
    }
}

fn push(bytes: &mut Vec<u8>, value: f32, format: Format) {
    match format {
        Format::F32 | Format::Tf32 => bytes.extend(value.to_le_bytes()),
        Format::F16 => bytes.extend(to_f16(value).to_le_bytes()),
        Format::Bf16 => bytes.extend(to_bf16(value).to_le_bytes()),
    }
}
