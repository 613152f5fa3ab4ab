//! Transposes the keys of attention.
//!
//! A pair of bf16 has as many bits as a 32-bit float, so both are transposed by the same functions.

use crate::row_layout::RowLayout;
use crate::tile::PANEL;

/// Transposes up to [`PANEL`] keys: row after row, writes one pair of each. What lies behind the pairs of the last key is
/// unspecified.
///
/// # Safety
///
/// The machine must have the instructions that the function was compiled for.
pub(crate) type TransposeKeysFn = unsafe fn(&[u16], RowLayout, &mut [u16]);

/// As [`TransposeKeysFn`], on any machine.
pub(crate) fn transpose_keys(states: &[u16], keys: RowLayout, packed: &mut [u16]) {
    let rows = packed.as_chunks_mut::<2>().0;
    for lane in 0..keys.rows {
        let key = &states[lane * keys.stride..][..keys.width];
        let (pairs, odd) = key.as_chunks::<2>();
        // An odd head size ends with half a pair.
        let odd = odd.first().map(|value| [*value, 0]);
        let lanes = rows.iter_mut().skip(lane).step_by(PANEL);
        for (to, pair) in lanes.zip(pairs.iter().copied().chain(odd)) {
            *to = pair;
        }
    }
}

/// The halves of 32-bit floats, in place of pairs of bf16.
pub(crate) fn halves(values: &[f32]) -> &[u16] {
    // SAFETY: the memory has two integers for each float, which may have any bits and need less alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), 2 * values.len()) }
}

/// As [`halves`].
pub(crate) fn halves_mut(values: &mut [f32]) -> &mut [u16] {
    // SAFETY: as for `halves`; floats may have any bits, too.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), 2 * values.len()) }
}
