//! Chooses the engine, its device and its precision.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use flow_cuda::Gpu;
use flow_kernels::{CpuPrecision, InstructionSetUnavailable, Kernels};

use crate::device::OpenDevices;
use crate::options::{EncoderOptions, EngineKind, Precision};

/// What computes a model.
#[derive(Debug, Clone)]
pub enum EngineConfig {
    /// flow's own kernels on the CPU, and a folder for what is computed from a model once.
    Cpu(Kernels, Option<PathBuf>),
    /// flow's own kernels on at least one GPU.
    Gpu(Vec<Arc<dyn Gpu>>, flow_cuda::GpuPrecision),
    /// candle on the CPU, with this number of threads.
    Candle(NonZeroUsize),
}

/// The requested engine, device and precision cannot be combined, or are not available.
#[derive(Debug, thiserror::Error)]
pub enum EngineConfigError {
    /// The machine does not have the requested instruction set.
    #[error(transparent)]
    InstructionSet(#[from] InstructionSetUnavailable),
    /// candle supports 32-bit floats only.
    #[error("`engine` is `candle`, which supports `precision: f32` only")]
    CandlePrecision,
    /// candle supports the CPU only.
    #[error("`engine` is `candle`, which runs on the CPU only; set `device: cpu`")]
    CandleDevice,
    /// The precision is supported by GPUs only.
    #[error(
        "`precision` is `{0}`, which only GPUs support; the CPU supports `f32`, `bf16`, `int8`, `auto` and `fast`"
    )]
    GpuPrecision(Precision),
    /// The precision is supported by the CPU only.
    #[error(
        "`precision` is `{0}`, which only the CPU supports; set `device: cpu`, or one of `f16`, `bf16`, `tf32`, `f32`, `auto` and `fast` on a GPU"
    )]
    CpuPrecision(Precision),
}

impl EngineConfig {
    /// The configuration that the options ask for, on these devices.
    ///
    /// # Errors
    ///
    /// If it is not available.
    pub fn choose(
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<Self, EngineConfigError> {
        match (options.engine, devices.gpus.is_empty()) {
            (EngineKind::Candle, true) => match options.precision {
                None | Some(Precision::F32 | Precision::Auto | Precision::Fast) => {
                    Ok(Self::Candle(options.threads.unwrap_or(devices.cores)))
                }
                Some(_) => Err(EngineConfigError::CandlePrecision),
            },
            (EngineKind::Candle, false) => Err(EngineConfigError::CandleDevice),
            (EngineKind::Flow, true) => {
                let kernels = cpu_kernels(options)?;
                Ok(Self::Cpu(kernels, options.cache_folder.clone()))
            }
            (EngineKind::Flow, false) => Ok(Self::Gpu(devices.gpus, gpu_precision(options)?)),
        }
    }
}

/// flow's own kernels for 32-bit floats on the CPU, with the instruction set that the options name.
///
/// # Errors
///
/// If the machine does not have it.
pub(crate) fn exact_cpu_kernels(options: &EncoderOptions) -> Result<Kernels, EngineConfigError> {
    Ok(Kernels::select(CpuPrecision::F32, options.back_end)?)
}

/// flow's own kernels on the CPU, as the options ask for them.
///
/// # Errors
///
/// If they are not available.
pub(crate) fn cpu_kernels(options: &EncoderOptions) -> Result<Kernels, EngineConfigError> {
    let precision = cpu_precision(options)?;
    Ok(Kernels::select(precision, options.back_end)?)
}

fn cpu_precision(options: &EncoderOptions) -> Result<CpuPrecision, EngineConfigError> {
    match options.precision {
        Some(precision @ (Precision::F16 | Precision::Tf32)) => {
            Err(EngineConfigError::GpuPrecision(precision))
        }
        Some(Precision::Bf16) => Ok(CpuPrecision::Bf16),
        Some(Precision::Int8) => Ok(CpuPrecision::Int8),
        Some(Precision::Auto) => {
            let kernels = Kernels::select(CpuPrecision::Bf16, options.back_end)?;
            Ok(match kernels.instruction_set().has_bf16() {
                true => CpuPrecision::Bf16,
                false => CpuPrecision::F32,
            })
        }
        // The encoder has replaced `fast`, unless it has no GPU any more.
        None | Some(Precision::F32 | Precision::Fast) => Ok(CpuPrecision::F32),
    }
}

fn gpu_precision(options: &EncoderOptions) -> Result<flow_cuda::GpuPrecision, EngineConfigError> {
    match options.precision {
        None | Some(Precision::F16 | Precision::Auto | Precision::Fast) => {
            Ok(flow_cuda::GpuPrecision::F16)
        }
        Some(Precision::F32) => Ok(flow_cuda::GpuPrecision::F32),
        Some(Precision::Tf32) => Ok(flow_cuda::GpuPrecision::Tf32),
        Some(Precision::Bf16) => Ok(flow_cuda::GpuPrecision::Bf16),
        Some(precision @ Precision::Int8) => Err(EngineConfigError::CpuPrecision(precision)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int8(engine: EngineKind) -> EncoderOptions {
        EncoderOptions {
            precision: Some(Precision::Int8),
            engine,
            ..EncoderOptions::default()
        }
    }

    #[test]
    fn int8_is_for_our_kernels_on_the_cpu() {
        let cpu = || OpenDevices::cpu(NonZeroUsize::MIN, None);
        let config = EngineConfig::choose(&int8(EngineKind::Flow), cpu()).unwrap();
        let EngineConfig::Cpu(kernels, _) = config else {
            panic!("{config:?}");
        };
        assert_eq!(kernels.precision(), CpuPrecision::Int8);
        let error = EngineConfig::choose(&int8(EngineKind::Candle), cpu()).unwrap_err();
        assert!(
            error.to_string().contains("`precision: f32` only"),
            "{error}"
        );
        let error = gpu_precision(&int8(EngineKind::Flow))
            .unwrap_err()
            .to_string();
        for part in ["`int8`", "only the CPU", "`device: cpu`", "`f16`"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
