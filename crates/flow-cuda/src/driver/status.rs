//! What the driver's functions answer, and what it means for whoever asked.

use std::ffi::c_int;

use super::NoGpu;
use crate::GpuError;

/// An answer: 0 is fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Status(c_int);

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    OutOfMemory,
    /// Every later call of this process fails too.
    Lost,
    NoDevice,
    /// The driver is older than what the program was compiled for.
    Old,
    /// Nothing in the program runs on this device.
    NoImage,
    Other,
}

/// The errors whose names say more than their numbers; the numbers are CUDA's and never change.
const TABLE: &[(c_int, Class, &str)] = &[
    (1, Class::Other, "an invalid value"),
    (2, Class::OutOfMemory, "out of memory"),
    (3, Class::Other, "the driver is not initialised"),
    (4, Class::Lost, "the driver is shutting down"),
    (
        34,
        Class::Old,
        "the library is a stub, there for linking only",
    ),
    (35, Class::Old, "the driver is older than the library"),
    (36, Class::Old, "a newer driver is needed"),
    (46, Class::Other, "the device is busy or in use exclusively"),
    (100, Class::NoDevice, "no device"),
    (101, Class::Other, "no such device"),
    (200, Class::NoImage, "the kernels' image is invalid"),
    (201, Class::Other, "an invalid context"),
    (209, Class::NoImage, "no kernels for this device"),
    (214, Class::Lost, "an uncorrectable memory error (ECC)"),
    (
        218,
        Class::NoImage,
        "the kernels' PTX could not be compiled",
    ),
    (220, Class::Lost, "an uncorrectable NVLink error"),
    (
        221,
        Class::Other,
        "the compiler of PTX is missing from the driver",
    ),
    (222, Class::Old, "the kernels' PTX is newer than the driver"),
    (
        226,
        Class::Lost,
        "an uncorrectable error of the device, contained",
    ),
    (304, Class::Other, "the operating system refused"),
    (500, Class::Other, "not found"),
    (700, Class::Lost, "an illegal memory address in a kernel"),
    (
        701,
        Class::Other,
        "the kernel needs more registers or memory than a block can have",
    ),
    (702, Class::Lost, "a kernel took too long"),
    (709, Class::Lost, "the context is destroyed"),
    (710, Class::Lost, "an assertion in a kernel"),
    (714, Class::Lost, "a hardware stack error"),
    (715, Class::Lost, "an illegal instruction"),
    (716, Class::Lost, "a misaligned address in a kernel"),
    (
        717,
        Class::Lost,
        "an address of the wrong space in a kernel",
    ),
    (718, Class::Lost, "an invalid program counter"),
    (719, Class::Lost, "a kernel failed"),
    (800, Class::Other, "not permitted"),
    (801, Class::Other, "not supported"),
    (
        802,
        Class::Other,
        "the system is not ready; is NVIDIA's fabric manager running?",
    ),
    (
        803,
        Class::Old,
        "the library and the kernel's part of the driver are of different versions",
    ),
    (
        804,
        Class::Old,
        "forward compatibility is not supported on this device",
    ),
    (999, Class::Lost, "an unknown error"),
];

impl Status {
    /// An error of a call that asks for no memory.
    pub(super) fn check(self, call: &'static str) -> Result<(), GpuError> {
        self.check_for(call, 0)
    }

    /// An error of a call that asks for so many bytes.
    pub(super) fn check_for(self, call: &'static str, bytes: usize) -> Result<(), GpuError> {
        if self.0 == 0 {
            return Ok(());
        }
        let reason = self.to_string();
        Err(match self.class() {
            Class::OutOfMemory => GpuError::OutOfMemory { bytes },
            Class::Lost => GpuError::Lost { call, reason },
            Class::NoDevice | Class::Old | Class::NoImage | Class::Other => {
                GpuError::Failed { call, reason }
            }
        })
    }

    /// An error of a call that opens a device.
    pub(super) fn opening(self, call: &'static str) -> Result<(), NoGpu> {
        let reason = self.to_string();
        self.check(call).map_err(|error| match self.class() {
            Class::NoDevice => NoGpu::NoDevice,
            Class::Old => NoGpu::Mismatch { reason },
            Class::NoImage => NoGpu::NoImage { reason },
            Class::OutOfMemory => NoGpu::Full,
            Class::Lost | Class::Other => NoGpu::Driver(error),
        })
    }

    fn class(self) -> Class {
        self.row().map_or(Class::Other, |(_, class, _)| *class)
    }

    fn row(self) -> Option<&'static (c_int, Class, &'static str)> {
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
