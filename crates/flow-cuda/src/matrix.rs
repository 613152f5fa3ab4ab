//! Matrices and their products on a device, for benchmarks and for tests of the kernels.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::convert::{from_bf16, from_f16};
use crate::gpu::{Gpu, GpuError};
use crate::kernel::GpuPrecision;
use crate::launcher::{Activation, KernelLauncher, MatmulParams, NULL};
use crate::memory::{CudaStream, DeviceBuffer, StagingBuffer};
use crate::upload::{Uploader, stride};

/// A row-major matrix in a device's memory. Dropping it waits for its multiplier.
#[derive(Debug)]
pub struct DeviceMatrix {
    stream: Arc<CudaStream>,
    buffer: DeviceBuffer,
    rows: usize,
    columns: usize,
    precision: GpuPrecision,
}

/// Multiplies matrices of one precision on one stream.
#[derive(Debug)]
pub struct MatrixMultiplier {
    stream: Arc<CudaStream>,
    staging: Mutex<StagingBuffer>,
    precision: GpuPrecision,
}

/// What is applied to the sums of a matrix product.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// A row that is added to each row, in 32-bit floats.
    pub bias: Option<&'a DeviceMatrix>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Added after the activation.
    pub residual: Option<&'a DeviceMatrix>,
}

impl MatrixMultiplier {
    /// Creates a multiplier with a stream of its own.
    ///
    /// # Errors
    ///
    /// If the device fails, or does not support the precision.
    pub fn new(gpu: &Arc<dyn Gpu>, precision: GpuPrecision) -> Result<Self, GpuError> {
        crate::model::check_precision(&**gpu, precision)?;
        Ok(Self {
            stream: Arc::new(CudaStream::new(gpu)?),
            staging: Mutex::default(),
            precision,
        })
    }

    /// Uploads a row-major matrix.
    ///
    /// # Errors
    ///
    /// If the device fails or has too little memory.
    ///
    /// # Panics
    ///
    /// If the number of values is not a multiple of `columns`.
    pub fn matrix(&self, values: &[f32], columns: usize) -> Result<DeviceMatrix, GpuError> {
        self.upload(values, columns, self.precision)
    }

    /// Uploads a row for [`Epilogue::bias`].
    ///
    /// # Errors
    ///
    /// If the device fails or has too little memory.
    pub fn bias(&self, values: &[f32]) -> Result<DeviceMatrix, GpuError> {
        self.upload(values, values.len(), GpuPrecision::F32)
    }

    fn upload(
        &self,
        values: &[f32],
        columns: usize,
        precision: GpuPrecision,
    ) -> Result<DeviceMatrix, GpuError> {
        assert!(values.len().is_multiple_of(columns), "whole rows");
        let mut uploader = Uploader {
            stream: &self.stream,
            staging: &mut self.staging(),
        };
        Ok(DeviceMatrix {
            stream: Arc::clone(&self.stream),
            buffer: uploader.matrix(values, columns, precision)?,
            rows: values.len() / columns,
            columns,
            precision,
        })
    }

    /// Queues `C = activation(A × Bᵀ + bias) + residual`, and returns at once.
    ///
    /// # Errors
    ///
    /// If the device fails.
    ///
    /// # Panics
    ///
    /// If the shapes do not fit, or a matrix belongs to another multiplier.
    pub fn multiply(
        &self,
        a: &DeviceMatrix,
        b: &DeviceMatrix,
        epilogue: Epilogue<'_>,
        c: &mut DeviceMatrix,
    ) -> Result<(), GpuError> {
        assert_eq!(a.columns, b.columns, "columns of A and B");
        assert_eq!((c.rows, c.columns), (a.rows, b.rows), "shape of C");
        for matrix in [a, b, c].into_iter().chain(epilogue.residual) {
            self.check(matrix, self.precision);
        }
        let bias = epilogue.bias.map_or(NULL, |bias| {
            self.check(bias, GpuPrecision::F32);
            assert_eq!(bias.columns, c.columns, "columns of the bias");
            bias.buffer.address()
        });
        let residual = epilogue.residual.map_or(NULL, |residual| {
            assert_eq!((residual.rows, residual.columns), (c.rows, c.columns));
            residual.buffer.address()
        });
        let params = MatmulParams {
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
        let launcher = KernelLauncher {
            stream: &self.stream,
            precision: self.precision,
        };
        // SAFETY: the buffers are as long as the rows and columns say, whose shapes fit. Each matrix waits for the stream
        // when it is dropped.
        unsafe { launcher.matmul(&params) }
    }

    fn staging(&self) -> MutexGuard<'_, StagingBuffer> {
        // Its content is rewritten before each use, so it does not matter whether a thread has panicked.
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, matrix: &DeviceMatrix, precision: GpuPrecision) {
        assert!(
            Arc::ptr_eq(&matrix.stream, &self.stream),
            "matrix of another multiplier"
        );
        assert_eq!(matrix.precision, precision, "precision");
    }

    /// Waits until all products are done.
    ///
    /// # Errors
    ///
    /// If one of them failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.stream.synchronize()
    }

    /// Downloads a matrix, row-major, after all queued work is done.
    ///
    /// # Errors
    ///
    /// If any of that work failed.
    ///
    /// # Panics
    ///
    /// If the matrix belongs to another multiplier.
    pub fn read(&self, matrix: &DeviceMatrix) -> Result<Vec<f32>, GpuError> {
        self.check(matrix, matrix.precision);
        let (gpu, bytes) = (self.stream.gpu(), matrix.buffer.bytes());
        let mut staging = self.staging();
        let pinned = staging.with_bytes(gpu, bytes)?;
        // SAFETY: neither side is used before the next line has waited.
        unsafe {
            self.stream
                .copy_from_device(pinned, &matrix.buffer, bytes)?;
        }
        self.stream.synchronize()?;
        let row_bytes = stride(matrix.columns) * matrix.precision.bytes();
        let rows = pinned.bytes()[..bytes].chunks_exact(row_bytes);
        Ok(rows
            .flat_map(|row| floats(row, matrix.precision).take(matrix.columns))
            .collect())
    }
}

impl Drop for DeviceMatrix {
    fn drop(&mut self) {
        // The error is returned to the caller that waits for the product.
        if let Err(error) = self.stream.synchronize() {
            tracing::debug!(%error, "matrix dropped after an error");
        }
    }
}

fn floats(bytes: &[u8], precision: GpuPrecision) -> Box<dyn Iterator<Item = f32> + '_> {
    let halves = || {
        let halves = bytes.as_chunks().0.iter();
        halves.map(|half| u16::from_le_bytes(*half))
    };
    match precision {
        GpuPrecision::F32 | GpuPrecision::Tf32 => {
            let words = bytes.as_chunks().0.iter();
            Box::new(words.map(|word| f32::from_le_bytes(*word)))
        }
        GpuPrecision::F16 => Box::new(halves().map(from_f16)),
        GpuPrecision::Bf16 => Box::new(halves().map(from_bf16)),
    }
}
