//! Options of models that run on the CPU only.

use flow_models::{DeviceSpec, Precision};

/// An option that the models of an executor do not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOnCpu {
    /// A GPU.
    #[error(
        "`device` asks for a GPU, but this executor computes on the CPU only; set `device: cpu`"
    )]
    Device,
    /// A precision that the CPU does not have, or that is not measured for these vectors.
    #[error("`precision` is `{0}`; this executor supports `f32`, `bf16`, `int8` and `auto`")]
    Precision(Precision),
}

/// Checks the device and the precision of a model that runs on the CPU only.
///
/// # Errors
///
/// If one of them is not supported.
pub fn check_cpu_only(device: DeviceSpec, precision: Option<Precision>) -> Result<(), NotOnCpu> {
    if !matches!(device, DeviceSpec::Cpu | DeviceSpec::Auto) {
        return Err(NotOnCpu::Device);
    }
    match precision {
        Some(precision @ (Precision::F16 | Precision::Tf32 | Precision::Fast)) => {
            Err(NotOnCpu::Precision(precision))
        }
        None | Some(Precision::F32 | Precision::Bf16 | Precision::Int8 | Precision::Auto) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_precisions_of_gpus_are_refused() {
        let check = |device: &str, precision| check_cpu_only(device.parse().unwrap(), precision);
        assert_eq!(check("cpu", None), Ok(()));
        assert_eq!(check("auto", Some(Precision::Int8)), Ok(()));
        assert_eq!(check("cuda", None), Err(NotOnCpu::Device));
        for precision in [Precision::F16, Precision::Tf32, Precision::Fast] {
            let refused = Err(NotOnCpu::Precision(precision));
            assert_eq!(check("cpu", Some(precision)), refused);
        }
    }
}
