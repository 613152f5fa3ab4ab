//! A device that is this machine.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow_cuda::{Address, Capability, Gpu, GpuError, Launch, Memory, Queue};
use libloading::Library;

use crate::compile::{BadCompile, kernels, library_of};

/// # Safety
/// The kernel's parameters are so long, and the memory that they name is there.
type RunKernel = unsafe extern "C" fn(
    *const c_char,
    *const u32,
    u32,
    *const c_void,
    usize,
    u64,
) -> *const c_char;
/// # Safety
/// Any number of bytes may be asked for.
type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
/// # Safety
/// The memory came from [`Allocate`] and was not given back.
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What an emulated device pretends to be.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What its processors can do.
    pub capability: Capability,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: usize,
    /// The order in which threads run follows from it.
    pub seed: u64,
    /// The so manieth wait, counted from 0, loses the device, if any does.
    pub lost_at: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capability: Capability { major: 9, minor: 0 },
            // Few, so that small products have enough tiles for large ones.
            multiprocessors: 4,
            memory: 1 << 30,
            seed: 1,
            lost_at: None,
        }
    }
}

/// A device that is this machine.
pub struct Emulator {
    // SAFETY of what is called: the functions live as long as the library, which lives as long as this.
    _library: Library,
    run: RunKernel,
    allocate: Allocate,
    free: Free,
    settings: Settings,
    state: Mutex<State>,
    launches: AtomicU64,
    waits: AtomicUsize,
    copies: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// By address.
    sizes: BTreeMap<u64, usize>,
    pinned: BTreeMap<usize, usize>,
    queues: BTreeMap<u64, Vec<Work>>,
    next_queue: u64,
}

/// What is queued.
#[derive(Debug)]
enum Work {
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Launch {
        kernel: CString,
        grid: [u32; 2],
        block: u32,
        parameters: Vec<u64>,
    },
}

impl Emulator {
    /// A device for the kernels of `flow-cuda`.
    ///
    /// # Errors
    ///
    /// If there is no compiler for them.
    pub fn new(settings: Settings) -> Result<Arc<Self>, BadCompile> {
        Self::of(&kernels().join("flow.cu"), settings)
    }

    /// A device for the kernels in another file.
    ///
    /// # Errors
    ///
    /// If there is no compiler, or it refuses the file.
    ///
    /// # Panics
    ///
    /// If what was compiled cannot be opened: that is a mistake in the emulator.
    pub fn of(source: &Path, settings: Settings) -> Result<Arc<Self>, BadCompile> {
        let library = library_of(source)?;
        // SAFETY: it was compiled from our own sources, whose constructors fill a table and no more.
        let library = unsafe { Library::new(&library) }.expect("a library just compiled");
        // SAFETY: emulate.cpp defines these functions with these types.
        let (run, allocate, free) = unsafe {
            let run = library.get::<RunKernel>(b"emulate_launch\0").map(|it| *it);
            let allocate = library.get::<Allocate>(b"emulate_allocate\0").map(|it| *it);
            let free = library.get::<Free>(b"emulate_free\0").map(|it| *it);
            (run, allocate, free)
        };
        Ok(Arc::new(Self {
            run: run.expect("emulate.cpp has it"),
            allocate: allocate.expect("emulate.cpp has it"),
            free: free.expect("emulate.cpp has it"),
            _library: library,
            settings,
            state: Mutex::default(),
            launches: AtomicU64::new(0),
            waits: AtomicUsize::new(0),
            copies: AtomicUsize::new(0),
        }))
    }

    /// How many copies there were, in either direction.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.copies.load(Ordering::Relaxed)
    }

    /// How many kernels ran.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// How many bytes of the device's memory are in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.state().used
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue_work(&self, queue: Queue, work: Work) -> Result<(), GpuError> {
        match self.state().queues.get_mut(&queue.0) {
            Some(queue) => queue.push(work),
            None => return Err(failed("queue", "there is no such queue")),
        }
        Ok(())
    }

    fn copy(&self, queue: Queue, to: usize, from: usize, bytes: usize) -> Result<(), GpuError> {
        self.copies.fetch_add(1, Ordering::Relaxed);
        self.queue_work(queue, Work::Copy { to, from, bytes })
    }

    fn work(&self, work: &Work) -> Result<(), GpuError> {
        match work {
            // SAFETY: whoever queued it promised that both places have so many bytes until it is done.
            Work::Copy { to, from, bytes } => unsafe {
                std::ptr::copy_nonoverlapping(*from as *const u8, *to as *mut u8, *bytes);
            },
            Work::Launch {
                kernel,
                grid,
                block,
                parameters,
            } => {
                let launch = self.launches.fetch_add(1, Ordering::Relaxed);
                let seed = self.settings.seed.wrapping_mul(1_000_003) ^ launch;
                // SAFETY: the parameters are as long as told, which is compared with what the kernel takes; whoever
                // queued it promised that they name memory that is there. The reason is a string of this thread's.
                let reason = unsafe {
                    let reason = (self.run)(
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

    /// Queues a kernel of any name, for tests of the emulator.
    ///
    /// # Safety
    ///
    /// As for [`Gpu::launch`].
    ///
    /// # Errors
    ///
    /// If there is no such queue.
    ///
    /// # Panics
    ///
    /// If the name has a zero in it.
    pub unsafe fn launch_named(
        &self,
        queue: Queue,
        name: &str,
        (grid, block): ([u32; 2], u32),
        parameters: &[u64],
    ) -> Result<(), GpuError> {
        let work = Work::Launch {
            kernel: CString::new(name).expect("a name"),
            grid,
            block,
            parameters: parameters.to_vec(),
        };
        self.queue_work(queue, work)
    }
}

// SAFETY: memory comes from the machine's allocator at multiples of 256 bytes, and is nobody else's.
unsafe impl Gpu for Emulator {
    fn name(&self) -> String {
        "emulated GPU".to_owned()
    }

    fn capability(&self) -> Capability {
        self.settings.capability
    }

    fn multiprocessors(&self) -> u32 {
        self.settings.multiprocessors
    }

    fn memory(&self) -> Result<Memory, GpuError> {
        let total = self.settings.memory;
        Ok(Memory {
            free: total - self.state().used,
            total,
        })
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        let mut state = self.state();
        if bytes > self.settings.memory - state.used {
            return Err(GpuError::OutOfMemory { bytes });
        }
        // SAFETY: any number of bytes may be asked for.
        let memory = unsafe { (self.allocate)(bytes) };
        if memory.is_null() {
            return Err(GpuError::OutOfMemory { bytes });
        }
        state.used += bytes;
        state.sizes.insert(memory as u64, bytes);
        Ok(Address(memory as u64))
    }

    // SAFETY: as the trait says.
    unsafe fn free(&self, address: Address) {
        let mut state = self.state();
        let bytes = state.sizes.remove(&address.0).expect("it was allocated");
        state.used -= bytes;
        drop(state);
        // SAFETY: it came from `emulate_allocate`, and is in nobody's list any more.
        let is_whole = unsafe { (self.free)(address.0 as *mut c_void) } != 0;
        assert!(is_whole, "somebody wrote beside {bytes} bytes of memory");
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        // SAFETY: any number of bytes may be asked for; they are there to be filled.
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

    // SAFETY: as the trait says.
    unsafe fn free_pinned(&self, memory: NonNull<u8>) {
        let address = memory.as_ptr() as usize;
        let bytes = self.state().pinned.remove(&address);
        let bytes = bytes.expect("it was allocated");
        // SAFETY: as for `free`.
        let is_whole = unsafe { (self.free)(memory.as_ptr().cast()) } != 0;
        assert!(is_whole, "somebody wrote beside {bytes} pinned bytes");
    }

    fn open_queue(&self) -> Result<Queue, GpuError> {
        let mut state = self.state();
        state.next_queue += 1;
        let number = state.next_queue;
        state.queues.insert(number, Vec::new());
        Ok(Queue(number))
    }

    // SAFETY: as the trait says.
    unsafe fn close_queue(&self, queue: Queue) {
        let work = self.state().queues.remove(&queue.0);
        let work = work.expect("it was opened");
        assert!(work.is_empty(), "nobody waited for {work:?}");
    }

    // SAFETY: as the trait says.
    unsafe fn copy_in(
        &self,
        queue: Queue,
        to: Address,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.copy(queue, to.0 as usize, from.as_ptr() as usize, bytes)
    }

    // SAFETY: as the trait says.
    unsafe fn copy_out(
        &self,
        queue: Queue,
        to: NonNull<u8>,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.copy(queue, to.as_ptr() as usize, from.0 as usize, bytes)
    }

    // SAFETY: as the trait says.
    unsafe fn launch(&self, queue: Queue, launch: &Launch<'_>) -> Result<(), GpuError> {
        let work = Work::Launch {
            kernel: CString::new(launch.kernel.name()).expect("a name"),
            grid: launch.grid,
            block: launch.block,
            parameters: launch.parameters.to_vec(),
        };
        self.queue_work(queue, work)
    }

    fn finish(&self, queue: Queue) -> Result<(), GpuError> {
        let work = match self.state().queues.get_mut(&queue.0) {
            Some(queue) => std::mem::take(queue),
            None => return Err(failed("finish", "there is no such queue")),
        };
        let wait = self.waits.fetch_add(1, Ordering::Relaxed);
        if self.settings.lost_at.is_some_and(|lost_at| lost_at <= wait) {
            return Err(GpuError::Lost {
                call: "finish",
                reason: "an illegal address".to_owned(),
            });
        }
        work.iter().try_for_each(|work| self.work(work))
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator")
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
