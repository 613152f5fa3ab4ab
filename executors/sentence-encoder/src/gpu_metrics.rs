//! How the GPUs of an encoder are used, for its metrics.
//!
//! NVML, a library of NVIDIA's driver, is asked. Some of its functions take milliseconds, so a thread of its own asks from time
//! to time, and a scrape gets what it found last.

use std::ffi::OsStr;
use std::io;
use std::thread;
use std::time::Duration;

use flow_core::Chain;
use flow_executor::{BadMetricName, FloatGauge, Monitor};
use flow_models::engine::GpuId;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// Name of NVML where only the driver is installed, without development files.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// How often the GPUs are asked: Prometheus scrapes less often.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A value of a GPU, the metric that shows it, and how it is read.
struct Reading {
    name: &'static str,
    help: &'static str,
    read: fn(&Device<'_>) -> Result<f64, NvmlError>,
}

/// Numbers have at most 53 bits: no GPU has so many bytes.
#[allow(clippy::cast_precision_loss, reason = "see above")]
const READINGS: [Reading; 5] = [
    Reading {
        name: "flow_gpu_memory_used_bytes",
        help: "Memory of the GPU that all its users take, this process among them.",
        read: |gpu| Ok(gpu.memory_info()?.used as f64),
    },
    Reading {
        name: "flow_gpu_memory_total_bytes",
        help: "Memory of the GPU.",
        read: |gpu| Ok(gpu.memory_info()?.total as f64),
    },
    Reading {
        name: "flow_gpu_busy_ratio",
        help: "Part of the recent time in which the GPU computed for any of its users, from 0 to 1.",
        read: |gpu| Ok(f64::from(gpu.utilization_rates()?.gpu) / 100.0),
    },
    Reading {
        name: "flow_gpu_power_watts",
        help: "Power that the GPU takes.",
        read: |gpu| Ok(f64::from(gpu.power_usage()?) / 1000.0),
    },
    Reading {
        name: "flow_gpu_temperature_celsius",
        help: "Temperature of the GPU.",
        read: |gpu| Ok(f64::from(gpu.temperature(TemperatureSensor::Gpu)?)),
    },
];

/// The gauges of one GPU. A value that it does not report has none.
struct Gauges {
    gpu: GpuId,
    gauges: [Option<FloatGauge>; READINGS.len()],
}

/// Starts to measure these GPUs, if there are any and the executor is monitored. That NVML is missing is logged, and is no
/// reason not to serve.
///
/// # Errors
///
/// If no thread can be started.
pub(crate) fn measure(monitor: &Monitor, gpus: Vec<GpuId>) -> io::Result<()> {
    if gpus.is_empty() || !monitor.is_on() {
        return Ok(());
    }
    let nvml = match Nvml::builder().lib_path(OsStr::new(LIBRARY)).init() {
        Ok(nvml) => nvml,
        Err(error) => {
            let cause = Chain(&error);
            tracing::warn!(%cause, library = LIBRARY, "the metrics of the GPUs are missing: NVML cannot be used");
            return Ok(());
        }
    };
    let mut gpus: Vec<Gauges> = gpus.into_iter().map(Gauges::new).collect();
    let monitor = monitor.clone();
    let ask = move || {
        loop {
            for gpu in &mut gpus {
                if let Err(error) = gpu.read(&nvml, &monitor) {
                    let (gpu, cause) = (&gpu.gpu.name, Chain(&error));
                    tracing::warn!(gpu, %cause, "the metrics of a GPU end here");
                    return;
                }
            }
            thread::sleep(ASK_EVERY);
        }
    };
    let thread = thread::Builder::new().name("gpu-metrics".to_owned());
    thread.spawn(ask).map(drop)
}

impl Gauges {
    fn new(gpu: GpuId) -> Self {
        Self {
            gpu,
            gauges: [const { None }; READINGS.len()],
        }
    }

    /// Reads all values. One that fails, after it was there, is shown as not a number: an old value would mislead.
    fn read(&mut self, nvml: &Nvml, monitor: &Monitor) -> Result<(), BadMetricName> {
        let device = nvml.device_by_uuid(self.gpu.uuid.as_str());
        for (reading, gauge) in READINGS.iter().zip(&mut self.gauges) {
            let value = device.as_ref().ok().map(reading.read);
            let value = value.and_then(Result::ok);
            if gauge.is_none() && value.is_some() {
                let labels = [
                    ("gpu", self.gpu.name.as_str()),
                    ("uuid", self.gpu.uuid.as_str()),
                ];
                *gauge = monitor.labelled((reading.name, reading.help), &labels)?;
            }
            if let Some(gauge) = gauge {
                gauge.set(value.unwrap_or(f64::NAN));
            }
        }
        Ok(())
    }
}
