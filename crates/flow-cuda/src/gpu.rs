//! What the engine needs of a device, and nothing more.
//!
//! A device has memory that is known by address, and queues: what is put into one is done in order, while
//! the caller goes on; what is in two may be done at the same time. Everything of a device may be used from any
//! thread.

use std::fmt;
use std::ptr::NonNull;

use crate::kernel::Kernel;

/// A place in a device's memory; also the address that kernels see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Address(pub u64);

/// A queue of one device, by whatever number the device knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queue(pub u64);

/// What a device's processors can do, as NVIDIA counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// 7 for Turing, 8 for Ampere and Ada, 9 for Hopper.
    pub major: u32,
    /// What came later within that.
    pub minor: u32,
}

/// How much memory a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that nobody uses.
    pub free: usize,
    /// Bytes that there are.
    pub total: usize,
}

/// A kernel to run.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Which.
    pub kernel: Kernel,
    /// How many blocks, by x and y.
    pub grid: [u32; 2],
    /// How many threads a block has, all along x.
    pub block: u32,
    /// The kernel's one parameter, a structure that it takes by value: so many words of 8 bytes as it is
    /// long.
    pub parameters: &'a [u64],
}

/// A device that kernels run on.
///
/// An implementation loads each kernel of [`Kernel::all`] that it can before it is used. It may not panic
/// where a device fails: that is an error.
///
/// # Safety
///
/// What is allocated is at least as long as asked for, aligned to 256 bytes (16 for pinned memory), and belongs
/// to nobody else until it is freed.
pub unsafe trait Gpu: fmt::Debug + Send + Sync {
    /// What the device is called.
    fn name(&self) -> String;

    /// What its processors can do.
    fn capability(&self) -> Capability;

    /// How many multiprocessors it has.
    fn multiprocessors(&self) -> u32;

    /// How much memory it has.
    ///
    /// # Errors
    ///
    /// If it does not say.
    fn memory(&self) -> Result<Memory, GpuError>;

    /// Memory of the device's.
    ///
    /// # Errors
    ///
    /// [`GpuError::OutOfMemory`] if there is none, and others.
    fn allocate(&self, bytes: usize) -> Result<Address, GpuError>;

    /// Gives memory of the device's back. What goes wrong is nobody's business any more.
    ///
    /// # Safety
    ///
    /// It came from [`Self::allocate`], was not given back, and nothing that is queued uses it.
    unsafe fn free(&self, address: Address);

    /// Memory of the machine's that the device can copy from and to while the caller goes on; all zeros.
    ///
    /// # Errors
    ///
    /// [`GpuError::OutOfMemory`] if there is none, and others.
    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>, GpuError>;

    /// Gives such memory back.
    ///
    /// # Safety
    ///
    /// It came from [`Self::allocate_pinned`], was not given back, and nothing that is queued uses it.
    unsafe fn free_pinned(&self, memory: NonNull<u8>);

    /// A new queue.
    ///
    /// # Errors
    ///
    /// If there can be none.
    fn open_queue(&self) -> Result<Queue, GpuError>;

    /// Closes a queue.
    ///
    /// # Safety
    ///
    /// It came from [`Self::open_queue`], was not closed, and nothing is in it.
    unsafe fn close_queue(&self, queue: Queue);

    /// Queues a copy to the device.
    ///
    /// # Errors
    ///
    /// If the device fails; it may also say so later.
    ///
    /// # Safety
    ///
    /// Both places have so many bytes, and nobody changes or frees them until the copy is done.
    unsafe fn copy_in(
        &self,
        queue: Queue,
        to: Address,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError>;

    /// Queues a copy from the device.
    ///
    /// # Errors
    ///
    /// If the device fails; it may also say so later.
    ///
    /// # Safety
    ///
    /// Both places have so many bytes, and nobody uses or frees them until the copy is done.
    unsafe fn copy_out(
        &self,
        queue: Queue,
        to: NonNull<u8>,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError>;

    /// Queues a kernel.
    ///
    /// # Errors
    ///
    /// If the device fails; it may also say so later.
    ///
    /// # Safety
    ///
    /// The parameters are the structure that the kernel takes; the memory that they name is as long as
    /// they say, and stays until the kernel is done.
    unsafe fn launch(&self, queue: Queue, launch: &Launch<'_>) -> Result<(), GpuError>;

    /// Waits until all is done that is in a queue. The thread sleeps meanwhile.
    ///
    /// # Errors
    ///
    /// What went wrong with any of it.
    fn finish(&self, queue: Queue) -> Result<(), GpuError>;
}

/// Why a device did not do what it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// There is too little memory; less may fit.
    #[error("the GPU has no room for {bytes} more bytes")]
    OutOfMemory {
        /// How much was asked for.
        bytes: usize,
    },
    /// The device, or this program, cannot do what is asked for, now or later.
    #[error("{0}")]
    Unsupported(String),
    /// The device can be used by a new process only.
    #[error("the GPU is lost to this process: `{call}` says {reason}")]
    Lost {
        /// The driver's function.
        call: &'static str,
        /// What it said.
        reason: String,
    },
    /// This went wrong; the device can be used on.
    #[error("`{call}` says {reason}")]
    Failed {
        /// The driver's function.
        call: &'static str,
        /// What it said.
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
