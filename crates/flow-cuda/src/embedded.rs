//! The compiled kernels that this program carries, if it was built with any.

/// Bytes that begin where a number of 8 bytes may begin: the driver reads such numbers from them.
#[repr(align(16))]
struct Aligned<B: ?Sized>(B);

static FATBIN: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")));

const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.names"));

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

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
