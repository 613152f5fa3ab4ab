//! Which device computes, and what to say when it is not there.
//!
//! There is one back end so far, the CPU. The words for others are known, so that a flow file that asks
//! for a GPU is told what is missing and never runs slowly without a word.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::Deserialize;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// A GPU of NVIDIA's, by number; the first that works if there is none.
    Cuda(Option<u32>),
    /// A GPU if there is one, else the processor.
    Auto,
}

/// What will compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// How many cores the processor lends us.
    pub cores: NonZeroUsize,
    /// Why it is not what `auto` would rather have.
    pub fallback: Option<&'static str>,
}

/// The text names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a device: give `cpu`, `cuda`, `cuda:0`, `gpu` or `auto`")]
pub struct BadDevice(String);

/// The device is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "device `{wanted}` is not there: {NO_CUDA}; there is `cpu` with {cores} cores; say `device: cpu`, or `device: auto` for the best there is"
)]
pub struct NoDevice {
    wanted: Device,
    cores: NonZeroUsize,
}

/// Why no GPU is used.
pub const NO_CUDA: &str = "this program is built without CUDA";

impl Device {
    /// Opens the device on a machine with so many cores.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub fn open(self, cores: NonZeroUsize) -> Result<Opened, NoDevice> {
        match self {
            Self::Cpu => Ok(Opened {
                cores,
                fallback: None,
            }),
            Self::Auto => Ok(Opened {
                cores,
                fallback: Some(NO_CUDA),
            }),
            Self::Cuda(_) => Err(NoDevice {
                wanted: self,
                cores,
            }),
        }
    }
}

impl FromStr for Device {
    type Err = BadDevice;

    fn from_str(text: &str) -> Result<Self, BadDevice> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "auto" => Ok(Self::Auto),
            "cuda" | "gpu" => Ok(Self::Cuda(None)),
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
            Self::Auto => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    #[test]
    fn devices_are_called_as_in_pytorch() {
        for (text, wanted) in [
            ("cpu", Device::Cpu),
            ("auto", Device::Auto),
            ("cuda", Device::Cuda(None)),
            ("gpu", Device::Cuda(None)),
            ("cuda:3", Device::Cuda(Some(3))),
        ] {
            assert_eq!(text.parse(), Ok(wanted));
        }
        for bad in ["", "CPU", "cuda:", "cuda:x", "tpu", "cuda:-1"] {
            assert!(bad.parse::<Device>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error_that_says_what_is() {
        let error = "cuda:1"
            .parse::<Device>()
            .unwrap()
            .open(CORES)
            .unwrap_err()
            .to_string();
        for part in [
            "`cuda:1`",
            "without CUDA",
            "`cpu` with 2 cores",
            "`device: auto`",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn auto_falls_back_and_says_why() {
        let opened = Device::Auto.open(CORES).unwrap();
        assert_eq!(opened.fallback, Some(NO_CUDA));
        assert_eq!(Device::Cpu.open(CORES).unwrap().fallback, None);
    }
}
