//! NVIDIA GPUs, from the two libraries of the driver: NVML knows all GPUs of the machine, CUDA those that this process may
//! use. Both are opened at run time, so that the program starts without them.

use std::ffi::OsStr;

use flow_core::Chain;
use flow_cuda::{CudaDriver, DeviceInfo, GpuUnavailable, NVML};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;

/// Why CUDA does not list a GPU.
const HIDDEN: &str = "`CUDA_VISIBLE_DEVICES` hides it";

/// The GPUs of the machine.
pub(crate) enum Gpus {
    Found(Vec<Gpu>),
    /// There are none, for this reason.
    None(String),
}

/// One GPU.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gpu {
    /// Its name in `device`. `None` if this process may not use it.
    device: Option<String>,
    name: String,
    /// Identifies it in `gpus` and CUDA_VISIBLE_DEVICES.
    uuid: String,
    memory_total_bytes: u64,
    memory_free_bytes: Option<u64>,
    /// Percent of the recent time in which it was busy. `None` if it does not report that.
    load_percent: Option<u32>,
    /// Such as `9.0`.
    compute_capability: String,
    driver: Option<String>,
    /// The newest version of CUDA that the driver supports, such as `13.0`.
    driver_cuda: String,
    usable: bool,
    /// Why it is not usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

/// The GPUs that CUDA lists, in the order of their numbers.
type Usable = Result<Vec<Gpu>, GpuUnavailable>;

pub(crate) fn look() -> Gpus {
    let usable = CudaDriver::open().and_then(|cuda| {
        let of = |found: &DeviceInfo| Gpu::found(found, cuda.version());
        Ok(cuda.list()?.iter().map(of).collect())
    });
    joined(managed(), usable)
}

/// All GPUs of the machine, with their numbers in CUDA and whether they are usable.
fn joined(managed: Result<Vec<Gpu>, String>, usable: Usable) -> Gpus {
    let why = |no: &GpuUnavailable| Chain(no).to_string();
    match (managed, usable) {
        (Ok(gpus), Err(no)) if !gpus.is_empty() => {
            let why = why(&no);
            Gpus::Found(gpus.into_iter().map(|gpu| gpu.not_usable(&why)).collect())
        }
        (Ok(_), Err(no)) => Gpus::None(why(&no)),
        (Err(managed), Err(no)) => Gpus::None(format!("{}; {managed}", why(&no))),
        (Err(_), Ok(usable)) => Gpus::Found(usable),
        (Ok(gpus), Ok(usable)) => Gpus::Found(one_list(&gpus, &usable)),
    }
}

/// The usable GPUs by their numbers, then the hidden ones.
fn one_list(managed: &[Gpu], usable: &[Gpu]) -> Vec<Gpu> {
    let with_more = |gpu: &Gpu| {
        let known = managed.iter().find(|known| known.uuid == gpu.uuid);
        let (memory_free_bytes, load_percent, driver) = known.map_or((None, None, None), |known| {
            (
                known.memory_free_bytes,
                known.load_percent,
                known.driver.clone(),
            )
        });
        Gpu {
            memory_free_bytes,
            load_percent,
            driver,
            ..gpu.clone()
        }
    };
    let is_hidden = |gpu: &&Gpu| usable.iter().all(|other| other.uuid != gpu.uuid);
    let hidden = managed.iter().filter(is_hidden);
    let hidden = hidden.map(|gpu| gpu.clone().not_usable(HIDDEN));
    usable.iter().map(with_more).chain(hidden).collect()
}

fn managed() -> Result<Vec<Gpu>, String> {
    all().map_err(|error| match error {
        NvmlError::LibloadingError(_) => format!("`{NVML}` is missing too"),
        error => format!("`{NVML}` failed: {error}"),
    })
}

fn all() -> Result<Vec<Gpu>, NvmlError> {
    let nvml = Nvml::builder().lib_path(OsStr::new(NVML)).init()?;
    let driver = nvml.sys_driver_version()?;
    let newest = nvml.sys_cuda_driver_version()?;
    let major = nvml_wrapper::cuda_driver_version_major(newest);
    let minor = nvml_wrapper::cuda_driver_version_minor(newest);
    let one = |number| {
        let device = nvml.device_by_index(number)?;
        Gpu::managed(&device, (&driver, format!("{major}.{minor}")))
    };
    (0..nvml.device_count()?).map(one).collect()
}

impl Gpu {
    fn managed(
        device: &Device<'_>,
        (driver, driver_cuda): (&str, String),
    ) -> Result<Self, NvmlError> {
        let memory = device.memory_info()?;
        let can = device.cuda_compute_capability()?;
        Ok(Self {
            device: None,
            name: device.name()?,
            uuid: device.uuid()?,
            memory_total_bytes: memory.total,
            memory_free_bytes: Some(memory.free),
            load_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
            compute_capability: format!("{}.{}", can.major, can.minor),
            driver: Some(driver.to_owned()),
            driver_cuda,
            usable: false,
            why_not: None,
        })
    }

    fn found(found: &DeviceInfo, driver_cuda: String) -> Self {
        let why_not = found.check_usable().err().map(|no| Chain(&no).to_string());
        Self {
            device: Some(format!("cuda:{}", found.number)),
            name: found.name.clone(),
            uuid: found.uuid.clone(),
            memory_total_bytes: found.memory as u64,
            memory_free_bytes: None,
            load_percent: None,
            compute_capability: found.capability.to_string(),
            driver: None,
            driver_cuda,
            usable: why_not.is_none(),
            why_not,
        }
    }

    fn not_usable(self, why: &str) -> Self {
        Self {
            usable: false,
            why_not: Some(why.to_owned()),
            ..self
        }
    }

    /// Why this process cannot use it; `None` if it can.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    pub(crate) fn row(&self) -> Vec<String> {
        let gib = |bytes: u64| bytes >> 30;
        let total = gib(self.memory_total_bytes);
        let size = match self.memory_free_bytes {
            Some(free) => format!("{} of {total} GiB free", gib(free)),
            None => format!("{total} GiB"),
        };
        let load = self.load_percent.map(|load| format!(", {load} % busy"));
        let driver = self.driver.as_ref().map(|it| format!(", driver {it}"));
        let usable = match &self.why_not {
            None => "yes".to_owned(),
            Some(why) => format!("no: {why}"),
        };
        vec![
            self.device.clone().unwrap_or_else(|| "-".to_owned()),
            self.name.clone(),
            size + &load.unwrap_or_default(),
            format!(
                "compute {}{} (CUDA {})",
                self.compute_capability,
                driver.unwrap_or_default(),
                self.driver_cuda
            ),
            usable,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GPU as NVML describes it.
    fn managed(uuid: &str) -> Gpu {
        Gpu {
            device: None,
            name: "NVIDIA H200".to_owned(),
            uuid: uuid.to_owned(),
            memory_total_bytes: 141 << 30,
            memory_free_bytes: Some(139 << 30),
            load_percent: Some(7),
            compute_capability: "9.0".to_owned(),
            driver: Some("580.65".to_owned()),
            driver_cuda: "13.0".to_owned(),
            usable: false,
            why_not: None,
        }
    }

    /// A GPU as CUDA describes it.
    fn usable(uuid: &str, device: &str) -> Gpu {
        Gpu {
            device: Some(device.to_owned()),
            memory_free_bytes: None,
            load_percent: None,
            driver: None,
            usable: true,
            ..managed(uuid)
        }
    }

    fn rows(gpus: Gpus) -> Vec<Vec<String>> {
        match gpus {
            Gpus::Found(gpus) => gpus.iter().map(Gpu::row).collect(),
            Gpus::None(why) => panic!("{why}"),
        }
    }

    #[test]
    fn a_gpu_has_its_number_from_cuda_and_its_load_from_nvml() {
        let both = Ok(vec![managed("GPU-1"), managed("GPU-2")]);
        let rows = rows(joined(both, Ok(vec![usable("GPU-2", "cuda:0")])));
        assert_eq!(
            rows[0],
            [
                "cuda:0",
                "NVIDIA H200",
                "139 of 141 GiB free, 7 % busy",
                "compute 9.0, driver 580.65 (CUDA 13.0)",
                "yes",
            ]
        );
        assert_eq!(rows[1][0], "-");
        assert_eq!(rows[1][4], "no: `CUDA_VISIBLE_DEVICES` hides it");
    }

    #[test]
    fn either_library_alone_lists_gpus() {
        let missing = || Err("not there either".to_owned());
        let alone = rows(joined(missing(), Ok(vec![usable("GPU-2", "cuda:0")])));
        assert_eq!(alone[0][2..4], ["141 GiB", "compute 9.0 (CUDA 13.0)"]);
        let alone = rows(joined(
            Ok(vec![managed("GPU-1")]),
            Err(GpuUnavailable::NoKernels),
        ));
        assert!(alone[0][4].starts_with("no: this program is built without CUDA kernels"));
        let Gpus::None(why) = joined(missing(), Err(GpuUnavailable::NoDevice)) else {
            panic!("there is none");
        };
        assert!(
            why.contains("sees no GPU") && why.ends_with("not there either"),
            "{why}"
        );
    }
}
