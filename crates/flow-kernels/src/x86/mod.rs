//! Tiles for x86-64 processors.

use std::arch::x86_64::{__cpuid, _MM_HINT_T0, _mm_prefetch};

pub(crate) mod amx;
pub(crate) mod avx2;
pub(crate) mod avx2_bf16;
pub(crate) mod avx2_int8;
pub(crate) mod avx2_quantize;
pub(crate) mod avx512;
pub(crate) mod avx512_bf16;
pub(crate) mod avx512_gelu;
pub(crate) mod avx512_keys;
pub(crate) mod avx512_quantize;
pub(crate) mod avx512_softmax;
pub(crate) mod avx512_vnni;
pub(crate) mod avx512_widened;
pub(crate) mod avx_vnni;

/// Whether this is an Intel processor.
///
/// They multiply bf16 with AVX-512 no faster than 32-bit floats: a core of a 5th-generation Xeon did 85 GFLOP/s in bf16 and 175
/// in 32-bit floats in registers. On Zen 5, products in bf16 run at twice the speed of those in 32-bit floats.
pub(crate) fn is_intel() -> bool {
    let vendor = __cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx]
        .map(u32::to_le_bytes)
        .as_flattened()
        == b"GenuineIntel"
}

/// How far ahead weights are prefetched: what a core reads during one memory access.
const PREFETCH_BYTES: usize = 16 * 1024;

/// Prefetches the cache line of weights that lies [`PREFETCH_BYTES`] behind `address`.
///
/// A short text reads all weights once, at the speed of memory. Without prefetching it takes a core almost twice as long,
/// because the hardware prefetcher stops at the end of a page. In attention, which uses the same tiles, it has no effect: keys
/// and values are in the caches already.
///
/// The hint is the one for all caches. With the non-temporal one, a core of an Intel Xeon with AMX read weights from the L3
/// cache at 8 instead of 30 GB/s, and products in 32-bit floats took three to five times as long: such lines stay in one way
/// of the L1 cache and not in the L2 cache, so every tile reads them from the L3 cache again.
#[inline]
fn prefetch<T>(address: *const T) {
    // SAFETY: a prefetch accesses no memory, so the address may lie beyond the weights.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_byte_add(PREFETCH_BYTES).cast()) };
}
