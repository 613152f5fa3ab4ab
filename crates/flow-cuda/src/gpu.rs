//! What an encoder needs of a GPU.
//!
//! A GPU has memory, which is identified by address, and streams. Work that is queued on one stream runs in order, while
//! the caller continues; work on two streams may run at the same time. All functions may be called from any thread.

use std::fmt;
use std::ptr::NonNull;

use crate::kernel::Kernel;

/// An address in a GPU's memory, as kernels see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DeviceAddress(pub u64);

/// The identifier of a stream. Its meaning is up to the implementation of [`Gpu`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamHandle(pub u64);

/// NVIDIA's compute capability of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// The generation: 7 for Turing, 8 for Ampere and Ada, 9 for Hopper.
    pub major: u32,
    /// The revision within the generation.
    pub minor: u32,
}

/// The memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free bytes.
    pub free: usize,
    /// Total bytes.
    pub total: usize,
}

/// A launch of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct KernelLaunch<'a> {
    /// The kernel.
    pub kernel: Kernel,
    /// Number of blocks, by x and y.
    pub grid: [u32; 2],
    /// Number of threads of a block, all along x.
    pub block: u32,
    /// The kernel's only parameter, a structure passed by value, as 8-byte words.
    pub parameters: &'a [u64],
}

/// A GPU that runs the kernels of this crate.
///
/// An implementation loads all kernels of [`Kernel::all`] that it can before it is used. It must not panic if the device
/// fails, but return an error.
///
/// # Safety
///
/// Allocated memory must have at least the requested length, must be aligned to 256 bytes (16 for pinned memory), and must
/// belong to the caller alone until it is freed.
pub unsafe trait Gpu: fmt::Debug + Send + Sync {
    /// Name of the GPU.
    fn name(&self) -> String;

    /// Its UUID, by which other programs know it. `None` if it is not a real GPU.
    fn uuid(&self) -> Option<String> {
        None
    }

    /// Its compute capability.
    fn capability(&self) -> Capability;

    /// Its number of multiprocessors.
    fn multiprocessors(&self) -> u32;

    /// Its free and total memory.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn memory(&self) -> Result<MemoryInfo, GpuError>;

    /// Allocates memory of the GPU.
    ///
    /// # Errors
    ///
    /// [`GpuError::OutOfMemory`] if too little is free, or another error if the device fails.
    fn allocate(&self, bytes: usize) -> Result<DeviceAddress, GpuError>;

    /// Frees memory of the GPU. Errors are ignored.
    ///
    /// # Safety
    ///
    /// The address must come from [`Self::allocate`] and must not have been freed, and no queued work may use it.
    unsafe fn free(&self, address: DeviceAddress);

    /// Allocates pinned host memory, which the GPU can copy asynchronously. It is filled with zeros.
    ///
    /// # Errors
    ///
    /// [`GpuError::OutOfMemory`] if there is too little, or another error if the device fails.
    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>, GpuError>;

    /// Frees pinned host memory. Errors are ignored.
    ///
    /// # Safety
    ///
    /// The memory must come from [`Self::allocate_pinned`] and must not have been freed, and no queued work may use it.
    unsafe fn free_pinned(&self, memory: NonNull<u8>);

    /// Creates a stream.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn create_stream(&self) -> Result<StreamHandle, GpuError>;

    /// Destroys a stream.
    ///
    /// # Safety
    ///
    /// The stream must come from [`Self::create_stream`], must not have been destroyed, and must have no queued work.
    unsafe fn destroy_stream(&self, stream: StreamHandle);

    /// Queues a copy from pinned host memory to the GPU.
    ///
    /// # Errors
    ///
    /// If the device fails. Some errors are reported by a later call.
    ///
    /// # Safety
    ///
    /// Both sides must have `bytes` bytes, and must not be changed or freed until the copy is done.
    unsafe fn copy_to_device(
        &self,
        stream: StreamHandle,
        to: DeviceAddress,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError>;

    /// Queues a copy from the GPU to pinned host memory.
    ///
    /// # Errors
    ///
    /// If the device fails. Some errors are reported by a later call.
    ///
    /// # Safety
    ///
    /// Both sides must have `bytes` bytes, and must not be used or freed until the copy is done.
    unsafe fn copy_from_device(
        &self,
        stream: StreamHandle,
        to: NonNull<u8>,
        from: DeviceAddress,
        bytes: usize,
    ) -> Result<(), GpuError>;

    /// Queues a kernel.
    ///
    /// # Errors
    ///
    /// If the device fails. Some errors are reported by a later call.
    ///
    /// # Safety
    ///
    /// The parameters must be the structure that the kernel takes. The memory that they refer to must be as long as they
    /// say, and must not be freed until the kernel is done.
    unsafe fn launch(
        &self,
        stream: StreamHandle,
        launch: &KernelLaunch<'_>,
    ) -> Result<(), GpuError>;

    /// Waits until all queued work of a stream is done. The thread sleeps meanwhile.
    ///
    /// # Errors
    ///
    /// If any of that work failed.
    fn synchronize(&self, stream: StreamHandle) -> Result<(), GpuError>;
}

/// A GPU failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// Too little memory is free. A smaller allocation may succeed.
    #[error("the GPU has no room for {bytes} more bytes")]
    OutOfMemory {
        /// The requested bytes.
        bytes: usize,
    },
    /// The device or this program does not support the request.
    #[error("{0}")]
    Unsupported(String),
    /// Only a new process can use the device again.
    #[error("the GPU is lost to this process: `{call}` says {reason}")]
    Lost {
        /// The driver's function.
        call: &'static str,
        /// Its error.
        reason: String,
    },
    /// A call failed. The device remains usable.
    #[error("`{call}` says {reason}")]
    Failed {
        /// The driver's function.
        call: &'static str,
        /// Its error.
        reason: String,
    },
}

impl GpuError {
    /// Whether only a new process can use the device again.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
