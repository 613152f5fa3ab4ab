//! Metrics of the GPUs that a model uses.
//!
//! A thread reads them every few seconds from NVML, a library of NVIDIA's driver. Some of its functions take milliseconds, so a
//! scrape gets the last values instead of calling them.

use std::ffi::OsStr;
use std::io;
use std::thread;
use std::time::Duration;

use flow_executor::{BadMetricName, Chain, FloatGauge, Monitor};
use flow_models::engine::{GpuId, NVML};
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// Time between two readings: Prometheus scrapes less often.
const READ_EVERY: Duration = Duration::from_secs(5);

/// A value of a GPU, the metric that shows it, and how it is read.
struct Reading {
    name: &'static str,
    help: &'static str,
    read: fn(&Device<'_>) -> Result<f64, NvmlError>,
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a GPU has far fewer than 2^53 bytes"
)]
const READINGS: [Reading; 5] = [
    Reading {
        name: "flow_gpu_memory_used_bytes",
        help: "Memory of the GPU that is in use by all processes, this one included.",
        read: |gpu| Ok(gpu.memory_info()?.used as f64),
    },
    Reading {
        name: "flow_gpu_memory_total_bytes",
        help: "Total memory of the GPU.",
        read: |gpu| Ok(gpu.memory_info()?.total as f64),
    },
    Reading {
        name: "flow_gpu_busy_ratio",
        help: "Fraction of the recent time in which the GPU was busy for any process, from 0 to 1.",
        read: |gpu| Ok(f64::from(gpu.utilization_rates()?.gpu) / 100.0),
    },
    Reading {
        name: "flow_gpu_power_watts",
        help: "Power draw of the GPU.",
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
    /// Whether it was logged that NVML does not find the GPU.
    has_warned: bool,
    gauges: [Option<FloatGauge>; READINGS.len()],
}

/// Starts to measure these GPUs, if there are any and the executor is monitored. If NVML is missing, that is logged, and the
/// executor serves without these metrics.
///
/// # Errors
///
/// If no thread can be started.
pub(crate) fn measure(monitor: &Monitor, gpus: Vec<GpuId>) -> io::Result<()> {
    if gpus.is_empty() || !monitor.is_on() {
        return Ok(());
    }
    let nvml = match Nvml::builder().lib_path(OsStr::new(NVML)).init() {
        Ok(nvml) => nvml,
        Err(error) => {
            let cause = Chain(&error);
            tracing::warn!(%cause, library = NVML, "the metrics of the GPUs are missing: NVML cannot be used");
            return Ok(());
        }
    };
    let mut gpus: Vec<Gauges> = gpus.into_iter().map(Gauges::new).collect();
    let monitor = monitor.clone();
    let read = move || {
        loop {
            for gpu in &mut gpus {
                if let Err(error) = gpu.read(&nvml, &monitor) {
                    let (gpu, cause) = (&gpu.gpu.name, Chain(&error));
                    tracing::warn!(gpu, %cause, "the GPUs are no longer measured");
                    return;
                }
            }
            thread::sleep(READ_EVERY);
        }
    };
    let thread = thread::Builder::new().name("gpu-metrics".to_owned());
    thread.spawn(read).map(drop)
}

impl Gauges {
    fn new(gpu: GpuId) -> Self {
        Self {
            gpu,
            has_warned: false,
            gauges: [const { None }; READINGS.len()],
        }
    }

    /// Reads all values. A value that cannot be read any more becomes `NaN`: the last one would mislead.
    fn read(&mut self, nvml: &Nvml, monitor: &Monitor) -> Result<(), BadMetricName> {
        let device = nvml.device_by_uuid(self.gpu.uuid.as_str());
        if let Err(error) = &device
            && !std::mem::replace(&mut self.has_warned, true)
        {
            let (gpu, cause) = (&self.gpu.name, Chain(error));
            tracing::warn!(gpu, %cause, "the metrics of a GPU are missing: NVML does not find it");
        }
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
