//! Tiles for x86-64.

use std::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};

pub(crate) mod amx;
pub(crate) mod avx2;
pub(crate) mod avx2_bf16;
pub(crate) mod avx512;
pub(crate) mod avx512_bf16;

/// How far ahead of their use weights are asked for: what a core reads in the time that memory takes to answer.
const AHEAD_BYTES: usize = 16 * 1024;

/// Asks for the line of weights that will be read that far behind this place.
///
/// A short text reads all weights once, at the pace of memory: without this it takes a core almost twice as long, for
/// the processor looks ahead to the end of a page only. They are asked for as what is read once, so that they
/// do not push everything else out of the caches. In attention, whose tiles are the same, it is in vain: keys and values
/// lie in caches already.
#[inline]
fn prefetch<T>(place: *const T) {
    // SAFETY: no memory is accessed, so the place may lie behind the weights.
    unsafe { _mm_prefetch::<_MM_HINT_NTA>(place.wrapping_byte_add(AHEAD_BYTES).cast()) };
}
