//! Which device computes, and what to say when it is not there.
//!
//! A GPU needs NVIDIA's driver, which is looked for when somebody asks for one and not before. A flow file that asks
//! for a GPU is told what is missing and never runs slowly without a word; one that leaves the choice is told why it
//! runs without.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;

use flow_core::Chain;
use flow_cuda::{Cuda, Gpu, NoGpu};
use serde::Deserialize;

/// Bytes of a GPU's memory below which no model fits with the batches that it works on.
const MEMORY_MIN: usize = 256 << 20;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// A GPU of NVIDIA's, by number; the first that works if there is none.
    Cuda(Option<u32>),
    /// All GPUs that work, each with a share of the work.
    AllCuda,
    /// A GPU if there is one, else the processor.
    Auto,
}

/// What will compute.
#[derive(Debug, Clone)]
pub struct Opened {
    /// How many cores the processor lends us.
    pub cores: NonZeroUsize,
    /// The GPUs that compute; none: the processor does.
    pub gpus: Vec<Arc<dyn Gpu>>,
    /// Why it is not what `auto` would rather have.
    pub fallback: Option<String>,
}

/// The text names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a device: give `cpu`, `cuda`, `cuda:0`, `cuda:all`, `gpu` or `auto`")]
pub struct BadDevice(String);

/// The device is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "device `{wanted}` is not there: {why}; there is `cpu` with {cores} cores; say `device: cpu`, or `device: auto` for the best there is"
)]
pub struct NoDevice {
    wanted: Device,
    why: String,
    cores: NonZeroUsize,
}

/// Why a GPU does not compute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Gpu(#[from] NoGpu),
    #[error(
        "`{name}` has {} MiB of memory free, and {} MiB are the least",
        free >> 20,
        MEMORY_MIN >> 20
    )]
    Full { name: String, free: usize },
}

impl Device {
    /// Opens the device on a machine with so many cores.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub fn open(self, cores: NonZeroUsize) -> Result<Opened, NoDevice> {
        self.open_with(cores, Cuda::open)
    }

    fn open_with(
        self,
        cores: NonZeroUsize,
        driver: impl FnOnce() -> Result<Cuda, NoGpu>,
    ) -> Result<Opened, NoDevice> {
        let found = match self {
            Self::Cpu => return Ok(Opened::cpu(cores, None)),
            Self::Cuda(Some(number)) => driver()
                .map_err(Unusable::from)
                .and_then(|cuda| Ok(vec![open(&cuda, number)?])),
            Self::Cuda(None) | Self::Auto => driver()
                .map_err(Unusable::from)
                .and_then(|cuda| first(&cuda)),
            Self::AllCuda => driver().map_err(Unusable::from).and_then(|cuda| all(&cuda)),
        };
        let told = |why: Unusable| Chain(&why).to_string();
        match found {
            Ok(gpus) => Ok(Opened {
                cores,
                gpus,
                fallback: None,
            }),
            Err(why) if self == Self::Auto => Ok(Opened::cpu(cores, Some(told(why)))),
            Err(why) => Err(NoDevice {
                wanted: self,
                why: told(why),
                cores,
            }),
        }
    }
}

impl Opened {
    /// The processor alone.
    #[must_use]
    pub fn cpu(cores: NonZeroUsize, fallback: Option<String>) -> Self {
        Self {
            cores,
            gpus: Vec::new(),
            fallback,
        }
    }
}

fn open(cuda: &Cuda, number: u32) -> Result<Arc<dyn Gpu>, Unusable> {
    let device = cuda.device(number)?;
    let memory = device.memory().map_err(NoGpu::Driver)?;
    if memory.free < MEMORY_MIN {
        let (name, free) = (device.name(), memory.free);
        return Err(Unusable::Full { name, free });
    }
    Ok(Arc::new(device))
}

/// The first that works; if none does, why the first does not.
fn first(cuda: &Cuda) -> Result<Vec<Arc<dyn Gpu>>, Unusable> {
    let mut why = None;
    for found in cuda.list()? {
        match open(cuda, found.number) {
            Ok(gpu) => return Ok(vec![gpu]),
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or(Unusable::Gpu(NoGpu::NoDevice)))
}

/// All that work; if none does, why the first does not.
fn all(cuda: &Cuda) -> Result<Vec<Arc<dyn Gpu>>, Unusable> {
    let mut opened = Vec::new();
    let mut first = None;
    for found in cuda.list()? {
        match open(cuda, found.number) {
            Ok(gpu) => opened.push(gpu),
            Err(error) => {
                tracing::warn!(gpu = found.number, %error, "GPU is left out");
                first = first.or(Some(error));
            }
        }
    }
    match first {
        Some(error) if opened.is_empty() => Err(error),
        _ => Ok(opened),
    }
}

impl FromStr for Device {
    type Err = BadDevice;

    fn from_str(text: &str) -> Result<Self, BadDevice> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "auto" => Ok(Self::Auto),
            "cuda" | "gpu" => Ok(Self::Cuda(None)),
            "cuda:all" => Ok(Self::AllCuda),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(|number| Self::Cuda(Some(number)))
                .ok_or_else(|| BadDevice(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = BadDevice;

    fn try_from(text: String) -> Result<Self, BadDevice> {
        text.parse()
    }
}

impl fmt::Display for Device {
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

    fn old() -> Result<Cuda, NoGpu> {
        Err(NoGpu::Old {
            found: "12.4".to_owned(),
        })
    }

    #[test]
    fn devices_are_called_as_in_pytorch() {
        for (text, wanted) in [
            ("cpu", Device::Cpu),
            ("auto", Device::Auto),
            ("cuda", Device::Cuda(None)),
            ("gpu", Device::Cuda(None)),
            ("cuda:3", Device::Cuda(Some(3))),
            ("cuda:all", Device::AllCuda),
        ] {
            assert_eq!(text.parse(), Ok(wanted));
        }
        for bad in ["", "CPU", "cuda:", "cuda:x", "tpu", "cuda:-1", "gpu:0"] {
            assert!(bad.parse::<Device>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error_that_says_why_and_what_is() {
        for wanted in ["cuda", "cuda:1", "cuda:all"] {
            let device: Device = wanted.parse().unwrap();
            let error = device.open_with(CORES, old).unwrap_err().to_string();
            for part in [
                wanted,
                "serves CUDA 12.4",
                "`cpu` with 2 cores",
                "`device: auto`",
            ] {
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn auto_falls_back_and_says_why() {
        let opened = Device::Auto.open_with(CORES, old).unwrap();
        let why = opened.fallback.unwrap();
        assert!(
            why.contains("13.0 is needed") && opened.gpus.is_empty(),
            "{why}"
        );
    }

    #[test]
    fn the_processor_needs_no_driver() {
        let opened = Device::Cpu.open_with(CORES, || panic!("nobody asked for it"));
        assert_eq!(opened.unwrap().fallback, None);
    }
}
