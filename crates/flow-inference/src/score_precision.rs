//! The precisions of models that give scores instead of vectors.

use flow_models::{DeviceSpec, Precision};

/// A precision that a model with scores does not support on its device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedPrecision {
    /// Its meaning is defined for vectors.
    #[error(
        "`precision` is `fast`, which is for models that give vectors; this executor supports `f32`, `bf16`, `int8` and `auto` on the CPU, and `f32`, `tf32`, `f16`, `bf16` and `auto` on a GPU"
    )]
    Fast,
    /// The CPU does not have it.
    #[error(
        "`precision` is `{0}`, which only GPUs support; set `device: cuda`, or one of `f32`, `bf16`, `int8` and `auto`"
    )]
    OnCpu(Precision),
    /// GPUs do not have it.
    #[error(
        "`precision` is `{0}`, which only the CPU supports; set `device: cpu`, or one of `f32`, `tf32`, `f16`, `bf16` and `auto`"
    )]
    OnGpu(Precision),
}

/// Checks the precision of a model that gives scores instead of vectors.
///
/// # Errors
///
/// If the device does not support it. What `auto` chooses is known only when the model is loaded.
pub fn check_score_precision(
    device: DeviceSpec,
    precision: Option<Precision>,
) -> Result<(), UnsupportedPrecision> {
    use UnsupportedPrecision::{Fast, OnCpu, OnGpu};
    match (device, precision) {
        (_, Some(Precision::Fast)) => Err(Fast),
        (DeviceSpec::Cpu, Some(precision @ (Precision::F16 | Precision::Tf32))) => {
            Err(OnCpu(precision))
        }
        (DeviceSpec::Cuda(_) | DeviceSpec::AllCuda, Some(precision @ Precision::Int8)) => {
            Err(OnGpu(precision))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_precisions_of_its_own() {
        use UnsupportedPrecision::{Fast, OnCpu, OnGpu};
        let check =
            |device: &str, precision| check_score_precision(device.parse().unwrap(), precision);
        for device in ["cpu", "cuda", "cuda:all", "auto"] {
            assert_eq!(check(device, None), Ok(()));
            assert_eq!(check(device, Some(Precision::Bf16)), Ok(()));
            assert_eq!(check(device, Some(Precision::Fast)), Err(Fast));
        }
        let (f16, int8) = (Precision::F16, Precision::Int8);
        assert_eq!(check("cpu", Some(f16)), Err(OnCpu(f16)));
        assert_eq!(check("cpu", Some(int8)), Ok(()));
        assert_eq!(check("cuda:1", Some(f16)), Ok(()));
        assert_eq!(check("cuda:1", Some(int8)), Err(OnGpu(int8)));
        assert_eq!(check("auto", Some(f16)), Ok(()));
        assert_eq!(check("auto", Some(int8)), Ok(()));
    }
}
