//! An emulated GPU.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow_cuda::{Capability, DeviceAddress, Gpu, GpuError, KernelLaunch, MemoryInfo, StreamHandle};
use libloading::Library;

use crate::compile::{CompileError, compile_library, kernels_folder};

/// # Safety
/// The parameters must have the given length, and the memory that they refer to must be allocated.
type RunKernel = unsafe extern "C" fn(
    *const c_char,
    *const u32,
    u32,
    *const c_void,
    usize,
    u64,
) -> *const c_char;
/// # Safety
/// There are no requirements.
type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
/// # Safety
/// The memory must come from [`Allocate`] and must not have been freed.
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Properties of an emulated GPU.
#[derive(Debug, Clone, Copy)]
pub struct EmulatorSettings {
    /// Its compute capability.
    pub capability: Capability,
    /// Its number of multiprocessors.
    pub multiprocessors: u32,
    /// Its memory in bytes.
    pub memory: usize,
    /// Determines the order in which threads run.
    pub seed: u64,
    /// The index of the synchronization at which the device is lost, if any.
    pub lost_at: Option<usize>,
}

impl Default for EmulatorSettings {
    fn default() -> Self {
        Self {
            capability: Capability { major: 9, minor: 0 },
            // Few, so that small products use large tiles too.
            multiprocessors: 4,
            memory: 1 << 30,
            seed: 1,
            lost_at: None,
        }
    }
}

/// An emulated GPU.
pub struct EmulatedGpu {
    // Keeps the functions below valid.
    _library: Library,
    run_kernel: RunKernel,
    allocate: Allocate,
    free: Free,
    settings: EmulatorSettings,
    state: Mutex<DeviceState>,
    launches: AtomicU64,
    synchronizations: AtomicUsize,
    copies: AtomicUsize,
}

#[derive(Debug, Default)]
struct DeviceState {
    used: usize,
    /// Sizes of allocations by address.
    sizes: BTreeMap<u64, usize>,
    pinned: BTreeMap<usize, usize>,
    streams: BTreeMap<u64, Vec<QueuedWork>>,
    last_stream: u64,
}

/// Queued work.
#[derive(Debug)]
enum QueuedWork {
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    KernelLaunch {
        kernel: CString,
        grid: [u32; 2],
        block: u32,
        parameters: Vec<u64>,
    },
}

impl EmulatedGpu {
    /// Creates a GPU with the kernels of `flow-cuda`.
    ///
    /// # Errors
    ///
    /// If they cannot be compiled.
    pub fn new(settings: EmulatorSettings) -> Result<Arc<Self>, CompileError> {
        Self::with_kernels(&kernels_folder().join("flow.cu"), settings)
    }

    /// Creates a GPU with the kernels in another file.
    ///
    /// # Errors
    ///
    /// If they cannot be compiled.
    ///
    /// # Panics
    ///
    /// If the compiled library cannot be opened, which is a bug of the emulator.
    pub fn with_kernels(
        source: &Path,
        settings: EmulatorSettings,
    ) -> Result<Arc<Self>, CompileError> {
        let library = compile_library(source)?;
        // SAFETY: the library was compiled from our own sources, whose constructors only fill a table.
        let library = unsafe { Library::new(&library) }.expect("the library was just compiled");
        // SAFETY: emulate.cpp defines these functions with these types.
        let (run_kernel, allocate, free) = unsafe {
            let run_kernel = library
                .get::<RunKernel>(b"emulate_launch\0")
                .map(|symbol| *symbol);
            let allocate = library
                .get::<Allocate>(b"emulate_allocate\0")
                .map(|symbol| *symbol);
            let free = library.get::<Free>(b"emulate_free\0").map(|symbol| *symbol);
            (run_kernel, allocate, free)
        };
        Ok(Arc::new(Self {
            run_kernel: run_kernel.expect("defined in emulate.cpp"),
            allocate: allocate.expect("defined in emulate.cpp"),
            free: free.expect("defined in emulate.cpp"),
            _library: library,
            settings,
            state: Mutex::default(),
            launches: AtomicU64::new(0),
            synchronizations: AtomicUsize::new(0),
            copies: AtomicUsize::new(0),
        }))
    }

    /// Number of copies so far, in either direction.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.copies.load(Ordering::Relaxed)
    }

    /// Number of kernels that have run.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Allocated bytes of device memory.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.state().used
    }

    fn state(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, stream: StreamHandle, work: QueuedWork) -> Result<(), GpuError> {
        match self.state().streams.get_mut(&stream.0) {
            Some(queued) => queued.push(work),
            None => return Err(failed("queue", "there is no such stream")),
        }
        Ok(())
    }

    fn copy(
        &self,
        stream: StreamHandle,
        to: usize,
        from: usize,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.copies.fetch_add(1, Ordering::Relaxed);
        self.queue(stream, QueuedWork::Copy { to, from, bytes })
    }

    fn run(&self, work: &QueuedWork) -> Result<(), GpuError> {
        match work {
            // SAFETY: the caller that queued it guarantees that both sides have this length and are still allocated.
            QueuedWork::Copy { to, from, bytes } => unsafe {
                std::ptr::copy_nonoverlapping(*from as *const u8, *to as *mut u8, *bytes);
            },
            QueuedWork::KernelLaunch {
                kernel,
                grid,
                block,
                parameters,
            } => {
                let launch = self.launches.fetch_add(1, Ordering::Relaxed);
                let seed = self.settings.seed.wrapping_mul(1_000_003) ^ launch;
                // SAFETY: the length of the parameters is checked against the kernel. The caller that queued it guarantees
                // the memory that they refer to. The returned string belongs to this thread.
                let reason = unsafe {
                    let reason = (self.run_kernel)(
                        kernel.as_ptr(),
                        grid.as_ptr(),
                        *block,
                        parameters.as_ptr().cast(),
                        size_of_val(&parameters[..]),
                        seed,
                    );
                    (!reason.is_null()).then(|| CStr::from_ptr(reason))
                };
                if let Some(reason) = reason {
                    let kernel = kernel.to_string_lossy();
                    let reason = format!("{kernel}: {}", reason.to_string_lossy());
                    return Err(failed("launch", &reason));
                }
            }
        }
        Ok(())
    }

    /// Queues a kernel by its name, for tests of the emulator.
    ///
    /// # Safety
    ///
    /// As for [`Gpu::launch`].
    ///
    /// # Errors
    ///
    /// If there is no such stream.
    ///
    /// # Panics
    ///
    /// If the name contains a NUL byte.
    pub unsafe fn launch_named(
        &self,
        stream: StreamHandle,
        name: &str,
        (grid, block): ([u32; 2], u32),
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        let work = QueuedWork::KernelLaunch {
            kernel: CString::new(name).expect("no NUL byte"),
            grid,
            block,
            parameters: parameters.to_vec(),
        };
        self.queue(stream, work)
    }
}

// SAFETY: memory comes from the host's allocator, aligned to 256 bytes.
unsafe impl Gpu for EmulatedGpu {
    fn name(&self) -> String {
        "emulated GPU".to_owned()
    }

    fn capability(&self) -> Capability {
        self.settings.capability
    }

    fn multiprocessors(&self) -> u32 {
        self.settings.multiprocessors
    }

    fn memory(&self) -> Result<MemoryInfo, GpuError> {
        let total = self.settings.memory;
        Ok(MemoryInfo {
            free: total - self.state().used,
            total,
        })
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceAddress, GpuError> {
        let mut state = self.state();
        if bytes > self.settings.memory - state.used {
            return Err(GpuError::OutOfMemory { bytes });
        }
        // SAFETY: there are no requirements.
        let memory = unsafe { (self.allocate)(bytes) };
        if memory.is_null() {
            return Err(GpuError::OutOfMemory { bytes });
        }
        state.used += bytes;
        state.sizes.insert(memory as u64, bytes);
        Ok(DeviceAddress(memory as u64))
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn free(&self, address: DeviceAddress) {
        let mut state = self.state();
        let bytes = state
            .sizes
            .remove(&address.0)
            .expect("the memory is allocated");
        state.used -= bytes;
        drop(state);
        // SAFETY: the memory came from `emulate_allocate`, and was just removed from the list of allocations.
        let is_intact = unsafe { (self.free)(address.0 as *mut c_void) } != 0;
        assert!(
            is_intact,
            "a write outside an allocation of {bytes} bytes was detected"
        );
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        // SAFETY: allocating has no requirements, and the allocated bytes may be written.
        let memory = unsafe {
            let memory = (self.allocate)(bytes).cast::<u8>();
            if !memory.is_null() {
                memory.write_bytes(0, bytes);
            }
            memory
        };
        let memory = NonNull::new(memory).ok_or(GpuError::OutOfMemory { bytes })?;
        self.state().pinned.insert(memory.as_ptr() as usize, bytes);
        Ok(memory)
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn free_pinned(&self, memory: NonNull<u8>) {
        let address = memory.as_ptr() as usize;
        let bytes = self.state().pinned.remove(&address);
        let bytes = bytes.expect("the memory is allocated");
        // SAFETY: as in `free`.
        let is_intact = unsafe { (self.free)(memory.as_ptr().cast()) } != 0;
        assert!(
            is_intact,
            "a write outside an allocation of {bytes} pinned bytes was detected"
        );
    }

    fn create_stream(&self) -> Result<StreamHandle, GpuError> {
        let mut state = self.state();
        state.last_stream += 1;
        let stream = state.last_stream;
        state.streams.insert(stream, Vec::new());
        Ok(StreamHandle(stream))
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn destroy_stream(&self, stream: StreamHandle) {
        let work = self.state().streams.remove(&stream.0);
        let work = work.expect("the stream exists");
        assert!(work.is_empty(), "destroyed with queued work: {work:?}");
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn copy_to_device(
        &self,
        stream: StreamHandle,
        to: DeviceAddress,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.copy(stream, to.0 as usize, from.as_ptr() as usize, bytes)
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn copy_from_device(
        &self,
        stream: StreamHandle,
        to: NonNull<u8>,
        from: DeviceAddress,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.copy(stream, to.as_ptr() as usize, from.0 as usize, bytes)
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn launch(
        &self,
        stream: StreamHandle,
        launch: &KernelLaunch<'_>,
    ) -> Result<(), GpuError> {
        let work = QueuedWork::KernelLaunch {
            kernel: CString::new(launch.kernel.name()).expect("no NUL byte"),
            grid: launch.grid,
            block: launch.block,
            parameters: launch.parameters.to_vec(),
        };
        self.queue(stream, work)
    }

    fn synchronize(&self, stream: StreamHandle) -> Result<(), GpuError> {
        let work = match self.state().streams.get_mut(&stream.0) {
            Some(queued) => std::mem::take(queued),
            None => return Err(failed("synchronize", "there is no such stream")),
        };
        let index = self.synchronizations.fetch_add(1, Ordering::Relaxed);
        if self
            .settings
            .lost_at
            .is_some_and(|lost_at| lost_at <= index)
        {
            return Err(GpuError::Lost {
                call: "synchronize",
                reason: "an illegal address".to_owned(),
            });
        }
        work.iter().try_for_each(|work| self.run(work))
    }
}

impl fmt::Debug for EmulatedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmulatedGpu")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn failed(call: &'static str, reason: &str) -> GpuError {
    GpuError::Failed {
        call,
        reason: reason.to_owned(),
    }
}
