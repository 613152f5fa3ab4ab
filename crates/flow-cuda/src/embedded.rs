//! The compiled kernels in this program, if it was built with any.

use crate::error::GpuUnavailable;
use crate::gpu::Capability;

/// Bytes with the alignment that the driver needs to read 8-byte numbers.
#[repr(align(16))]
struct Aligned<B: ?Sized>(B);

static FATBIN: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")));

const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.names"));

/// A line for each image: machine code (`sass 80`), or PTX, which the driver compiles (`ptx 90`).
const IMAGES: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.images"));

/// The kernels for all compute capabilities. `None` if the program was built without kernels.
pub(crate) fn fatbin() -> Option<&'static [u8]> {
    Some(&FATBIN.0).filter(|bytes| !bytes.is_empty())
}

/// Whether this program contains compiled kernels.
#[must_use]
pub fn has_kernels() -> bool {
    fatbin().is_some()
}

/// The names of the kernels in this program.
#[must_use]
pub fn kernel_names() -> Vec<&'static str> {
    NAMES.lines().collect()
}

/// Whether one of these images runs on a GPU. Machine code runs on the same generation from its revision on, PTX on all later
/// GPUs.
fn has_compatible_image(images: &str, gpu: Capability) -> bool {
    images.lines().any(|line| {
        let Some((kind, number)) = line.split_once(' ') else {
            return false;
        };
        let number = number.parse().unwrap_or(u32::MAX);
        let image = Capability {
            major: number / 10,
            minor: number % 10,
        };
        image <= gpu && (kind == "ptx" || image.major == gpu.major)
    })
}

/// Checks whether this program's kernels run on a GPU.
///
/// # Errors
///
/// If they do not.
pub(crate) fn check(gpu: Capability) -> Result<(), GpuUnavailable> {
    match fatbin() {
        None => Err(GpuUnavailable::NoKernels),
        Some(_) if has_compatible_image(IMAGES, gpu) => Ok(()),
        Some(_) => Err(GpuUnavailable::IncompatibleKernels {
            reason: format!(
                "it has compute capability {gpu}, and they are {}",
                IMAGES.trim_end().replace('\n', ", ")
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    #[test]
    fn machine_code_runs_on_its_own_generation_and_ptx_on_all_later_ones() {
        let check = |images: &str, major: u32, minor: u32, expected: bool| {
            let gpu = Capability { major, minor };
            assert_eq!(
                has_compatible_image(images, gpu),
                expected,
                "{images:?} on {gpu}"
            );
        };
        check("sass 75\nsass 80\nptx 90\n", 7, 5, true);
        check("sass 75\nsass 80\nptx 90\n", 8, 9, true);
        check("sass 75\nsass 80\nptx 90\n", 9, 0, true);
        check("sass 75\nsass 80\nptx 90\n", 12, 0, true);
        check("sass 90\nptx 90\n", 8, 9, false);
        check("sass 86\n", 8, 0, false);
        check("sass 86\n", 9, 0, false);
        check("", 9, 0, false);
    }

    #[test]
    fn each_kernel_of_the_table_was_compiled() {
        let Some(fatbin) = fatbin() else {
            eprintln!("SKIPPED: built without kernels; `cargo xtask build-cuda` compiles them");
            assert_eq!(kernel_names(), [""; 0]);
            return;
        };
        assert_eq!(fatbin[..4], 0xba55_ed50_u32.to_le_bytes());
        assert_eq!(fatbin.as_ptr().addr() % 16, 0);
        let names = kernel_names();
        let missing: Vec<_> = Kernel::all()
            .map(Kernel::name)
            .filter(|name| !names.contains(name))
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
