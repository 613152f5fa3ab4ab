//! The driver's library, opened when it is asked for: a program that links it could not start where it is not.
//!
//! One table names each function that is used, with the symbol that has its newest form; all forms are as old as
//! CUDA 12, which is older than any driver that our kernels need.

use std::ffi::{OsStr, c_char, c_int, c_uint, c_void};

use libloading::Library;

use super::status::Status;
use super::{NEEDED, NoGpu, version_text};

/// Comes with NVIDIA's driver; the name without what one compiles against.
pub(crate) const LIBRARY: &str = "libcuda.so.1";

/// A device, as functions want it.
pub(super) type DeviceHandle = c_int;
/// A context, a module, a function, a stream: nothing that one looks into.
pub(super) type Handle = *mut c_void;

// SAFETY: what both need stands where they are called.
type GetVersion = unsafe extern "C" fn(*mut c_int) -> Status;
// SAFETY: as above.
type Init = unsafe extern "C" fn(c_uint) -> Status;

macro_rules! table {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The library's functions.
        pub(super) struct Driver {
            // SAFETY: what each needs stands where it is called.
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)*
            /// Which CUDA it can serve.
            pub(super) version: c_int,
            // The functions are its; it goes last.
            _library: Library,
        }

        impl Driver {
            fn of(library: Library, version: c_int) -> Result<Self, NoGpu> {
                $(
                    // SAFETY: the driver's documentation gives the symbol this type; the library stays as
                    // long as the pointer, because both are kept in one value.
                    let $name = unsafe { library.get($symbol.as_bytes()) }
                        .map(|symbol| *symbol)
                        .map_err(|_| NoGpu::Incomplete { symbol: $symbol })?;
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
    primary_retain = "cuDevicePrimaryCtxRetain" (*mut Handle, DeviceHandle);
    primary_release = "cuDevicePrimaryCtxRelease_v2" (DeviceHandle);
    set_current = "cuCtxSetCurrent" (Handle);
    mem_get_info = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    mem_alloc = "cuMemAlloc_v2" (*mut u64, usize);
    mem_free = "cuMemFree_v2" (u64);
    mem_host_alloc = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    mem_free_host = "cuMemFreeHost" (*mut c_void);
    copy_in = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle);
    copy_out = "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    stream_create = "cuStreamCreate" (*mut Handle, c_uint);
    stream_destroy = "cuStreamDestroy_v2" (Handle);
    stream_synchronize = "cuStreamSynchronize" (Handle);
    module_load = "cuModuleLoadData" (*mut Handle, *const c_void);
    module_unload = "cuModuleUnload" (Handle);
    module_get_function = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch_kernel = "cuLaunchKernel" (
        Handle,
        c_uint, c_uint, c_uint,
        c_uint, c_uint, c_uint,
        c_uint,
        Handle,
        *mut *mut c_void,
        *mut *mut c_void
    );
}

impl Driver {
    /// Opens the library, by its name or its path, and starts it.
    pub(super) fn open(library: impl AsRef<OsStr>) -> Result<Self, NoGpu> {
        // SAFETY: NVIDIA's library runs no code when it is opened that asks anything of the program.
        let library = unsafe { Library::new(library.as_ref()) };
        let library = library.map_err(|error| NoGpu::NoDriver {
            reason: error.to_string(),
        })?;
        // Old drivers answer this one question too, and deserve a better answer than a missing symbol.
        let version = version_of(&library)?;
        if version < NEEDED {
            return Err(NoGpu::Old {
                found: version_text(version),
            });
        }
        init(&library)?;
        Self::of(library, version)
    }
}

fn version_of(library: &Library) -> Result<c_int, NoGpu> {
    let symbol = "cuDriverGetVersion";
    // SAFETY: the driver's documentation gives the symbol this type.
    let get = unsafe { library.get::<GetVersion>(symbol.as_bytes()) };
    let get = get.map_err(|_| NoGpu::Incomplete { symbol })?;
    let mut version = 0;
    // SAFETY: it writes one number, and may be called before anything else.
    unsafe { get(&raw mut version) }.opening(symbol)?;
    Ok(version)
}

fn init(library: &Library) -> Result<(), NoGpu> {
    let symbol = "cuInit";
    // SAFETY: the driver's documentation gives the symbol this type.
    let init = unsafe { library.get::<Init>(symbol.as_bytes()) };
    let init = init.map_err(|_| NoGpu::Incomplete { symbol })?;
    // SAFETY: it may be called at any time; 0 is the only flag that there is.
    unsafe { init(0) }.opening(symbol)
}
