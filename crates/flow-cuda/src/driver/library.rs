//! The driver's library. It is opened at run time, because a program that links it does not start on machines without it.
//!
//! One table lists every function that is used, with the symbol of its newest version. All of these versions exist since
//! CUDA 12, which is older than any driver that the kernels need.

use std::ffi::{OsStr, c_char, c_int, c_uint, c_void};

use libloading::Library;

use super::status::Status;
use crate::error::{GpuUnavailable, MIN_CUDA_VERSION, version_text};

/// The library of NVIDIA's driver. This name exists without the files for development.
pub(crate) const LIBRARY: &str = "libcuda.so.1";

/// A device.
pub(super) type DeviceHandle = c_int;
/// An opaque handle of a context, a module, a function or a stream.
pub(super) type DriverHandle = *mut c_void;

// SAFETY: the requirements are stated at the calls.
type GetVersion = unsafe extern "C" fn(*mut c_int) -> Status;
// SAFETY: as above.
type Init = unsafe extern "C" fn(c_uint) -> Status;

macro_rules! table {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The library's functions.
        pub(super) struct Driver {
            // SAFETY: the requirements are stated at the calls.
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)*
            /// The newest CUDA version that it supports.
            pub(super) version: c_int,
            // Dropped last, because the functions belong to it.
            _library: Library,
        }

        impl Driver {
            fn new(library: Library, version: c_int) -> Result<Self, GpuUnavailable> {
                $(
                    // SAFETY: the driver's documentation gives the symbol this type. The library lives as long as the
                    // pointer, because both are fields of one value.
                    let $name = unsafe { library.get($symbol.as_bytes()) }
                        .map(|symbol| *symbol)
                        .map_err(|_| GpuUnavailable::MissingSymbol { symbol: $symbol })?;
                )*
                Ok(Self { $($name,)* version, _library: library })
            }
        }
    };
}

table! {
    device_get_count = "cuDeviceGetCount" (*mut c_int);
    device_get = "cuDeviceGet" (*mut DeviceHandle, c_int);
    device_get_name = "cuDeviceGetName" (*mut c_char, c_int, DeviceHandle);
    device_get_uuid = "cuDeviceGetUuid_v2" (*mut [u8; 16], DeviceHandle);
    device_get_attribute = "cuDeviceGetAttribute" (*mut c_int, c_int, DeviceHandle);
    device_total_mem = "cuDeviceTotalMem_v2" (*mut usize, DeviceHandle);
    primary_set_flags = "cuDevicePrimaryCtxSetFlags_v2" (DeviceHandle, c_uint);
    primary_retain = "cuDevicePrimaryCtxRetain" (*mut DriverHandle, DeviceHandle);
    primary_release = "cuDevicePrimaryCtxRelease_v2" (DeviceHandle);
    set_current = "cuCtxSetCurrent" (DriverHandle);
    mem_get_info = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    mem_alloc = "cuMemAlloc_v2" (*mut u64, usize);
    mem_free = "cuMemFree_v2" (u64);
    mem_host_alloc = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    mem_free_host = "cuMemFreeHost" (*mut c_void);
    copy_to_device = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, DriverHandle);
    copy_from_device = "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, DriverHandle);
    stream_create = "cuStreamCreate" (*mut DriverHandle, c_uint);
    stream_destroy = "cuStreamDestroy_v2" (DriverHandle);
    stream_synchronize = "cuStreamSynchronize" (DriverHandle);
    module_load = "cuModuleLoadData" (*mut DriverHandle, *const c_void);
    module_unload = "cuModuleUnload" (DriverHandle);
    module_get_function = "cuModuleGetFunction" (*mut DriverHandle, DriverHandle, *const c_char);
    launch_kernel = "cuLaunchKernel" (
        DriverHandle,
        c_uint, c_uint, c_uint,
        c_uint, c_uint, c_uint,
        c_uint,
        DriverHandle,
        *mut *mut c_void,
        *mut *mut c_void
    );
}

impl Driver {
    /// Opens the library by its name or path, and initializes it.
    pub(super) fn open(library: impl AsRef<OsStr>) -> Result<Self, GpuUnavailable> {
        // SAFETY: the code that NVIDIA's library runs when it is opened has no requirements.
        let library = unsafe { Library::new(library.as_ref()) };
        let library = library.map_err(|error| GpuUnavailable::NoDriver {
            reason: error.to_string(),
        })?;
        // Old drivers have this function too, so that the error can be more helpful than a missing symbol.
        let version = version_of(&library)?;
        if version < MIN_CUDA_VERSION {
            return Err(GpuUnavailable::DriverTooOld {
                found: version_text(version),
            });
        }
        init(&library)?;
        Self::new(library, version)
    }
}

fn version_of(library: &Library) -> Result<c_int, GpuUnavailable> {
    let symbol = "cuDriverGetVersion";
    // SAFETY: the driver's documentation gives the symbol this type.
    let get = unsafe { library.get::<GetVersion>(symbol.as_bytes()) };
    let get = get.map_err(|_| GpuUnavailable::MissingSymbol { symbol })?;
    let mut version = 0;
    // SAFETY: it writes one number, and may be called before `cuInit`.
    unsafe { get(&raw mut version) }.check_open(symbol)?;
    Ok(version)
}

fn init(library: &Library) -> Result<(), GpuUnavailable> {
    let symbol = "cuInit";
    // SAFETY: the driver's documentation gives the symbol this type.
    let init = unsafe { library.get::<Init>(symbol.as_bytes()) };
    let init = init.map_err(|_| GpuUnavailable::MissingSymbol { symbol })?;
    // SAFETY: it may be called at any time. 0 is the only valid flag.
    unsafe { init(0) }.check_open(symbol)
}
