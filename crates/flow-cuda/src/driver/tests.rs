//! Tests the driver without a GPU, with a fake library that `cc` compiles from `fake.c` with the status codes of each test.

use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::Library;

use super::*;
use crate::kernel::{GpuPrecision, Operation};

/// An image of kernels, which the fake driver does not read.
const IMAGE: &[u8] = b"image";

/// Compiles a fake driver with these settings. `None` if there is no C compiler.
fn fake(settings: &[&str]) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libfake.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver/fake.c");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]);
    command.arg(&library).arg(source);
    command.args(settings.iter().map(|setting| format!("-D{setting}")));
    match command.status() {
        Ok(status) => assert!(status.success(), "the fake driver does not compile"),
        Err(error) => {
            eprintln!(
                "SKIPPED: cannot compile a fake driver, because `cc` cannot be started: {error}"
            );
            return None;
        }
    }
    Some((folder, library))
}

/// Opening GPU `number` must fail with this error.
#[track_caller]
fn check_refused(settings: &[&str], number: u32, expected: &GpuUnavailable) {
    let Some((_folder, library)) = fake(settings) else {
        return;
    };
    assert_eq!(open(&library, number).unwrap_err(), *expected);
}

fn open(library: &Path, number: u32) -> Result<CudaDevice, GpuUnavailable> {
    let cuda = CudaDriver::open_library(library)?;
    let count = cuda.count()?;
    if count <= number {
        return Err(GpuUnavailable::NoSuchDevice { number, count });
    }
    let info = cuda.info(number)?;
    info.check_capability()?;
    cuda.load(info, IMAGE)
}

/// A fake device with these settings.
fn device(settings: &[&str]) -> Option<(tempfile::TempDir, CudaDevice)> {
    let (folder, library) = fake(settings)?;
    Some((folder, open(&library, 1).unwrap()))
}

#[test]
fn a_missing_library_is_a_missing_driver() {
    let error = CudaDriver::open_library("libcuda-that-is-not-there.so.1").unwrap_err();
    assert!(matches!(error, GpuUnavailable::NoDriver { .. }));
    let text = error.to_string();
    assert!(text.contains("libcuda-that-is-not-there.so.1"), "{text}");
    assert!(text.contains("580"), "{text}");
}

#[test]
fn each_reason_why_a_gpu_cannot_be_used_has_an_error_of_its_own() {
    let old = |found: &str| GpuUnavailable::DriverTooOld {
        found: found.to_owned(),
    };
    check_refused(&["VERSION=12080"], 0, &old("12.8"));
    check_refused(&["VERSION=11040"], 0, &old("11.4"));
    check_refused(
        &["WITHOUT_FUNCTIONS"],
        0,
        &GpuUnavailable::MissingSymbol {
            symbol: "cuDeviceGetCount",
        },
    );
    check_refused(&["INIT=100"], 0, &GpuUnavailable::NoDevice);
    check_refused(&["COUNT=0"], 0, &GpuUnavailable::NoDevice);
    check_refused(
        &["COUNT=1"],
        7,
        &GpuUnavailable::NoSuchDevice {
            number: 7,
            count: 1,
        },
    );
    let mismatch =
        "the library and the kernel's part of the driver are of different versions (error 803)";
    check_refused(
        &["INIT=803"],
        0,
        &GpuUnavailable::DriverMismatch {
            reason: mismatch.to_owned(),
        },
    );
    let found = Capability { major: 6, minor: 1 };
    let name = "Fake GPU 1".to_owned();
    check_refused(
        &["MAJOR=6", "MINOR=1"],
        1,
        &GpuUnavailable::CapabilityTooLow { name, found },
    );
    let reason = "no kernels for this device (error 209)".to_owned();
    check_refused(
        &["LOAD=209"],
        0,
        &GpuUnavailable::IncompatibleKernels { reason },
    );
    check_refused(&["RETAIN=2"], 0, &GpuUnavailable::OutOfMemory);
}

#[test]
fn gpus_are_listed_with_the_names_of_nvidias_tools() {
    let Some((_folder, library)) = fake(&["MAJOR=8", "MINOR=9"]) else {
        return;
    };
    let cuda = CudaDriver::open_library(library).unwrap();
    assert_eq!(cuda.version(), "13.0");
    let devices = cuda.list().unwrap();
    assert_eq!(devices.len(), 2);
    let second = DeviceInfo {
        number: 1,
        name: "Fake GPU 1".to_owned(),
        uuid: "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f".to_owned(),
        capability: Capability { major: 8, minor: 9 },
        memory: 1 << 30,
    };
    assert_eq!(devices[1], second);
}

#[test]
fn bytes_survive_a_round_trip_from_any_thread() {
    let Some((_folder, device)) = device(&[]) else {
        return;
    };
    assert_eq!(device.name(), "cuda:1 Fake GPU 1");
    assert_eq!(device.multiprocessors(), 132);
    assert_eq!(device.memory().unwrap().free, 1 << 29);
    let round_trip = || {
        let stream = device.create_stream().unwrap();
        let (remote, host) = (
            device.allocate(1000).unwrap(),
            device.allocate_pinned(1000).unwrap(),
        );
        let empty = device.allocate(0).unwrap();
        // SAFETY: both sides have 1000 bytes and are freed once, after the stream has been synchronized.
        let bytes = unsafe {
            assert_eq!(std::slice::from_raw_parts(host.as_ptr(), 1000), [0; 1000]);
            host.write_bytes(7, 1000);
            device.copy_to_device(stream, remote, host, 1000).unwrap();
            host.write_bytes(0, 1000);
            device.copy_from_device(stream, host, remote, 1000).unwrap();
            device.synchronize(stream).unwrap();
            let bytes = std::slice::from_raw_parts(host.as_ptr(), 1000).to_vec();
            device.free(remote);
            device.free(empty);
            device.free_pinned(host);
            device.destroy_stream(stream);
            bytes
        };
        assert_eq!(bytes, [7; 1000]);
    };
    std::thread::scope(|scope| {
        scope.spawn(round_trip);
        scope.spawn(round_trip);
    });
}

/// Queues a kernel and waits for it.
fn launch(device: &CudaDevice) -> Result<(), GpuError> {
    let kernel = Kernel::find(Operation::Pool, GpuPrecision::F16).unwrap();
    let launch = KernelLaunch {
        kernel,
        grid: [3, 5],
        block: 128,
        parameters: &[42, 43],
    };
    let stream = device.create_stream()?;
    // SAFETY: the kernels of the fake driver do nothing.
    unsafe { device.launch(stream, &launch)? };
    device.synchronize(stream)
}

#[test]
fn a_kernel_receives_its_grid_block_and_parameter() {
    let Some((folder, device)) = device(&[]) else {
        return;
    };
    launch(&device).unwrap();
    // SAFETY: the fake driver has a variable of this type, which is not being written.
    let launched = unsafe {
        let library = Library::new(folder.path().join("libfake.so")).unwrap();
        let launched = library.get::<*const [u64; 8]>(b"fake_launched").unwrap();
        **launched
    };
    assert_eq!(launched, [3, 5, 1, 128, 1, 1, 0, 42]);
}

#[test]
fn errors_are_classified_by_whether_a_retry_or_a_new_process_helps() {
    let check = |setting: &str, is_expected: fn(&GpuError) -> bool| {
        let Some((_folder, device)) = device(&[setting]) else {
            return;
        };
        let error = device
            .allocate(5000)
            .err()
            .or_else(|| launch(&device).err());
        let error = error.unwrap();
        assert!(is_expected(&error), "{setting}: {error:?}");
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
        "SYNCHRONIZE=700",
        "SYNCHRONIZE=719",
        "SYNCHRONIZE=214",
        "LAUNCH=702",
        "SYNCHRONIZE=999",
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
