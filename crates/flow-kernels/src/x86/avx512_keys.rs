//! Transposes keys of bf16 with AVX-512, which gathers the same pair of sixteen keys at once.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_mask_i32gather_epi32, _mm512_mullo_epi32, _mm512_set1_epi32,
    _mm512_setr_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
};

use crate::keys;
use crate::row_layout::RowLayout;
use crate::tile::PANEL;

/// Pairs of a register.
const REGISTER: usize = 16;

/// As `keys::transpose_keys`.
///
/// # Panics
///
/// If `states` or `packed` are too short.
///
/// # Safety
///
/// The machine must have AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn transpose_keys(states: &[u16], layout: RowLayout, packed: &mut [u16]) {
    let (pairs, odd) = (layout.width / 2, layout.width % 2);
    if odd != 0 || layout.stride >= usize::from(u16::MAX) {
        return keys::transpose_keys(states, layout, packed);
    }
    assert!(layout.rows >= 1 && layout.rows <= PANEL, "keys of a panel");
    assert!(
        states.len() >= (layout.rows - 1) * layout.stride + layout.width,
        "states"
    );
    let rows = packed.as_chunks_mut::<{ 2 * PANEL }>().0;
    let (low, high) = (offsets(layout.stride, 0), offsets(layout.stride, REGISTER));
    let mask = u32::MAX >> (PANEL - layout.rows);
    for (pair, row) in rows[..pairs].iter_mut().enumerate() {
        let base = states[2 * pair..].as_ptr().cast();
        // SAFETY: the masks select the keys that `states` holds, as has been asserted; offsets of others are not read. A row
        // is two registers long.
        unsafe {
            let (zero, to) = (_mm512_setzero_si512(), row.as_mut_ptr());
            let first = _mm512_mask_i32gather_epi32::<2>(zero, mask as u16, low, base);
            let second =
                _mm512_mask_i32gather_epi32::<2>(zero, (mask >> REGISTER) as u16, high, base);
            _mm512_storeu_si512(to.cast(), first);
            _mm512_storeu_si512(to.add(2 * REGISTER).cast(), second);
        }
    }
}

/// Where sixteen rows begin, from row `first` on, in values.
#[inline]
#[target_feature(enable = "avx512f")]
fn offsets(stride: usize, first: usize) -> __m512i {
    let rows = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let rows = _mm512_add_epi32(rows, _mm512_set1_epi32(first as i32));
    // The caller has checked that a stride fits.
    _mm512_mullo_epi32(rows, _mm512_set1_epi32(stride as i32))
}
