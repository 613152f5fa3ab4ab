//! Chooses and opens the device that computes.
//!
//! A GPU needs NVIDIA's driver, whose library is opened only when a GPU is requested. A GPU that is requested by name and
//! cannot be used is an error; with `auto`, the CPU computes instead and the reason is logged.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;

use flow_core::Chain;
use flow_cuda::{CudaDriver, Gpu, GpuUnavailable};
use serde::Deserialize;

/// Minimum free bytes of a GPU's memory. With less, no model fits together with its batches.
const MEMORY_MIN: usize = 256 << 20;

/// A requested device, named as in PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum DeviceSpec {
    /// The CPU.
    #[default]
    Cpu,
    /// One NVIDIA GPU, by number, or the first usable one.
    Cuda(Option<u32>),
    /// All usable NVIDIA GPUs, which share the work.
    AllCuda,
    /// The first usable GPU if there is one, else the CPU.
    Auto,
}

/// The opened devices of an encoder.
#[derive(Debug, Clone)]
pub struct OpenDevices {
    /// Number of CPU cores that may be used.
    pub cores: NonZeroUsize,
    /// The GPUs that compute. If there are none, the CPU computes.
    pub gpus: Vec<Arc<dyn Gpu>>,
    /// Why `auto` has fallen back to the CPU, if it has.
    pub fallback_reason: Option<String>,
}

/// The text does not name a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a device: give `cpu`, `cuda`, `cuda:0`, `cuda:all`, `gpu` or `auto`")]
pub struct UnknownDevice(String);

/// The requested device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "device `{requested}` is not available: {reason}; available is `cpu` with {cores} cores: set `device: cpu`, or `device: auto` for the best available device"
)]
pub struct DeviceUnavailable {
    requested: DeviceSpec,
    reason: String,
    cores: NonZeroUsize,
}

/// Why a GPU cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum UnusableGpu {
    #[error(transparent)]
    Gpu(#[from] GpuUnavailable),
    #[error(
        "`{name}` has {} MiB of free memory, but at least {} MiB are needed",
        free >> 20,
        MEMORY_MIN >> 20
    )]
    LowMemory { name: String, free: usize },
}

impl DeviceSpec {
    /// Opens the device. `cores` is the number of CPU cores that may be used.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    pub fn open(self, cores: NonZeroUsize) -> Result<OpenDevices, DeviceUnavailable> {
        self.open_with(cores, CudaDriver::open)
    }

    fn open_with(
        self,
        cores: NonZeroUsize,
        driver: impl FnOnce() -> Result<CudaDriver, GpuUnavailable>,
    ) -> Result<OpenDevices, DeviceUnavailable> {
        let opened = match self {
            Self::Cpu => return Ok(OpenDevices::cpu(cores, None)),
            Self::Cuda(Some(number)) => driver()
                .map_err(UnusableGpu::from)
                .and_then(|cuda| Ok(vec![open_gpu(&cuda, number)?])),
            Self::Cuda(None) | Self::Auto => driver()
                .map_err(UnusableGpu::from)
                .and_then(|cuda| open_first(&cuda)),
            Self::AllCuda => driver()
                .map_err(UnusableGpu::from)
                .and_then(|cuda| open_all(&cuda)),
        };
        match opened {
            Ok(gpus) => Ok(OpenDevices {
                cores,
                gpus,
                fallback_reason: None,
            }),
            Err(error) if self == Self::Auto => {
                Ok(OpenDevices::cpu(cores, Some(Chain(&error).to_string())))
            }
            Err(error) => Err(DeviceUnavailable {
                requested: self,
                reason: Chain(&error).to_string(),
                cores,
            }),
        }
    }
}

impl OpenDevices {
    /// The CPU alone.
    #[must_use]
    pub fn cpu(cores: NonZeroUsize, fallback_reason: Option<String>) -> Self {
        Self {
            cores,
            gpus: Vec::new(),
            fallback_reason,
        }
    }
}

/// Loads a model onto these devices. If the choice of the device was left open, and the model does not fit into the memory of a GPU, it is
/// loaded onto the CPU, which is logged.
///
/// # Errors
///
/// If `load` fails for another reason, or on the CPU.
pub(crate) fn load_or_fall_back<T, E: std::error::Error + 'static>(
    requested: DeviceSpec,
    devices: OpenDevices,
    load: impl Fn(OpenDevices) -> Result<T, E>,
    is_out_of_memory: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let cores = devices.cores;
    match load(devices) {
        Err(error) if requested == DeviceSpec::Auto && is_out_of_memory(&error) => {
            tracing::info!(device = "cpu", reason = %Chain(&error), "device chosen");
            load(OpenDevices::cpu(cores, None))
        }
        loaded => loaded,
    }
}

fn open_gpu(cuda: &CudaDriver, number: u32) -> Result<Arc<dyn Gpu>, UnusableGpu> {
    let device = cuda.device(number)?;
    let memory = device.memory().map_err(GpuUnavailable::Driver)?;
    if memory.free < MEMORY_MIN {
        let (name, free) = (device.name(), memory.free);
        return Err(UnusableGpu::LowMemory { name, free });
    }
    Ok(Arc::new(device))
}

/// Opens the first usable GPU. If there is none, the error is that of the first GPU.
fn open_first(cuda: &CudaDriver) -> Result<Vec<Arc<dyn Gpu>>, UnusableGpu> {
    let mut first_error = None;
    for info in cuda.list()? {
        match open_gpu(cuda, info.number) {
            Ok(gpu) => return Ok(vec![gpu]),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(UnusableGpu::Gpu(GpuUnavailable::NoDevice)))
}

/// Opens all usable GPUs. If there is none, the error is that of the first GPU.
fn open_all(cuda: &CudaDriver) -> Result<Vec<Arc<dyn Gpu>>, UnusableGpu> {
    let mut opened = Vec::new();
    let mut first_error = None;
    for info in cuda.list()? {
        match open_gpu(cuda, info.number) {
            Ok(gpu) => opened.push(gpu),
            Err(error) => {
                tracing::warn!(gpu = info.number, %error, "GPU skipped");
                first_error = first_error.or(Some(error));
            }
        }
    }
    match first_error {
        Some(error) if opened.is_empty() => Err(error),
        _ => Ok(opened),
    }
}

impl FromStr for DeviceSpec {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "auto" => Ok(Self::Auto),
            "cuda" | "gpu" => Ok(Self::Cuda(None)),
            "cuda:all" => Ok(Self::AllCuda),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(|number| Self::Cuda(Some(number)))
                .ok_or_else(|| UnknownDevice(text.to_owned())),
        }
    }
}

impl TryFrom<String> for DeviceSpec {
    type Error = UnknownDevice;

    fn try_from(text: String) -> Result<Self, UnknownDevice> {
        text.parse()
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(number)) => write!(f, "cuda:{number}"),
            Self::AllCuda => f.write_str("cuda:all"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    fn old_driver() -> Result<CudaDriver, GpuUnavailable> {
        Err(GpuUnavailable::DriverTooOld {
            found: "12.4".to_owned(),
        })
    }

    #[test]
    fn devices_are_named_as_in_pytorch() {
        for (text, expected) in [
            ("cpu", DeviceSpec::Cpu),
            ("auto", DeviceSpec::Auto),
            ("cuda", DeviceSpec::Cuda(None)),
            ("gpu", DeviceSpec::Cuda(None)),
            ("cuda:3", DeviceSpec::Cuda(Some(3))),
            ("cuda:all", DeviceSpec::AllCuda),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        for bad in ["", "CPU", "cuda:", "cuda:x", "tpu", "cuda:-1", "gpu:0"] {
            assert!(bad.parse::<DeviceSpec>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_unavailable_gpu_is_an_error_with_the_reason_and_the_alternatives() {
        for requested in ["cuda", "cuda:1", "cuda:all"] {
            let device: DeviceSpec = requested.parse().unwrap();
            let error = device.open_with(CORES, old_driver).unwrap_err().to_string();
            for part in [
                requested,
                "supports CUDA 12.4",
                "`cpu` with 2 cores",
                "`device: auto`",
            ] {
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn auto_falls_back_to_the_cpu_with_a_reason() {
        let opened = DeviceSpec::Auto.open_with(CORES, old_driver).unwrap();
        let reason = opened.fallback_reason.unwrap();
        assert!(
            reason.contains("13.0 is needed") && opened.gpus.is_empty(),
            "{reason}"
        );
    }

    #[test]
    fn the_cpu_needs_no_driver() {
        let opened = DeviceSpec::Cpu.open_with(CORES, || panic!("the driver is opened"));
        assert_eq!(opened.unwrap().fallback_reason, None);
    }
}
