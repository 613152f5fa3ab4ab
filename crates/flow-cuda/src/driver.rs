//! Uses GPUs through NVIDIA's driver.
//!
//! The only library is that of the driver itself, and it is opened when a GPU is requested. One program therefore starts on
//! any machine, and a machine with a GPU needs the driver only. `library.rs` has the functions, and `status.rs` maps their
//! errors. This file turns them into a [`Gpu`].
//!
//! The context of a device is its primary context, which it shares with any other CUDA code of the process. Calls may come
//! from any thread, so each call makes the context current first.

mod library;
mod status;

use std::ffi::{CString, OsStr, OsString, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use self::library::{DeviceHandle, Driver, DriverHandle, LIBRARY};
use crate::embedded;
use crate::error::{GpuUnavailable, MIN_CAPABILITY, version_text};
use crate::gpu::{
    Capability, DeviceAddress, Gpu, GpuError, KernelLaunch, MemoryInfo, StreamHandle,
};
use crate::kernel::Kernel;

/// Attributes of a device, with the driver's numbers.
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// A context flag: waiting threads sleep instead of spinning, because other threads tokenize meanwhile.
const BLOCKING_SYNC: c_uint = 4;
/// A stream flag: the stream does not wait for the default stream, which is not used.
const NON_BLOCKING: c_uint = 1;
/// A flag of pinned memory: it is pinned for all contexts.
const PORTABLE: c_uint = 1;

/// Maximum bytes of a device's name.
const NAME_BYTES_MAX: usize = 256;

/// NVIDIA's driver, opened and initialized.
#[derive(Clone)]
pub struct CudaDriver(Arc<Driver>);

/// A GPU, as the driver describes it before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number, as in `cuda:0`. `CUDA_VISIBLE_DEVICES` affects the numbering.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its UUID, such as `GPU-1b2c…`, which does not depend on the numbering.
    pub uuid: String,
    /// Its compute capability.
    pub capability: Capability,
    /// Total bytes of its memory.
    pub memory: usize,
}

/// An open GPU with all kernels loaded.
pub struct CudaDevice {
    driver: Arc<Driver>,
    handle: DeviceHandle,
    context: DriverHandle,
    module: DriverHandle,
    /// By the index of a kernel. `None` if the image does not contain it.
    kernels: Vec<Option<DriverHandle>>,
    info: DeviceInfo,
    multiprocessors: u32,
}

// SAFETY: the driver's functions may be called from any thread. The handles identify objects of the driver and never
// change.
unsafe impl Send for CudaDevice {}
// SAFETY: as above.
unsafe impl Sync for CudaDevice {}

impl CudaDriver {
    /// Opens the driver.
    ///
    /// # Errors
    ///
    /// If it is missing or too old.
    pub fn open() -> Result<Self, GpuUnavailable> {
        Self::open_library(LIBRARY)
    }

    fn open_library(library: impl AsRef<OsStr>) -> Result<Self, GpuUnavailable> {
        let library: OsString = library.as_ref().to_owned();
        Driver::open(library).map(|driver| Self(Arc::new(driver)))
    }

    /// The newest CUDA version that the driver supports, such as `13.0`.
    #[must_use]
    pub fn version(&self) -> String {
        version_text(self.0.version)
    }

    /// All GPUs that are visible to this process.
    ///
    /// # Errors
    ///
    /// If there are none, or the driver fails.
    pub fn list(&self) -> Result<Vec<DeviceInfo>, GpuUnavailable> {
        (0..self.count()?).map(|number| self.info(number)).collect()
    }

    /// Opens a GPU and loads the kernels.
    ///
    /// # Errors
    ///
    /// If it does not exist or cannot be used.
    pub fn device(&self, number: u32) -> Result<CudaDevice, GpuUnavailable> {
        let count = self.count()?;
        if count <= number {
            return Err(GpuUnavailable::NoSuchDevice { number, count });
        }
        let info = self.info(number)?;
        info.check_usable()?;
        let image = embedded::fatbin().ok_or(GpuUnavailable::NoKernels)?;
        self.load(info, image)
    }

    fn load(&self, info: DeviceInfo, image: &[u8]) -> Result<CudaDevice, GpuUnavailable> {
        let handle = self.handle(info.number)?;
        let multiprocessors = self.attribute(handle, MULTIPROCESSORS)?;
        // SAFETY: the handle is valid. If the context is in use already, it keeps its flags, which only affects how threads
        // wait.
        let status = unsafe { (self.0.primary_set_flags)(handle, BLOCKING_SYNC) };
        drop(status.check("cuDevicePrimaryCtxSetFlags"));
        let mut context = ptr::null_mut();
        // SAFETY: the handle is valid, and the output is a local variable.
        unsafe { (self.0.primary_retain)(&raw mut context, handle) }
            .check_open("cuDevicePrimaryCtxRetain")?;
        // From here on, dropping the device releases the context.
        let mut device = CudaDevice {
            driver: Arc::clone(&self.0),
            handle,
            context,
            module: ptr::null_mut(),
            kernels: Vec::new(),
            info,
            multiprocessors,
        };
        device.make_current().map_err(GpuUnavailable::Driver)?;
        // SAFETY: the image is a complete fatbin, which contains its own length, and the output is a field of `device`.
        unsafe { (self.0.module_load)(&raw mut device.module, image.as_ptr().cast()) }
            .check_open("cuModuleLoadData")?;
        device.kernels = Kernel::all()
            .map(|kernel| device.function(kernel))
            .collect();
        Ok(device)
    }

    fn count(&self) -> Result<u32, GpuUnavailable> {
        let mut count = 0;
        // SAFETY: the output is a local variable.
        unsafe { (self.0.device_get_count)(&raw mut count) }.check_open("cuDeviceGetCount")?;
        match u32::try_from(count) {
            Ok(0) | Err(_) => Err(GpuUnavailable::NoDevice),
            Ok(count) => Ok(count),
        }
    }

    fn handle(&self, number: u32) -> Result<DeviceHandle, GpuUnavailable> {
        let mut handle = 0;
        let number = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: the output is a local variable. An invalid number is an error.
        unsafe { (self.0.device_get)(&raw mut handle, number) }.check_open("cuDeviceGet")?;
        Ok(handle)
    }

    fn attribute(&self, device: DeviceHandle, attribute: c_int) -> Result<u32, GpuUnavailable> {
        let mut value = 0;
        // SAFETY: the output is a local variable.
        unsafe { (self.0.device_get_attribute)(&raw mut value, attribute, device) }
            .check_open("cuDeviceGetAttribute")?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn info(&self, number: u32) -> Result<DeviceInfo, GpuUnavailable> {
        let handle = self.handle(number)?;
        let mut name = [0_u8; NAME_BYTES_MAX];
        let mut uuid = [0; 16];
        let mut memory = 0;
        // SAFETY: the outputs are local variables of the lengths that are passed.
        unsafe {
            (self.0.device_get_name)(name.as_mut_ptr().cast(), NAME_BYTES_MAX as c_int, handle)
        }
        .check_open("cuDeviceGetName")?;
        // SAFETY: as above.
        unsafe { (self.0.device_get_uuid)(&raw mut uuid, handle) }.check_open("cuDeviceGetUuid")?;
        // SAFETY: as above.
        unsafe { (self.0.device_total_mem)(&raw mut memory, handle) }
            .check_open("cuDeviceTotalMem")?;
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(NAME_BYTES_MAX);
        Ok(DeviceInfo {
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

impl DeviceInfo {
    /// Checks whether this program can compute on the GPU.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub fn check_usable(&self) -> Result<(), GpuUnavailable> {
        self.check_capability()?;
        embedded::check(self.capability)
    }

    fn check_capability(&self) -> Result<(), GpuUnavailable> {
        if self.capability < MIN_CAPABILITY {
            return Err(GpuUnavailable::CapabilityTooLow {
                name: self.name.clone(),
                found: self.capability,
            });
        }
        Ok(())
    }
}

impl CudaDevice {
    /// Its description.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Makes its context current on this thread.
    fn make_current(&self) -> Result<(), GpuError> {
        // SAFETY: the context lives as long as `self`.
        unsafe { (self.driver.set_current)(self.context) }.check("cuCtxSetCurrent")
    }

    fn function(&self, kernel: Kernel) -> Option<DriverHandle> {
        let name = CString::new(kernel.name()).ok()?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, the output is a local variable, and the name is a C string.
        let status = unsafe {
            (self.driver.module_get_function)(&raw mut function, self.module, name.as_ptr())
        };
        status.check("cuModuleGetFunction").ok().map(|()| function)
    }
}

// SAFETY: cuMemAlloc aligns to 256 bytes and cuMemHostAlloc to a page, and both return memory that is not in use.
unsafe impl Gpu for CudaDevice {
    fn name(&self) -> String {
        format!("cuda:{} {}", self.info.number, self.info.name)
    }

    fn uuid(&self) -> Option<String> {
        Some(self.info.uuid.clone())
    }

    fn capability(&self) -> Capability {
        self.info.capability
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn memory(&self) -> Result<MemoryInfo, GpuError> {
        self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the outputs are local variables.
        unsafe { (self.driver.mem_get_info)(&raw mut free, &raw mut total) }
            .check("cuMemGetInfo")?;
        Ok(MemoryInfo { free, total })
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceAddress, GpuError> {
        self.make_current()?;
        let mut address = 0;
        // The driver refuses to allocate 0 bytes.
        // SAFETY: the output is a local variable.
        unsafe { (self.driver.mem_alloc)(&raw mut address, bytes.max(1)) }
            .check_allocation("cuMemAlloc", bytes)?;
        Ok(DeviceAddress(address))
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn free(&self, address: DeviceAddress) {
        if self.make_current().is_ok() {
            // SAFETY: the caller guarantees that the memory is ours and not in use.
            let status = unsafe { (self.driver.mem_free)(address.0) };
            drop(status.check("cuMemFree"));
        }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.make_current()?;
        let mut memory = ptr::null_mut();
        let bytes = bytes.max(1);
        // SAFETY: the output is a local variable.
        unsafe { (self.driver.mem_host_alloc)(&raw mut memory, bytes, PORTABLE) }
            .check_allocation("cuMemHostAlloc", bytes)?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(GpuError::OutOfMemory { bytes })?;
        // SAFETY: the driver has just allocated these bytes.
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn free_pinned(&self, memory: NonNull<u8>) {
        if self.make_current().is_ok() {
            // SAFETY: the caller guarantees that the memory is ours and not in use.
            let status = unsafe { (self.driver.mem_free_host)(memory.as_ptr().cast()) };
            drop(status.check("cuMemFreeHost"));
        }
    }

    fn create_stream(&self) -> Result<StreamHandle, GpuError> {
        self.make_current()?;
        let mut stream = ptr::null_mut();
        // SAFETY: the output is a local variable.
        unsafe { (self.driver.stream_create)(&raw mut stream, NON_BLOCKING) }
            .check("cuStreamCreate")?;
        Ok(StreamHandle(stream.expose_provenance() as u64))
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn destroy_stream(&self, stream: StreamHandle) {
        if self.make_current().is_ok() {
            // SAFETY: the caller guarantees that the stream is ours and has no queued work.
            let status = unsafe { (self.driver.stream_destroy)(raw_stream(stream)) };
            drop(status.check("cuStreamDestroy"));
        }
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn copy_to_device(
        &self,
        stream: StreamHandle,
        to: DeviceAddress,
        from: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        if bytes == 0 {
            return Ok(());
        }
        self.make_current()?;
        let from = from.as_ptr().cast::<c_void>().cast_const();
        // SAFETY: the caller guarantees that both sides have this length and stay allocated.
        unsafe { (self.driver.copy_to_device)(to.0, from, bytes, raw_stream(stream)) }
            .check("cuMemcpyHtoDAsync")
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn copy_from_device(
        &self,
        stream: StreamHandle,
        to: NonNull<u8>,
        from: DeviceAddress,
        bytes: usize,
    ) -> Result<(), GpuError> {
        if bytes == 0 {
            return Ok(());
        }
        self.make_current()?;
        // SAFETY: the caller guarantees that both sides have this length and stay allocated.
        unsafe {
            (self.driver.copy_from_device)(to.as_ptr().cast(), from.0, bytes, raw_stream(stream))
        }
        .check("cuMemcpyDtoHAsync")
    }

    // SAFETY: the caller's obligations are those of the trait.
    unsafe fn launch(
        &self,
        stream: StreamHandle,
        launch: &KernelLaunch<'_>,
    ) -> Result<(), GpuError> {
        const CALL: &str = "cuLaunchKernel";
        self.make_current()?;
        let function = self.kernels[launch.kernel.index()].ok_or_else(|| GpuError::Failed {
            call: CALL,
            reason: format!("this program has no kernel `{}`", launch.kernel.name()),
        })?;
        let [x, y] = launch.grid;
        // A pointer to the only parameter. The driver knows its length from the kernel.
        let mut parameters = [launch.parameters.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the caller guarantees that the parameters are those of the kernel. The driver copies them before it
        // returns.
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
                raw_stream(stream),
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        status.check(CALL)
    }

    fn synchronize(&self, stream: StreamHandle) -> Result<(), GpuError> {
        self.make_current()?;
        // SAFETY: the stream is one of this device.
        unsafe { (self.driver.stream_synchronize)(raw_stream(stream)) }.check("cuStreamSynchronize")
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if !self.module.is_null() && self.make_current().is_ok() {
            // SAFETY: the module is loaded, and its kernels can no longer be launched.
            let status = unsafe { (self.driver.module_unload)(self.module) };
            drop(status.check("cuModuleUnload"));
        }
        // SAFETY: the context was retained once, and is not used after this.
        let status = unsafe { (self.driver.primary_release)(self.handle) };
        drop(status.check("cuDevicePrimaryCtxRelease"));
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CudaDevice").field(&self.info).finish()
    }
}

impl fmt::Debug for CudaDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CudaDriver").field(&self.version()).finish()
    }
}

fn raw_stream(stream: StreamHandle) -> DriverHandle {
    ptr::with_exposed_provenance_mut(stream.0 as usize)
}

/// A UUID in the notation of NVIDIA's tools.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (index, byte) in uuid.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
