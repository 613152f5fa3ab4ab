//! The devices that models run on: opens, names, logs and measures them.

use std::io;
use std::num::NonZeroUsize;
use std::thread;

use flow_executor::Monitor;
use flow_models::engine::GpuEngine;
use flow_models::{DeviceSpec, DeviceUnavailable, OpenDevices};

use crate::gpu_metrics;

/// Number of threads that the machine runs at once.
#[must_use]
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Opens the device that an executor's options name, and logs which GPUs it has, or why the CPU was chosen.
///
/// # Errors
///
/// If it cannot be used.
pub fn open_devices(device: DeviceSpec) -> Result<OpenDevices, DeviceUnavailable> {
    let devices = device.open(cores())?;
    if let Some(reason) = &devices.fallback_reason {
        tracing::info!(device = "cpu", reason, "device chosen");
    }
    for gpu in &devices.gpus {
        let mebibytes = |bytes: usize| bytes >> 20;
        let memory = gpu.memory().ok();
        tracing::info!(
            device = gpu.name(),
            capability = %gpu.capability(),
            free_mib = memory.map(|it| mebibytes(it.free)),
            total_mib = memory.map(|it| mebibytes(it.total)),
            "GPU opened"
        );
    }
    Ok(devices)
}

/// `cpu`, or the names of the GPUs that compute.
#[must_use]
pub fn device_name(gpu: Option<&GpuEngine>) -> String {
    let gpus = gpu.map(|gpu| gpu.names().join(", "));
    gpus.unwrap_or_else(|| "cpu".to_owned())
}

/// Logs how a loaded model uses the memory of its GPUs, if GPUs compute, and starts to measure them. `batch_tokens` are the most tokens
/// of a batch.
///
/// # Errors
///
/// If no thread can be started.
pub fn watch_gpus(
    gpu: Option<&GpuEngine>,
    batch_tokens: NonZeroUsize,
    monitor: &Monitor,
) -> io::Result<()> {
    let Some(gpu) = gpu else { return Ok(()) };
    tracing::info!(
        weights_mib = gpu.weight_bytes() >> 20,
        batches_mib = gpu.batch_bytes(batch_tokens) >> 20,
        batch_tokens,
        streams = gpu.streams(),
        precision = %gpu.precision(),
        "GPU memory allocated"
    );
    gpu_metrics::measure(monitor, gpu.ids())
}
