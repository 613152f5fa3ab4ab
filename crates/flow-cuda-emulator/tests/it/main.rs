//! What the emulator finds: it must tell a kernel that is right from one that only looks so.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]
#![allow(clippy::print_stderr, reason = "tests that are skipped say so")]
#![allow(unsafe_code, reason = "kernels that are wrong on purpose")]

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use flow_cuda::{Gpu, GpuError};
use flow_cuda_emulator::{Emulator, Settings};

const COUNT: usize = 64;
const BYTES: usize = COUNT * size_of::<f32>();

/// A device for the kernels of this test; none on a machine without a compiler.
fn emulator(seed: u64) -> Option<Arc<Emulator>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/reverse.cu");
    let settings = Settings {
        seed,
        ..Settings::default()
    };
    match Emulator::of(&source, settings) {
        Ok(emulator) => Some(emulator),
        Err(error) if error.is_lack() => {
            eprintln!("SKIPPED: {error}, so no kernel can be emulated");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What a kernel makes of the numbers from 0 on.
fn run(gpu: &Emulator, kernel: &str) -> Result<Vec<f32>, GpuError> {
    let queue = gpu.open_queue()?;
    let (from, to) = (gpu.allocate(BYTES)?, gpu.allocate(BYTES)?);
    let host = gpu.allocate_pinned(BYTES)?;
    // SAFETY: the memory has so many bytes and is given back at the end, when nothing is queued.
    let values: Vec<f32> = unsafe {
        let values: NonNull<f32> = host.cast();
        (0..COUNT).for_each(|at| values.add(at).write(at as f32));
        gpu.copy_in(queue, from, host, BYTES)?;
        gpu.launch_named(queue, kernel, ([1, 1], COUNT as u32), &[from.0, to.0])?;
        let ran = gpu.finish(queue);
        gpu.copy_out(queue, host, to, BYTES)?;
        gpu.finish(queue)?;
        let values = (0..COUNT).map(|at| values.add(at).read()).collect();
        gpu.free_pinned(host);
        gpu.free(from);
        gpu.free(to);
        gpu.close_queue(queue);
        ran.map(|()| values)?
    };
    Ok(values)
}

fn in_order() -> Vec<f32> {
    (0..COUNT).map(|at| at as f32).collect()
}

fn reversed() -> Vec<f32> {
    in_order().into_iter().rev().collect()
}

#[test]
fn a_kernel_that_is_right_is_right_in_every_order() {
    for seed in 0..20 {
        let Some(gpu) = emulator(seed) else { return };
        assert_eq!(run(&gpu, "reverse_right").unwrap(), reversed());
        assert_eq!(run(&gpu, "copy_right").unwrap(), in_order());
    }
}

#[test]
fn a_missing_barrier_is_found_in_every_order() {
    for seed in 0..20 {
        let Some(gpu) = emulator(seed) else { return };
        let got = run(&gpu, "reverse_without_barrier").unwrap();
        // Whoever reads first finds what is no number.
        assert!(got.iter().any(|it| it.is_nan()), "seed {seed}: {got:?}");
    }
}

#[test]
fn a_copy_that_is_not_waited_for_is_found() {
    let Some(gpu) = emulator(1) else { return };
    let got = run(&gpu, "copy_without_wait").unwrap();
    assert!(got.iter().all(|it| it.is_nan()), "{got:?}");
}

#[track_caller]
fn check_refused(kernel: &str, part: &str) {
    let Some(gpu) = emulator(1) else { return };
    let error = run(&gpu, kernel).unwrap_err().to_string();
    assert!(error.contains(kernel) && error.contains(part), "{error}");
    assert_eq!(
        run(&gpu, "reverse_right").unwrap(),
        reversed(),
        "it goes on"
    );
}

#[test]
fn threads_that_wait_for_different_things_are_found() {
    check_refused("lanes_apart", "lanes of a warp are at different places");
    check_refused("barriers_apart", "wait for others that never come");
    check_refused("no_such_kernel", "no kernel of this name");
}

#[test]
#[should_panic(expected = "somebody wrote beside 256 bytes")]
fn writing_beside_memory_is_found() {
    match emulator(1) {
        Some(gpu) => drop(run(&gpu, "beside")),
        None => panic!("SKIPPED: somebody wrote beside 256 bytes"),
    }
}

#[test]
fn what_is_queued_is_done_when_somebody_waits() {
    let Some(gpu) = emulator(1) else { return };
    let queue = gpu.open_queue().unwrap();
    let (device, host) = (gpu.allocate(4).unwrap(), gpu.allocate_pinned(4).unwrap());
    // SAFETY: both have four bytes, and are given back when nothing is queued.
    unsafe {
        host.write_bytes(1, 4);
        gpu.copy_in(queue, device, host, 4).unwrap();
        host.write_bytes(2, 4);
        gpu.copy_out(queue, host, device, 4).unwrap();
        gpu.finish(queue).unwrap();
        assert_eq!(host.read(), 2, "what was changed too early");
        gpu.free_pinned(host);
        gpu.free(device);
        gpu.close_queue(queue);
    }
}
