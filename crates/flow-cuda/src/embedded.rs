//! The compiled kernels that this program carries, if it was built with any.

use crate::{Capability, NoGpu};

/// Bytes that begin where a number of 8 bytes may begin: the driver reads such numbers from them.
#[repr(align(16))]
struct Aligned<B: ?Sized>(B);

static FATBIN: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")));

const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.names"));

/// A line for each image: instructions (`sass 80`), or text that a driver compiles (`ptx 90`).
const IMAGES: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.images"));

/// The kernels for all capabilities; none: the program was built without.
pub(crate) fn fatbin() -> Option<&'static [u8]> {
    Some(&FATBIN.0).filter(|bytes| !bytes.is_empty())
}

/// Whether this program carries compiled kernels.
#[must_use]
pub fn has_kernels() -> bool {
    fatbin().is_some()
}

/// The names of the kernels that it carries.
#[must_use]
pub fn kernel_names() -> Vec<&'static str> {
    NAMES.lines().collect()
}

/// Whether one of these images runs on a GPU: instructions do on later ones of the same generation, text on all later
/// ones.
fn runs(images: &str, on: Capability) -> bool {
    images.lines().any(|line| {
        let Some((kind, number)) = line.split_once(' ') else {
            return false;
        };
        let number = number.parse().unwrap_or(u32::MAX);
        let of = Capability {
            major: number / 10,
            minor: number % 10,
        };
        of <= on && (kind == "ptx" || of.major == on.major)
    })
}

/// Whether this program's kernels run on a GPU.
///
/// # Errors
///
/// Why not.
pub(crate) fn check(on: Capability) -> Result<(), NoGpu> {
    match fatbin() {
        None => Err(NoGpu::NoKernels),
        Some(_) if runs(IMAGES, on) => Ok(()),
        Some(_) => Err(NoGpu::NoImage {
            reason: format!(
                "it has compute capability {on}, and they are {}",
                IMAGES.trim_end().replace('\n', ", ")
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

    #[test]
    fn instructions_run_on_their_own_generation_and_text_on_all_later_ones() {
        let check = |images: &str, major: u32, minor: u32, wanted: bool| {
            let on = Capability { major, minor };
            assert_eq!(runs(images, on), wanted, "{images:?} on {on}");
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
    fn each_kernel_of_the_table_is_in_what_was_compiled() {
        let Some(fatbin) = fatbin() else {
            eprintln!("SKIPPED: built without kernels; `cargo xtask build-cuda` makes them");
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
