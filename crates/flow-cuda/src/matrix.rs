//! Matrices and their products alone, for measuring devices and for testing kernels.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::gpu::{Gpu, GpuError};
use crate::kernel::Format;
use crate::memory::{Buffer, Staging, Stream};
use crate::convert::{from_bf16, from_f16};
use crate::launcher::{Activation, NOWHERE, Operations, Product};
use crate::upload::{Upload, stride};

/// A matrix in a device's memory, row after row. Dropping it waits for its multiplier.
#[derive(Debug)]
pub struct Matrix {
    stream: Arc<Stream>,
    buffer: Buffer,
    rows: usize,
    columns: usize,
    format: Format,
}

/// Multiplies matrices of one format on one queue of a device.
#[derive(Debug)]
pub struct Multiplier {
    stream: Arc<Stream>,
    staging: Mutex<Staging>,
    format: Format,
}

/// What follows a product.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// A row that is added to each row: 32-bit floats, whatever the format.
    pub bias: Option<&'a Matrix>,
    /// What is done then.
    pub activation: Activation,
    /// What is added after that.
    pub residual: Option<&'a Matrix>,
}

impl Multiplier {
    /// A queue for numbers of this format.
    ///
    /// # Errors
    ///
    /// If the device fails, or does not know the format.
    pub fn new(gpu: &Arc<dyn Gpu>, format: Format) -> Result<Self, GpuError> {
        crate::model::check_format(&**gpu, format)?;
        Ok(Self {
            stream: Arc::new(Stream::open(gpu)?),
            staging: Mutex::default(),
            format,
        })
    }

    /// A matrix of these values, row after row.
    ///
    /// # Errors
    ///
    /// If the device fails or has no room.
    ///
    /// # Panics
    ///
    /// If the values are not whole rows.
    pub fn matrix(&self, values: &[f32], columns: usize) -> Result<Matrix, GpuError> {
        self.matrix_as(values, columns, self.format)
    }

    /// A row for [`Epilogue::bias`].
    ///
    /// # Errors
    ///
    /// If the device fails or has no room.
    pub fn bias(&self, values: &[f32]) -> Result<Matrix, GpuError> {
        self.matrix_as(values, values.len(), Format::F32)
    }

    fn matrix_as(
        &self,
        values: &[f32],
        columns: usize,
        format: Format,
    ) -> Result<Matrix, GpuError> {
        assert!(values.len().is_multiple_of(columns), "whole rows");
        let mut upload = Upload {
            stream: &self.stream,
            staging: &mut self.staging(),
        };
        Ok(Matrix {
            stream: Arc::clone(&self.stream),
            buffer: upload.matrix(values, columns, format)?,
            rows: values.len() / columns,
            columns,
            format,
        })
    }

    /// Queues C = f(A × Bᵀ + bias) + residual, and returns at once.
    ///
    /// # Errors
    ///
    /// If the device fails.
    ///
    /// # Panics
    ///
    /// If the matrices do not go together, or are another multiplier's.
    pub fn multiply(
        &self,
        a: &Matrix,
        b: &Matrix,
        epilogue: Epilogue<'_>,
        c: &mut Matrix,
    ) -> Result<(), GpuError> {
        assert_eq!(a.columns, b.columns, "what is summed over");
        assert_eq!((c.rows, c.columns), (a.rows, b.rows), "room");
        for matrix in [a, b, c].into_iter().chain(epilogue.residual) {
            self.check(matrix, self.format);
        }
        let bias = epilogue.bias.map_or(NOWHERE, |bias| {
            self.check(bias, Format::F32);
            assert_eq!(bias.columns, c.columns, "bias");
            bias.buffer.address()
        });
        let residual = epilogue.residual.map_or(NOWHERE, |residual| {
            assert_eq!((residual.rows, residual.columns), (c.rows, c.columns));
            residual.buffer.address()
        });
        let product = Product {
            a: a.buffer.address(),
            b: b.buffer.address(),
            bias,
            residual,
            c: c.buffer.address(),
            rows: c.rows,
            columns: c.columns,
            depth: a.columns,
            a_stride: stride(a.columns),
            b_stride: stride(b.columns),
            c_stride: stride(c.columns),
            activation: epilogue.activation,
        };
        let operations = Operations {
            stream: &self.stream,
            format: self.format,
        };
        // SAFETY: the matrices are as long as their rows and columns say, which go together; each waits for the
        // stream when it is dropped.
        unsafe { operations.product(&product) }
    }

    fn staging(&self) -> MutexGuard<'_, Staging> {
        // What was copied is copied, whoever panicked then.
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, matrix: &Matrix, format: Format) {
        assert!(Arc::ptr_eq(&matrix.stream, &self.stream), "one multiplier");
        assert_eq!(matrix.format, format, "format");
    }

    /// Waits until all products are done.
    ///
    /// # Errors
    ///
    /// What went wrong with any of them.
    pub fn finish(&self) -> Result<(), GpuError> {
        self.stream.finish()
    }

    /// The values of a matrix, row after row, after all that is queued.
    ///
    /// # Errors
    ///
    /// What went wrong with any of it.
    ///
    /// # Panics
    ///
    /// If the matrix is another multiplier's.
    pub fn read(&self, matrix: &Matrix) -> Result<Vec<f32>, GpuError> {
        self.check(matrix, matrix.format);
        let (gpu, bytes) = (self.stream.gpu(), matrix.buffer.bytes());
        let mut staging = self.staging();
        let pinned = staging.of(gpu, bytes)?;
        // SAFETY: nobody touches either before the next line has waited.
        unsafe {
            self.stream.copy_out(pinned, &matrix.buffer, bytes)?;
        }
        self.stream.finish()?;
        let row_bytes = stride(matrix.columns) * matrix.format.bytes();
        let rows = pinned.bytes()[..bytes].chunks_exact(row_bytes);
        Ok(rows
            .flat_map(|row| floats(row, matrix.format).take(matrix.columns))
            .collect())
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // What went wrong is told to whoever waits for the product.
        if let Err(error) = self.stream.finish() {
            tracing::debug!(%error, "matrix dropped after an error");
        }
    }
}

fn floats(bytes: &[u8], format: Format) -> Box<dyn Iterator<Item = f32> + '_> {
    let halves = || bytes.as_chunks().0.iter().map(|it| u16::from_le_bytes(*it));
    match format {
        Format::F32 | Format::Tf32 => {
            let words = bytes.as_chunks().0.iter();
            Box::new(words.map(|it| f32::from_le_bytes(*it)))
        }
        Format::F16 => Box::new(halves().map(from_f16)),
        Format::Bf16 => Box::new(halves().map(from_bf16)),
    }
}
