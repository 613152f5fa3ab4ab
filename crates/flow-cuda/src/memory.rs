//! Memory and streams that are released when they are dropped.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::gpu::{DeviceAddress, Gpu, GpuError, KernelLaunch, StreamHandle};

/// Memory of a device.
///
/// It must not be dropped while queued work uses it: the streams of that work must be synchronized first.
pub(crate) struct DeviceBuffer {
    gpu: Arc<dyn Gpu>,
    address: DeviceAddress,
    bytes: usize,
}

/// Pinned host memory, which a device copies asynchronously. The same rule applies as for [`DeviceBuffer`].
pub(crate) struct PinnedBuffer {
    gpu: Arc<dyn Gpu>,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for PinnedBuffer {}
// SAFETY: a shared reference allows reading only.
unsafe impl Sync for PinnedBuffer {}

/// Pinned host memory that grows on demand and is reused: allocating it takes longer than most copies.
#[derive(Debug, Default)]
pub(crate) struct StagingBuffer(Option<PinnedBuffer>);

/// A stream of a device. Dropping it waits for its queued work.
pub(crate) struct CudaStream {
    gpu: Arc<dyn Gpu>,
    handle: StreamHandle,
}

impl DeviceBuffer {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self {
            address: gpu.allocate(bytes)?,
            gpu: Arc::clone(gpu),
            bytes,
        })
    }

    pub(crate) fn address(&self) -> DeviceAddress {
        self.address
    }

    /// The address at an offset in bytes.
    pub(crate) fn at(&self, offset: usize) -> DeviceAddress {
        assert!(offset <= self.bytes, "offset within the buffer");
        DeviceAddress(self.address.0 + offset as u64)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl PinnedBuffer {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self {
            memory: gpu.allocate_pinned(bytes)?,
            gpu: Arc::clone(gpu),
            bytes,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `bytes` bytes were allocated and zeroed. Only copies of the device write them, and callers wait for a
        // copy before they do anything else (see `CudaStream::copy_from_device`).
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference is unique.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.bytes) }
    }
}

impl StagingBuffer {
    /// The buffer, with at least `bytes` bytes.
    pub(crate) fn with_bytes(
        &mut self,
        gpu: &Arc<dyn Gpu>,
        bytes: usize,
    ) -> Result<&mut PinnedBuffer, GpuError> {
        if self.0.as_ref().is_none_or(|buffer| buffer.bytes < bytes) {
            // The old buffer is freed first, so that both never exist at once.
            self.0 = None;
            self.0 = Some(PinnedBuffer::new(gpu, with_reserve(bytes))?);
        }
        Ok(self.0.as_mut().expect("allocated above"))
    }
}

/// Adds up to a quarter to a size, so that slightly different sizes do not each need a new allocation.
pub(crate) fn with_reserve(bytes: usize) -> usize {
    const GRANULARITY_MIN: usize = 4096;
    bytes.next_multiple_of((bytes / 8).next_power_of_two().max(GRANULARITY_MIN))
}

impl CudaStream {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>) -> Result<Self, GpuError> {
        Ok(Self {
            handle: gpu.create_stream()?,
            gpu: Arc::clone(gpu),
        })
    }

    pub(crate) fn gpu(&self) -> &Arc<dyn Gpu> {
        &self.gpu
    }

    /// Queues a copy of the first `bytes` bytes of `from` to an offset of `to`.
    ///
    /// # Safety
    ///
    /// Neither side may be changed, read or dropped before [`Self::synchronize`].
    pub(crate) unsafe fn copy_to_device(
        &self,
        to: &DeviceBuffer,
        offset: usize,
        from: &PinnedBuffer,
        bytes: usize,
    ) -> Result<(), GpuError> {
        assert!(
            offset + bytes <= to.bytes && bytes <= from.bytes,
            "size of the buffers"
        );
        // SAFETY: both sides are long enough, and the caller does not use them.
        unsafe {
            self.gpu
                .copy_to_device(self.handle, to.at(offset), from.memory, bytes)
        }
    }

    /// Queues a copy of the first `bytes` bytes.
    ///
    /// # Safety
    ///
    /// Neither side may be changed, read or dropped before [`Self::synchronize`].
    pub(crate) unsafe fn copy_from_device(
        &self,
        to: &mut PinnedBuffer,
        from: &DeviceBuffer,
        bytes: usize,
    ) -> Result<(), GpuError> {
        assert!(
            bytes <= to.bytes && bytes <= from.bytes,
            "size of the buffers"
        );
        // SAFETY: both sides are long enough, and the caller does not use them.
        unsafe {
            self.gpu
                .copy_from_device(self.handle, to.memory, from.address, bytes)
        }
    }

    /// Queues a kernel.
    ///
    /// # Safety
    ///
    /// The parameters must be those of the kernel. The memory that they refer to must be as long as they say, and must
    /// not be dropped before [`Self::synchronize`].
    pub(crate) unsafe fn launch(&self, launch: &KernelLaunch<'_>) -> Result<(), GpuError> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.gpu.launch(self.handle, launch) }
    }

    /// Waits until all queued work is done.
    pub(crate) fn synchronize(&self) -> Result<(), GpuError> {
        self.gpu.synchronize(self.handle)
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: this device allocated it, and no queued work uses it (see the type).
        unsafe { self.gpu.free(self.address) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // SAFETY: this device allocated it, and no queued work uses it (see the type).
        unsafe { self.gpu.free_pinned(self.memory) }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        // The error was returned to the caller that waited for the work, if there was one.
        if let Err(error) = self.synchronize() {
            tracing::debug!(%error, "stream destroyed after an error");
        }
        // SAFETY: this device created it, and its work is done.
        unsafe { self.gpu.destroy_stream(self.handle) }
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({} bytes)", self.bytes)
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({} bytes)", self.bytes)
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaStream({:?})", self.handle)
    }
}
