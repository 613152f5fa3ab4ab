//! The driver without a GPU: a library that `cc` makes of `fake.c`, which answers what a test wants.

use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::Library;

use super::*;
use crate::{Format, Operation};

/// Stands for an image; the fake looks at nothing of it.
const IMAGE: &[u8] = b"image";

/// A fake library with these answers; none: there is no C compiler here.
fn fake(answers: &[&str]) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libfake.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver/fake.c");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]);
    command.arg(&library).arg(source);
    command.args(answers.iter().map(|answer| format!("-D{answer}")));
    match command.status() {
        Ok(status) => assert!(status.success(), "the fake does not compile"),
        Err(error) => {
            eprintln!(
                "SKIPPED: no driver can be faked here, because `cc` cannot be started: {error}"
            );
            return None;
        }
    }
    Some((folder, library))
}

/// What opening GPU `number` says.
#[track_caller]
fn refused(answers: &[&str], number: u32, wanted: &NoGpu) {
    let Some((_folder, library)) = fake(answers) else {
        return;
    };
    assert_eq!(open(&library, number).unwrap_err(), *wanted);
}

fn open(library: &Path, number: u32) -> Result<Device, NoGpu> {
    let cuda = Cuda::open_library(library)?;
    let count = cuda.count()?;
    if count <= number {
        return Err(NoGpu::NoSuch { number, count });
    }
    let found = cuda.find(number)?;
    found.check()?;
    cuda.load(found, IMAGE)
}

/// A device that gives these answers.
fn device(answers: &[&str]) -> Option<(tempfile::TempDir, Device)> {
    let (folder, library) = fake(answers)?;
    Some((folder, open(&library, 1).unwrap()))
}

#[test]
fn without_the_library_the_driver_is_said_to_be_missing() {
    let error = Cuda::open_library("libcuda-that-is-not-there.so.1").unwrap_err();
    assert!(matches!(error, NoGpu::NoDriver { .. }));
    let text = error.to_string();
    assert!(text.contains("libcuda-that-is-not-there.so.1"), "{text}");
    assert!(text.contains("580"), "{text}");
}

#[test]
fn what_keeps_a_gpu_from_being_used_is_told_apart() {
    let old = |found: &str| NoGpu::Old {
        found: found.to_owned(),
    };
    refused(&["VERSION=12080"], 0, &old("12.8"));
    refused(&["VERSION=11040"], 0, &old("11.4"));
    refused(
        &["WITHOUT_THE_REST"],
        0,
        &NoGpu::Incomplete {
            symbol: "cuDeviceGetCount",
        },
    );
    refused(&["INIT=100"], 0, &NoGpu::NoDevice);
    refused(&["COUNT=0"], 0, &NoGpu::NoDevice);
    refused(
        &["COUNT=1"],
        7,
        &NoGpu::NoSuch {
            number: 7,
            count: 1,
        },
    );
    let mismatch =
        "the library and the kernel's part of the driver are of different versions (error 803)";
    refused(
        &["INIT=803"],
        0,
        &NoGpu::Mismatch {
            reason: mismatch.to_owned(),
        },
    );
    let found = Capability { major: 6, minor: 1 };
    let name = "Fake GPU 1".to_owned();
    refused(
        &["MAJOR=6", "MINOR=1"],
        1,
        &NoGpu::Incapable { name, found },
    );
    let reason = "no kernels for this device (error 209)".to_owned();
    refused(&["LOAD=209"], 0, &NoGpu::NoImage { reason });
    refused(&["RETAIN=2"], 0, &NoGpu::Full);
}

#[test]
fn gpus_are_listed_as_nvidias_tools_name_them() {
    let Some((_folder, library)) = fake(&["MAJOR=8", "MINOR=9"]) else {
        return;
    };
    let cuda = Cuda::open_library(library).unwrap();
    assert_eq!(cuda.version(), "13.0");
    let found = cuda.list().unwrap();
    assert_eq!(found.len(), 2);
    let second = Found {
        number: 1,
        name: "Fake GPU 1".to_owned(),
        uuid: "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f".to_owned(),
        capability: Capability { major: 8, minor: 9 },
        memory: 1 << 30,
    };
    assert_eq!(found[1], second);
}

#[test]
fn bytes_come_back_as_they_went_from_any_thread() {
    let Some((_folder, device)) = device(&[]) else {
        return;
    };
    assert_eq!(device.name(), "cuda:1 Fake GPU 1");
    assert_eq!(device.multiprocessors(), 132);
    assert_eq!(device.memory().unwrap().free, 1 << 29);
    let round = || {
        let queue = device.open_queue().unwrap();
        let (there, here) = (
            device.allocate(1000).unwrap(),
            device.allocate_pinned(1000).unwrap(),
        );
        let empty = device.allocate(0).unwrap();
        // SAFETY: both places have 1000 bytes and stay until the queue is empty; all is given back once.
        let bytes = unsafe {
            assert_eq!(std::slice::from_raw_parts(here.as_ptr(), 1000), [0; 1000]);
            here.write_bytes(7, 1000);
            device.copy_in(queue, there, here, 1000).unwrap();
            here.write_bytes(0, 1000);
            device.copy_out(queue, here, there, 1000).unwrap();
            device.finish(queue).unwrap();
            let bytes = std::slice::from_raw_parts(here.as_ptr(), 1000).to_vec();
            device.free(there);
            device.free(empty);
            device.free_pinned(here);
            device.close_queue(queue);
            bytes
        };
        assert_eq!(bytes, [7; 1000]);
    };
    std::thread::scope(|scope| {
        scope.spawn(round);
        scope.spawn(round);
    });
}

/// What a queued kernel and the wait for it say.
fn launch(device: &Device) -> Result<(), GpuError> {
    let kernel = Kernel::of(Operation::Pool, Format::F16).unwrap();
    let launch = Launch {
        kernel,
        grid: [3, 5],
        block: 128,
        parameters: &[42, 43],
    };
    let queue = device.open_queue()?;
    // SAFETY: the fake's kernels do nothing.
    unsafe { device.launch(queue, &launch)? };
    device.finish(queue)
}

#[test]
fn a_kernel_gets_its_grid_its_block_and_its_parameter() {
    let Some((folder, device)) = device(&[]) else {
        return;
    };
    launch(&device).unwrap();
    // SAFETY: the fake has this variable, of this type; nobody writes it now.
    let seen = unsafe {
        let library = Library::new(folder.path().join("libfake.so")).unwrap();
        let seen = library.get::<*const [u64; 8]>(b"fake_launched").unwrap();
        **seen
    };
    assert_eq!(seen, [3, 5, 1, 128, 1, 1, 0, 42]);
}

#[test]
fn errors_say_whether_less_would_fit_and_whether_the_process_is_lost() {
    let check = |answer: &str, wanted: fn(&GpuError) -> bool| {
        let Some((_folder, device)) = device(&[answer]) else {
            return;
        };
        let error = device
            .allocate(5000)
            .err()
            .or_else(|| launch(&device).err());
        let error = error.unwrap();
        assert!(wanted(&error), "{answer}: {error:?}");
    };
    check("ALLOC=2", |it| *it == GpuError::OutOfMemory { bytes: 5000 });
    check("ALLOC=1", |it| {
        matches!(
            it,
            GpuError::Failed {
                call: "cuMemAlloc",
                ..
            }
        )
    });
    for sticky in [
        "FINISH=700",
        "FINISH=719",
        "FINISH=214",
        "LAUNCH=702",
        "FINISH=999",
    ] {
        check(sticky, GpuError::is_sticky);
    }
    check("LAUNCH=701", |it| {
        matches!(
            it,
            GpuError::Failed {
                call: "cuLaunchKernel",
                ..
            }
        )
    });
    check("LAUNCH=4242", |it| {
        it.to_string() == "`cuLaunchKernel` says error 4242"
    });
    check("FUNCTION=500", |it| {
        it.to_string().contains("has no kernel `pool_f16`")
    });
}

#[test]
fn devices_that_there_are_are_named() {
    assert_eq!(numbers(1), "only `cuda:0`");
    assert_eq!(numbers(2), "`cuda:0` and `cuda:1`");
    assert_eq!(numbers(8), "`cuda:0` to `cuda:7`");
}
