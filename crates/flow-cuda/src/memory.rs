//! Memory and queues that give themselves back.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::gpu::{Address, Gpu, GpuError, Launch, Queue};

/// Memory of a device's.
///
/// Whoever drops it sees to it that nothing that is queued uses it: the queues that do are finished first.
pub(crate) struct Buffer {
    gpu: Arc<dyn Gpu>,
    address: Address,
    bytes: usize,
}

/// Memory of the machine's that a device copies from and to. The same holds when it is dropped.
pub(crate) struct Pinned {
    gpu: Arc<dyn Gpu>,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Pinned {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for Pinned {}

/// Such memory that grows and is used again: making it takes longer than most copies.
#[derive(Debug, Default)]
pub(crate) struct Staging(Option<Pinned>);

/// A queue of a device. Dropping it waits for what is in it.
pub(crate) struct Stream {
    gpu: Arc<dyn Gpu>,
    queue: Queue,
}

impl Buffer {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self {
            address: gpu.allocate(bytes)?,
            gpu: Arc::clone(gpu),
            bytes,
        })
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// The place so many bytes on.
    pub(crate) fn at(&self, offset: usize) -> Address {
        assert!(offset <= self.bytes, "a place within the buffer");
        Address(self.address.0 + offset as u64)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Pinned {
    pub(crate) fn new(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self {
            memory: gpu.allocate_pinned(bytes)?,
            gpu: Arc::clone(gpu),
            bytes,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes were allocated, as zeros, and nobody else writes them: copies to them are
        // awaited before anything else is done (see `Stream::copy_out`).
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference is unique.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.bytes) }
    }
}

impl Staging {
    /// So many bytes or more.
    pub(crate) fn of(&mut self, gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<&mut Pinned, GpuError> {
        if self.0.as_ref().is_none_or(|it| it.bytes < bytes) {
            // The old one goes first, so that there is never room for both.
            self.0 = None;
            self.0 = Some(Pinned::new(gpu, with_reserve(bytes))?);
        }
        Ok(self.0.as_mut().expect("made above"))
    }
}

/// Up to a quarter more, so that sizes that differ a little need no new memory each.
pub(crate) fn with_reserve(bytes: usize) -> usize {
    const LEAST: usize = 4096;
    bytes.next_multiple_of((bytes / 8).next_power_of_two().max(LEAST))
}

impl Stream {
    pub(crate) fn open(gpu: &Arc<dyn Gpu>) -> Result<Self, GpuError> {
        Ok(Self {
            queue: gpu.open_queue()?,
            gpu: Arc::clone(gpu),
        })
    }

    pub(crate) fn gpu(&self) -> &Arc<dyn Gpu> {
        &self.gpu
    }

    /// Queues a copy of the first `bytes` bytes.
    ///
    /// # Safety
    ///
    /// Neither place is changed, read or dropped before [`Self::finish`].
    pub(crate) unsafe fn copy_in(
        &self,
        to: &Buffer,
        offset: usize,
        from: &Pinned,
        bytes: usize,
    ) -> Result<(), GpuError> {
        assert!(
            offset + bytes <= to.bytes && bytes <= from.bytes,
            "room for the copy"
        );
        // SAFETY: both are long enough; the caller leaves them alone.
        unsafe {
            self.gpu
                .copy_in(self.queue, to.at(offset), from.memory, bytes)
        }
    }

    /// Queues a copy of the first `bytes` bytes.
    ///
    /// # Safety
    ///
    /// Neither place is changed, read or dropped before [`Self::finish`].
    pub(crate) unsafe fn copy_out(
        &self,
        to: &mut Pinned,
        from: &Buffer,
        bytes: usize,
    ) -> Result<(), GpuError> {
        assert!(
            bytes <= to.bytes && bytes <= from.bytes,
            "room for the copy"
        );
        // SAFETY: both are long enough; the caller leaves them alone.
        unsafe {
            self.gpu
                .copy_out(self.queue, to.memory, from.address, bytes)
        }
    }

    /// Queues a kernel.
    ///
    /// # Safety
    ///
    /// The parameters are the kernel's, and the memory that they name is as long as they say and is not
    /// dropped before [`Self::finish`].
    pub(crate) unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), GpuError> {
        // SAFETY: what the caller promises.
        unsafe { self.gpu.launch(self.queue, launch) }
    }

    /// Waits until all is done.
    pub(crate) fn finish(&self) -> Result<(), GpuError> {
        self.gpu.finish(self.queue)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated by this device, and nothing uses it any more (see the type).
        unsafe { self.gpu.free(self.address) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it was allocated by this device, and nothing uses it any more (see the type).
        unsafe { self.gpu.free_pinned(self.memory) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What went wrong was told to whoever waited for it, or nobody wants it any more.
        if let Err(error) = self.finish() {
            tracing::debug!(%error, "queue closed after an error");
        }
        // SAFETY: it was opened by this device, and nothing is in it.
        unsafe { self.gpu.close_queue(self.queue) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} bytes)", self.bytes)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.queue)
    }
}
