//! Maps the status codes of the driver's functions to errors.

use std::ffi::c_int;

use crate::error::GpuUnavailable;
use crate::gpu::GpuError;

/// The status code of a call. 0 means success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Status(c_int);

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorClass {
    OutOfMemory,
    /// Every later call of this process fails as well.
    Lost,
    NoDevice,
    /// The driver is older than the program needs.
    DriverTooOld,
    /// The program has no kernels for this device.
    IncompatibleKernels,
    Other,
}

/// Errors with a description. The numbers are those of CUDA, which never change.
const TABLE: &[(c_int, ErrorClass, &str)] = &[
    (1, ErrorClass::Other, "an invalid value"),
    (2, ErrorClass::OutOfMemory, "out of memory"),
    (3, ErrorClass::Other, "the driver is not initialised"),
    (4, ErrorClass::Lost, "the driver is shutting down"),
    (
        34,
        ErrorClass::DriverTooOld,
        "the library is a stub, there for linking only",
    ),
    (
        35,
        ErrorClass::DriverTooOld,
        "the driver is older than the library",
    ),
    (36, ErrorClass::DriverTooOld, "a newer driver is needed"),
    (
        46,
        ErrorClass::Other,
        "the device is busy or in use exclusively",
    ),
    (100, ErrorClass::NoDevice, "no device"),
    (101, ErrorClass::Other, "no such device"),
    (
        200,
        ErrorClass::IncompatibleKernels,
        "the kernels' image is invalid",
    ),
    (201, ErrorClass::Other, "an invalid context"),
    (
        209,
        ErrorClass::IncompatibleKernels,
        "no kernels for this device",
    ),
    (214, ErrorClass::Lost, "an uncorrectable memory error (ECC)"),
    (
        218,
        ErrorClass::IncompatibleKernels,
        "the kernels' PTX could not be compiled",
    ),
    (220, ErrorClass::Lost, "an uncorrectable NVLink error"),
    (
        221,
        ErrorClass::Other,
        "the compiler of PTX is missing from the driver",
    ),
    (
        222,
        ErrorClass::DriverTooOld,
        "the kernels' PTX is newer than the driver",
    ),
    (
        226,
        ErrorClass::Lost,
        "an uncorrectable error of the device, contained",
    ),
    (304, ErrorClass::Other, "the operating system refused"),
    (500, ErrorClass::Other, "not found"),
    (
        700,
        ErrorClass::Lost,
        "an illegal memory address in a kernel",
    ),
    (
        701,
        ErrorClass::Other,
        "the kernel needs more registers or memory than a block can have",
    ),
    (702, ErrorClass::Lost, "a kernel took too long"),
    (709, ErrorClass::Lost, "the context is destroyed"),
    (710, ErrorClass::Lost, "an assertion in a kernel"),
    (714, ErrorClass::Lost, "a hardware stack error"),
    (715, ErrorClass::Lost, "an illegal instruction"),
    (716, ErrorClass::Lost, "a misaligned address in a kernel"),
    (
        717,
        ErrorClass::Lost,
        "an address of the wrong space in a kernel",
    ),
    (718, ErrorClass::Lost, "an invalid program counter"),
    (719, ErrorClass::Lost, "a kernel failed"),
    (800, ErrorClass::Other, "not permitted"),
    (801, ErrorClass::Other, "not supported"),
    (
        802,
        ErrorClass::Other,
        "the system is not ready; is NVIDIA's fabric manager running?",
    ),
    (
        803,
        ErrorClass::DriverTooOld,
        "the library and the kernel's part of the driver are of different versions",
    ),
    (
        804,
        ErrorClass::DriverTooOld,
        "forward compatibility is not supported on this device",
    ),
    (999, ErrorClass::Lost, "an unknown error"),
];

impl Status {
    /// The error of a call that allocates no memory.
    pub(super) fn check(self, call: &'static str) -> Result<(), GpuError> {
        self.check_allocation(call, 0)
    }

    /// The error of a call that allocates `bytes` bytes.
    pub(super) fn check_allocation(self, call: &'static str, bytes: usize) -> Result<(), GpuError> {
        if self.0 == 0 {
            return Ok(());
        }
        let reason = self.to_string();
        Err(match self.class() {
            ErrorClass::OutOfMemory => GpuError::OutOfMemory { bytes },
            ErrorClass::Lost => GpuError::Lost { call, reason },
            ErrorClass::NoDevice
            | ErrorClass::DriverTooOld
            | ErrorClass::IncompatibleKernels
            | ErrorClass::Other => GpuError::Failed { call, reason },
        })
    }

    /// The error of a call that opens the driver or a device.
    pub(super) fn check_open(self, call: &'static str) -> Result<(), GpuUnavailable> {
        let reason = self.to_string();
        self.check(call).map_err(|error| match self.class() {
            ErrorClass::NoDevice => GpuUnavailable::NoDevice,
            ErrorClass::DriverTooOld => GpuUnavailable::DriverMismatch { reason },
            ErrorClass::IncompatibleKernels => GpuUnavailable::IncompatibleKernels { reason },
            ErrorClass::OutOfMemory => GpuUnavailable::OutOfMemory,
            ErrorClass::Lost | ErrorClass::Other => GpuUnavailable::Driver(error),
        })
    }

    fn class(self) -> ErrorClass {
        self.row().map_or(ErrorClass::Other, |(_, class, _)| *class)
    }

    fn row(self) -> Option<&'static (c_int, ErrorClass, &'static str)> {
        TABLE.iter().find(|(number, ..)| *number == self.0)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.row() {
            Some((number, _, text)) => write!(f, "{text} (error {number})"),
            None => write!(f, "error {}", self.0),
        }
    }
}
