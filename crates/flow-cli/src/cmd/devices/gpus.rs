//! NVIDIA's GPUs, as their driver's library tells of them. It is opened when it is asked for, so the program
//! starts where there is none.

use std::ffi::OsStr;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use sentence_encoder::NO_CUDA;
use serde::Serialize;

/// The library's name where only the driver is installed, without what one compiles against.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// What was found.
pub(super) enum Gpus {
    Found(Vec<Gpu>),
    /// None, and why.
    None(String),
}

/// One GPU.
#[derive(Debug, Serialize)]
pub(super) struct Gpu {
    device: String,
    name: String,
    /// Names it in `gpus` and CUDA_VISIBLE_DEVICES, whatever its number.
    uuid: String,
    memory_total_bytes: u64,
    memory_free_bytes: u64,
    /// Percent of the last moments in which something ran; none: it does not tell.
    load_percent: Option<u32>,
    /// Such as `9.0`.
    compute_capability: String,
    driver: String,
    /// The newest CUDA that the driver can serve, such as `13.0`.
    driver_cuda: String,
    usable: bool,
    /// Why it is not usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

pub(super) fn look() -> Gpus {
    match all() {
        Ok(gpus) if gpus.is_empty() => Gpus::None("the driver sees none".to_owned()),
        Ok(gpus) => Gpus::Found(gpus),
        Err(NvmlError::LibloadingError(_)) => Gpus::None(format!(
            "`{LIBRARY}` is not there; it comes with NVIDIA's driver"
        )),
        Err(error) => Gpus::None(format!("NVIDIA's driver does not answer: {error}")),
    }
}

fn all() -> Result<Vec<Gpu>, NvmlError> {
    let nvml = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init()?;
    let driver = nvml.sys_driver_version()?;
    let newest = nvml.sys_cuda_driver_version()?;
    let major = nvml_wrapper::cuda_driver_version_major(newest);
    let minor = nvml_wrapper::cuda_driver_version_minor(newest);
    let one = |number| {
        let device = nvml.device_by_index(number)?;
        Gpu::of(&device, number, (&driver, format!("{major}.{minor}")))
    };
    (0..nvml.device_count()?).map(one).collect()
}

impl Gpu {
    fn of(
        device: &Device<'_>,
        number: u32,
        (driver, driver_cuda): (&str, String),
    ) -> Result<Self, NvmlError> {
        let memory = device.memory_info()?;
        let can = device.cuda_compute_capability()?;
        Ok(Self {
            device: format!("cuda:{number}"),
            name: device.name()?,
            uuid: device.uuid()?,
            memory_total_bytes: memory.total,
            memory_free_bytes: memory.free,
            load_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
            compute_capability: format!("{}.{}", can.major, can.minor),
            driver: driver.to_owned(),
            driver_cuda,
            usable: false,
            why_not: Some(NO_CUDA.to_owned()),
        })
    }

    pub(super) fn row(&self) -> Vec<String> {
        let gib = |bytes: u64| bytes >> 30;
        let (free, total) = (gib(self.memory_free_bytes), gib(self.memory_total_bytes));
        let load = self.load_percent.map(|load| format!(", {load} % busy"));
        let usable = match &self.why_not {
            None => "yes".to_owned(),
            Some(why) => format!("no: {why}"),
        };
        vec![
            self.device.clone(),
            self.name.clone(),
            format!("{free} of {total} GiB free{}", load.unwrap_or_default()),
            format!(
                "compute {}, driver {} (CUDA {})",
                self.compute_capability, self.driver, self.driver_cuda
            ),
            usable,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_a_row_that_says_why_it_is_not_used() {
        let gpu = Gpu {
            device: "cuda:0".to_owned(),
            name: "NVIDIA H200".to_owned(),
            uuid: "GPU-1".to_owned(),
            memory_total_bytes: 141 << 30,
            memory_free_bytes: 139 << 30,
            load_percent: Some(7),
            compute_capability: "9.0".to_owned(),
            driver: "580.65".to_owned(),
            driver_cuda: "13.0".to_owned(),
            usable: false,
            why_not: Some("asleep".to_owned()),
        };
        assert_eq!(
            gpu.row(),
            [
                "cuda:0",
                "NVIDIA H200",
                "139 of 141 GiB free, 7 % busy",
                "compute 9.0, driver 580.65 (CUDA 13.0)",
                "no: asleep",
            ]
        );
    }
}
