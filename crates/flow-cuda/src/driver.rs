//! GPUs behind NVIDIA's driver.
//!
//! Only the driver's own library is used, and it is opened when somebody asks for a GPU. So one program starts
//! everywhere, and what a machine must have is the driver; `library.rs` names the functions, `status.rs` says what
//! their errors mean. Here they become a [`Gpu`].
//!
//! A device's context is the primary one, which any other code in this process would share. Calls come from any
//! thread, so each makes the context current first.

mod library;
mod status;

use std::ffi::{CString, OsStr, OsString, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use self::library::{DeviceHandle, Driver, Handle, LIBRARY};
use crate::{Address, Capability, Gpu, GpuError, Kernel, Launch, Memory, Queue, embedded};

/// The oldest driver that loads what nvcc 13.0 makes serves CUDA 13.0, as the driver counts it.
const NEEDED: c_int = 13_000;

/// The oldest GPUs that nvcc 13 makes instructions for.
pub const OLDEST: Capability = Capability { major: 7, minor: 5 };

/// Attributes of devices, as the driver counts them.
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// Waiting threads sleep instead of spinning: the cores have texts to tokenize.
const BLOCKING_SYNC: c_uint = 4;
/// A stream that does not wait for the default one, which nobody uses here.
const NON_BLOCKING: c_uint = 1;
/// Pinned for all contexts.
const PORTABLE: c_uint = 1;

/// Bytes of a device's name that are kept.
const NAME_LEN: usize = 256;

/// NVIDIA's driver, open and started.
#[derive(Clone)]
pub struct Cuda(Arc<Driver>);

/// What the driver tells of a GPU without touching it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number, as in `cuda:0`; `CUDA_VISIBLE_DEVICES` changes who has which.
    pub number: u32,
    /// What it is called.
    pub name: String,
    /// Its identity whatever its number, such as `GPU-1b2c…`.
    pub uuid: String,
    /// What its processors can do.
    pub capability: Capability,
    /// Bytes of memory.
    pub memory: usize,
}

/// A GPU with all kernels loaded.
pub struct Device {
    driver: Arc<Driver>,
    handle: DeviceHandle,
    context: Handle,
    module: Handle,
    /// By a kernel's place in the table; none: the image lacks it.
    kernels: Vec<Option<Handle>>,
    found: Found,
    multiprocessors: u32,
}

// SAFETY: the driver's functions may be called from any thread; the handles are names of what the driver keeps,
// and never change.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Why there is no GPU to compute on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGpu {
    /// No driver.
    #[error("NVIDIA's driver is not here ({reason}); install it, version 580 or newer")]
    NoDriver {
        /// What the system says.
        reason: String,
    },
    /// A function is missing.
    #[error("NVIDIA's driver has no `{symbol}`, so it is too old; version 580 or newer is needed")]
    Incomplete {
        /// The function.
        symbol: &'static str,
    },
    /// The driver serves an older CUDA than what the kernels were compiled with.
    #[error(
        "NVIDIA's driver is too old: it serves CUDA {found}, and {} is needed; install version 580 or newer",
        version_text(NEEDED)
    )]
    Old {
        /// Such as `12.4`.
        found: String,
    },
    /// Parts of the driver do not fit each other, or the kernels.
    #[error(
        "NVIDIA's driver does not fit: {reason}; install version 580 or newer, and restart the machine after that"
    )]
    Mismatch {
        /// What the driver says.
        reason: String,
    },
    /// The driver is there, a GPU is not.
    #[error("NVIDIA's driver sees no GPU; does `CUDA_VISIBLE_DEVICES` hide it?")]
    NoDevice,
    /// No GPU has this number.
    #[error("there is no GPU {number}, but {}", numbers(*count))]
    NoSuch {
        /// What was asked for.
        number: u32,
        /// How many there are.
        count: u32,
    },
    /// An old GPU.
    #[error("`{name}` has compute capability {found}, and {OLDEST} is the least")]
    Incapable {
        /// What it is called.
        name: String,
        /// What it can do.
        found: Capability,
    },
    /// This program was built for the CPU alone.
    #[error("this program is built without CUDA kernels; build it with `cargo xtask build-cuda`")]
    NoKernels,
    /// The kernels were compiled for other GPUs.
    #[error(
        "this program's kernels do not run on this GPU: {reason}; build them for it with `cargo xtask build-cuda --cap`"
    )]
    NoImage {
        /// What the driver says.
        reason: String,
    },
    /// Others use all of its memory.
    #[error("no memory of the GPU's is free")]
    Full,
    /// Something else.
    #[error("NVIDIA's driver fails")]
    Driver(#[source] GpuError),
}

impl Cuda {
    /// Opens the driver.
    ///
    /// # Errors
    ///
    /// If there is none, or not one that can be used.
    pub fn open() -> Result<Self, NoGpu> {
        Self::open_library(LIBRARY)
    }

    fn open_library(library: impl AsRef<OsStr>) -> Result<Self, NoGpu> {
        let library: OsString = library.as_ref().to_owned();
        Driver::open(library).map(|driver| Self(Arc::new(driver)))
    }

    /// The newest CUDA that the driver can serve, such as `13.0`.
    #[must_use]
    pub fn version(&self) -> String {
        version_text(self.0.version)
    }

    /// Every GPU that this process may see.
    ///
    /// # Errors
    ///
    /// If there is none, or the driver fails.
    pub fn list(&self) -> Result<Vec<Found>, NoGpu> {
        (0..self.count()?).map(|number| self.find(number)).collect()
    }

    /// Opens one GPU and loads the kernels onto it.
    ///
    /// # Errors
    ///
    /// If it is not there or cannot be used.
    pub fn device(&self, number: u32) -> Result<Device, NoGpu> {
        let count = self.count()?;
        if count <= number {
            return Err(NoGpu::NoSuch { number, count });
        }
        let found = self.find(number)?;
        found.usable()?;
        let image = embedded::fatbin().ok_or(NoGpu::NoKernels)?;
        self.load(found, image)
    }

    fn load(&self, found: Found, image: &[u8]) -> Result<Device, NoGpu> {
        let handle = self.handle(found.number)?;
        let multiprocessors = self.attribute(handle, MULTIPROCESSORS)?;
        // SAFETY: the device is one of the driver's. Should the context be in use already, it keeps the flags it
        // has, which changes how threads wait and nothing else.
        let done = unsafe { (self.0.primary_set_flags)(handle, BLOCKING_SYNC) };
        drop(done.check("cuDevicePrimaryCtxSetFlags"));
        let mut context = ptr::null_mut();
        // SAFETY: the device is one of the driver's, and the place is ours.
        unsafe { (self.0.primary_retain)(&raw mut context, handle) }
            .opening("cuDevicePrimaryCtxRetain")?;
        // From here on dropping it gives the context back.
        let mut device = Device {
            driver: Arc::clone(&self.0),
            handle,
            context,
            module: ptr::null_mut(),
            kernels: Vec::new(),
            found,
            multiprocessors,
        };
        device.enter().map_err(NoGpu::Driver)?;
        // SAFETY: the image is a whole fatbin, which tells its length itself, and the place is ours.
        unsafe { (self.0.module_load)(&raw mut device.module, image.as_ptr().cast()) }
            .opening("cuModuleLoadData")?;
        device.kernels = Kernel::all()
            .map(|kernel| device.function(kernel))
            .collect();
        Ok(device)
    }

    fn count(&self) -> Result<u32, NoGpu> {
        let mut count = 0;
        // SAFETY: the place is ours.
        unsafe { (self.0.device_get_count)(&raw mut count) }.opening("cuDeviceGetCount")?;
        match u32::try_from(count) {
            Ok(0) | Err(_) => Err(NoGpu::NoDevice),
            Ok(count) => Ok(count),
        }
    }

    fn handle(&self, number: u32) -> Result<DeviceHandle, NoGpu> {
        let mut handle = 0;
        let number = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: the place is ours; a number without a device is an error.
        unsafe { (self.0.device_get)(&raw mut handle, number) }.opening("cuDeviceGet")?;
        Ok(handle)
    }

    fn attribute(&self, device: DeviceHandle, attribute: c_int) -> Result<u32, NoGpu> {
        let mut value = 0;
        // SAFETY: the place is ours.
        unsafe { (self.0.device_get_attribute)(&raw mut value, attribute, device) }
            .opening("cuDeviceGetAttribute")?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn find(&self, number: u32) -> Result<Found, NoGpu> {
        let handle = self.handle(number)?;
        let mut name = [0_u8; NAME_LEN];
        let mut uuid = [0; 16];
        let mut memory = 0;
        // SAFETY: the places are ours, and so long as is said.
        unsafe { (self.0.device_get_name)(name.as_mut_ptr().cast(), NAME_LEN as c_int, handle) }
            .opening("cuDeviceGetName")?;
        // SAFETY: as above.
        unsafe { (self.0.device_get_uuid)(&raw mut uuid, handle) }.opening("cuDeviceGetUuid")?;
        // SAFETY: as above.
        unsafe { (self.0.device_total_mem)(&raw mut memory, handle) }
            .opening("cuDeviceTotalMem")?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_LEN);
        Ok(Found {
            number,
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            uuid: uuid_text(&uuid),
            capability: Capability {
                major: self.attribute(handle, CAPABILITY_MAJOR)?,
                minor: self.attribute(handle, CAPABILITY_MINOR)?,
            },
            memory,
        })
    }
}

impl Found {
    /// Whether this program can compute on it.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn usable(&self) -> Result<(), NoGpu> {
        self.check()?;
        embedded::check(self.capability)
    }

    fn check(&self) -> Result<(), NoGpu> {
        if self.capability < OLDEST {
            return Err(NoGpu::Incapable {
                name: self.name.clone(),
                found: self.capability,
            });
        }
        Ok(())
    }
}

impl Device {
    /// What the driver told of it.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Makes its context this thread's.
    fn enter(&self) -> Result<(), GpuError> {
        // SAFETY: the context lives as long as `self`.
        unsafe { (self.driver.set_current)(self.context) }.check("cuCtxSetCurrent")
    }

    fn function(&self, kernel: Kernel) -> Option<Handle> {
        let name = CString::new(kernel.name()).ok()?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded; the place and the name are ours.
        let found = unsafe {
            (self.driver.module_get_function)(&raw mut function, self.module, name.as_ptr())
        };
        found.check("cuModuleGetFunction").ok().map(|()| function)
    }
}

// SAFETY: cuMemAlloc aligns to 256 bytes and cuMemHostAlloc to a page, and both give what nobody else has.
unsafe impl Gpu for Device {
    fn name(&self) -> String {
        format!("cuda:{} {}", self.found.number, self.found.name)
    }

    fn capability(&self) -> Capability {
        self.found.capability
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn memory(&self) -> Result<Memory, GpuError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the places are ours.
        unsafe { (self.driver.mem_get_info)(&raw mut free, &raw mut total) }
            .check("cuMemGetInfo")?;
        Ok(Memory { free, total })
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        self.enter()?;
        let mut address = 0;
        // The driver refuses to allocate nothing.
        // SAFETY: the place is ours.
        unsafe { (self.driver.mem_alloc)(&raw mut address, bytes.max(1)) }
            .check_for("cuMemAlloc", bytes)?;
        Ok(Address(address))
    }

    // SAFETY: what the caller promises stands in the trait.
    unsafe fn free(&self, address: Address) {
        if self.enter().is_ok() {
            // SAFETY: the caller promises that it is one of ours, and unused.
            let done = unsafe { (self.driver.mem_free)(address.0) };
            drop(done.check("cuMemFree"));
        }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.enter()?;
        let mut memory = ptr::null_mut();
        let bytes = bytes.max(1);
        // SAFETY: the place is ours.
        unsafe { (self.driver.mem_host_alloc)(&raw mut memory, bytes, PORTABLE) }
            .check_for("cuMemHostAlloc", bytes)?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(GpuError::OutOfMemory { bytes })?;
        // SAFETY: the driver gave so many bytes, to us alone.
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }

    // SAFETY: what the caller promises stands in the trait.
    unsafe fn free_pinned(&self, memory: NonNull<u8>) {
        if self.enter().is_ok() {
            // SAFETY: the caller promises that it is one of ours, and unused.
            let done = unsafe { (self.driver.mem_free_host)(memory.as_ptr().cast()) };
            drop(done.check("cuMemFreeHost"));
        }
    }

    fn open_queue(&self) -> Result<Queue, GpuError> {
        self.enter()?;
        let mut stream = ptr::null_mut();
        // SAFETY: the place is ours.
        unsafe { (self.driver.stream_create)(&raw mut stream, NON_BLOCKING) }
            .check("cuStreamCreate")?;
        Ok(Queue(stream.expose_provenance() as u64))
    }

    // SAFETY: what the caller promises stands in the trait.
    unsafe fn close_queue(&self, queue: Queue) {
        if self.enter().is_ok() {
            // SAFETY: the caller promises that it is one of ours, and empty.
            let done = unsafe { (self.driver.stream_destroy)(stream(queue)) };
            drop(done.check("cuStreamDestroy"));
        }
    }

    // SAFETY: what the caller promises stands in the trait.
    unsafe fn copy_in(
        &self,
        queue: Queue,
        to: Address,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        if bytes == 0 {
            return Ok(());
        }
        self.enter()?;
        let from = from.as_ptr().cast::<c_void>().cast_const();
        // SAFETY: the caller promises that both places have so many bytes, and stay.
        unsafe { (self.driver.copy_in)(to.0, from, bytes, stream(queue)) }
            .check("cuMemcpyHtoDAsync")
    }

    // SAFETY: what the caller promises stands in the trait.
    unsafe fn copy_out(
        &self,
        queue: Queue,
        to: NonNull<u8>,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError> {
        if bytes == 0 {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: the caller promises that both places have so many bytes, and stay.
        unsafe { (self.driver.copy_out)(to.as_ptr().cast(), from.0, bytes, stream(queue)) }
            .check("cuMemcpyDtoHAsync")
    }

    // SAFETY: what the caller promises stands in the trait.
    unsafe fn launch(&self, queue: Queue, launch: &Launch<'_>) -> Result<(), GpuError> {
        const CALL: &str = "cuLaunchKernel";
        self.enter()?;
        let function = self.kernels[launch.kernel.place()].ok_or_else(|| GpuError::Failed {
            call: CALL,
            reason: format!("this program has no kernel `{}`", launch.kernel.name()),
        })?;
        let [x, y] = launch.grid;
        // The one parameter: the driver knows from the kernel how long it is.
        let mut parameters = [launch.parameters.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the caller promises that the parameters are what the kernel takes. The driver copies them
        // before it returns.
        let status = unsafe {
            (self.driver.launch_kernel)(
                function,
                x,
                y,
                1,
                launch.block,
                1,
                1,
                0,
                stream(queue),
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        status.check(CALL)
    }

    fn finish(&self, queue: Queue) -> Result<(), GpuError> {
        self.enter()?;
        // SAFETY: the queue is one of ours.
        unsafe { (self.driver.stream_synchronize)(stream(queue)) }.check("cuStreamSynchronize")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if !self.module.is_null() && self.enter().is_ok() {
            // SAFETY: it was loaded, and nobody can launch its kernels any more.
            let done = unsafe { (self.driver.module_unload)(self.module) };
            drop(done.check("cuModuleUnload"));
        }
        // SAFETY: it was retained once, and nobody uses it after this.
        let done = unsafe { (self.driver.primary_release)(self.handle) };
        drop(done.check("cuDevicePrimaryCtxRelease"));
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.found).finish()
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cuda").field(&self.version()).finish()
    }
}

fn stream(queue: Queue) -> Handle {
    ptr::with_exposed_provenance_mut(queue.0 as usize)
}

/// 13000 is 13.0 and 12040 is 12.4.
fn version_text(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// As NVIDIA's tools write it.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (place, byte) in uuid.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&place) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// The devices that there are, in words.
fn numbers(count: u32) -> String {
    match count {
        1 => "only `cuda:0`".to_owned(),
        2 => "`cuda:0` and `cuda:1`".to_owned(),
        _ => format!("`cuda:0` to `cuda:{}`", count - 1),
    }
}

#[cfg(test)]
mod tests;
