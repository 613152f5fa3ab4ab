//! Reasons why a GPU cannot be used.

use std::ffi::c_int;

use crate::gpu::{Capability, GpuError};

/// The oldest GPUs that nvcc 13 generates code for: Turing.
pub const MIN_CAPABILITY: Capability = Capability { major: 7, minor: 5 };

/// The oldest CUDA version of a driver that loads the output of nvcc 13.0, as the driver encodes it.
pub(crate) const MIN_CUDA_VERSION: c_int = 13_000;

/// A GPU cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuUnavailable {
    /// The driver's library could not be opened.
    #[error("NVIDIA's driver is not installed ({reason}); install version 580 or newer")]
    NoDriver {
        /// The error of the operating system.
        reason: String,
    },
    /// The driver lacks a function.
    #[error("NVIDIA's driver has no `{symbol}`, so it is too old; version 580 or newer is needed")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// The driver supports only CUDA versions older than that of the kernels.
    #[error(
        "NVIDIA's driver is too old: it supports CUDA {found}, and {} is needed; install version 580 or newer",
        version_text(MIN_CUDA_VERSION)
    )]
    DriverTooOld {
        /// The newest CUDA version that it supports, such as `12.4`.
        found: String,
    },
    /// Parts of the driver do not match each other, or the kernels.
    #[error(
        "NVIDIA's driver does not match: {reason}; install version 580 or newer, and restart the machine after that"
    )]
    DriverMismatch {
        /// The error of the driver.
        reason: String,
    },
    /// The driver sees no GPU.
    #[error("NVIDIA's driver sees no GPU; does `CUDA_VISIBLE_DEVICES` hide it?")]
    NoDevice,
    /// No GPU has this number.
    #[error("there is no GPU {number}, but {}", device_names(*count))]
    NoSuchDevice {
        /// The requested number.
        number: u32,
        /// Number of GPUs.
        count: u32,
    },
    /// The GPU is too old.
    #[error("`{name}` has compute capability {found}, and at least {MIN_CAPABILITY} is needed")]
    CapabilityTooLow {
        /// Name of the GPU.
        name: String,
        /// Its compute capability.
        found: Capability,
    },
    /// The program was built without kernels.
    #[error("this program is built without CUDA kernels; build it with `cargo xtask build-cuda`")]
    NoKernels,
    /// The kernels were compiled for other GPUs.
    #[error(
        "this program's kernels do not run on this GPU: {reason}; build them for it with `cargo xtask build-cuda --cap`"
    )]
    IncompatibleKernels {
        /// What does not match.
        reason: String,
    },
    /// All of its memory is in use.
    #[error("the GPU has no free memory")]
    OutOfMemory,
    /// Another error of the driver.
    #[error("NVIDIA's driver failed")]
    Driver(#[source] GpuError),
}

/// A CUDA version as text: 13000 is `13.0`, and 12040 is `12.4`.
pub(crate) fn version_text(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The names of `count` devices, for messages.
fn device_names(count: u32) -> String {
    match count {
        1 => "only `cuda:0`".to_owned(),
        2 => "`cuda:0` and `cuda:1`".to_owned(),
        _ => format!("`cuda:0` to `cuda:{}`", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_devices_are_named() {
        assert_eq!(device_names(1), "only `cuda:0`");
        assert_eq!(device_names(2), "`cuda:0` and `cuda:1`");
        assert_eq!(device_names(8), "`cuda:0` to `cuda:7`");
    }
}
