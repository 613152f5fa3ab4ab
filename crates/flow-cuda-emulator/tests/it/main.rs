//! The emulator must detect kernels that are incorrect but may seem correct on a GPU.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, in test helpers as well"
)]
#![allow(clippy::print_stderr, reason = "skipped tests report that")]
#![allow(unsafe_code, reason = "kernels that are incorrect on purpose")]

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use flow_cuda::{Gpu, GpuError};
use flow_cuda_emulator::{EmulatedGpu, EmulatorSettings};

const COUNT: usize = 64;
const BYTES: usize = COUNT * size_of::<f32>();

/// An emulated GPU with the kernels of this test. `None` on a machine without a C++ compiler.
fn emulated_gpu(seed: u64) -> Option<Arc<EmulatedGpu>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/reverse.cu");
    let settings = EmulatorSettings {
        seed,
        ..EmulatorSettings::default()
    };
    match EmulatedGpu::with_kernels(&source, settings) {
        Ok(gpu) => Some(gpu),
        Err(error) if error.is_missing_tool() => {
            eprintln!("SKIPPED: {error}, so kernels cannot be emulated");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs a kernel on the numbers from 0 to 63.
fn run(gpu: &EmulatedGpu, kernel: &str) -> Result<Vec<f32>, GpuError> {
    let stream = gpu.create_stream()?;
    let (from, to) = (gpu.allocate(BYTES)?, gpu.allocate(BYTES)?);
    let host = gpu.allocate_pinned(BYTES)?;
    // SAFETY: the memory has `BYTES` bytes and is freed at the end, when no work is queued.
    let values: Vec<f32> = unsafe {
        let values: NonNull<f32> = host.cast();
        (0..COUNT).for_each(|index| values.add(index).write(index as f32));
        gpu.copy_to_device(stream, from, host, BYTES)?;
        gpu.launch_named(stream, kernel, ([1, 1], COUNT as u32), &[from.0, to.0])?;
        let ran = gpu.synchronize(stream);
        gpu.copy_from_device(stream, host, to, BYTES)?;
        gpu.synchronize(stream)?;
        let values = (0..COUNT).map(|index| values.add(index).read()).collect();
        gpu.free_pinned(host);
        gpu.free(from);
        gpu.free(to);
        gpu.destroy_stream(stream);
        ran.map(|()| values)?
    };
    Ok(values)
}

fn in_order() -> Vec<f32> {
    (0..COUNT).map(|index| index as f32).collect()
}

fn reversed() -> Vec<f32> {
    in_order().into_iter().rev().collect()
}

#[test]
fn a_correct_kernel_is_correct_in_every_order() {
    for seed in 0..20 {
        let Some(gpu) = emulated_gpu(seed) else {
            return;
        };
        assert_eq!(run(&gpu, "reverse_correct").unwrap(), reversed());
        assert_eq!(run(&gpu, "copy_correct").unwrap(), in_order());
    }
}

#[test]
fn a_missing_barrier_is_detected_in_every_order() {
    for seed in 0..20 {
        let Some(gpu) = emulated_gpu(seed) else {
            return;
        };
        let actual = run(&gpu, "reverse_without_barrier").unwrap();
        // The first thread that reads finds NaN.
        assert!(
            actual.iter().any(|value| value.is_nan()),
            "seed {seed}: {actual:?}"
        );
    }
}

#[test]
fn a_missing_wait_for_a_copy_is_detected() {
    let Some(gpu) = emulated_gpu(1) else { return };
    let actual = run(&gpu, "copy_without_wait").unwrap();
    assert!(actual.iter().all(|value| value.is_nan()), "{actual:?}");
}

#[track_caller]
fn check_refused(kernel: &str, part: &str) {
    let Some(gpu) = emulated_gpu(1) else { return };
    let error = run(&gpu, kernel).unwrap_err().to_string();
    assert!(error.contains(kernel) && error.contains(part), "{error}");
    assert_eq!(
        run(&gpu, "reverse_correct").unwrap(),
        reversed(),
        "the device remains usable"
    );
}

#[test]
fn threads_that_wait_for_different_things_are_detected() {
    check_refused("lanes_apart", "lanes of a warp are at different operations");
    check_refused("barriers_apart", "wait for others that never arrive");
    check_refused("no_such_kernel", "no kernel of this name");
}

#[test]
#[should_panic(expected = "outside an allocation of 256 bytes")]
fn a_write_outside_an_allocation_is_detected() {
    match emulated_gpu(1) {
        Some(gpu) => drop(run(&gpu, "write_outside")),
        None => panic!("SKIPPED: outside an allocation of 256 bytes"),
    }
}

#[test]
fn queued_work_runs_at_the_next_synchronization() {
    let Some(gpu) = emulated_gpu(1) else { return };
    let stream = gpu.create_stream().unwrap();
    let (device, host) = (gpu.allocate(4).unwrap(), gpu.allocate_pinned(4).unwrap());
    // SAFETY: both have four bytes and are freed when no work is queued.
    unsafe {
        host.write_bytes(1, 4);
        gpu.copy_to_device(stream, device, host, 4).unwrap();
        host.write_bytes(2, 4);
        gpu.copy_from_device(stream, host, device, 4).unwrap();
        gpu.synchronize(stream).unwrap();
        assert_eq!(host.read(), 2, "the copy ran too early");
        gpu.free_pinned(host);
        gpu.free(device);
        gpu.destroy_stream(stream);
    }
}
