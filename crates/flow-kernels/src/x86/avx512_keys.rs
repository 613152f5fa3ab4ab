//! Transposes keys with AVX-512: sixteen pairs of sixteen keys at a time, within registers.

use std::arch::x86_64::{
    __m512i, _mm512_maskz_loadu_epi32, _mm512_setzero_si512, _mm512_shuffle_i32x4,
    _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64,
};

use crate::keys;
use crate::row_layout::RowLayout;
use crate::tile::PANEL;

/// Pairs of a register, and keys of a block.
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
    if !layout.width.is_multiple_of(2) {
        return keys::transpose_keys(states, layout, packed);
    }
    let rows = &mut packed.as_chunks_mut::<{ 2 * PANEL }>().0[..layout.width / 2];
    for first in (0..layout.rows).step_by(REGISTER) {
        let keys = RowLayout {
            rows: (layout.rows - first).min(REGISTER),
            ..layout
        };
        for (block, rows) in rows.chunks_mut(REGISTER).enumerate() {
            let start = first * layout.stride + 2 * REGISTER * block;
            let columns = transposed(load(&states[start..], keys, rows.len()));
            for (row, column) in rows.iter_mut().zip(columns) {
                let to = &mut row[2 * first..][..2 * REGISTER];
                // SAFETY: there is space for a register of pairs.
                unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), column) };
            }
        }
    }
}

/// Loads `pairs` pairs of each key, and zeros for keys that are missing.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(states: &[u16], keys: RowLayout, pairs: usize) -> [__m512i; REGISTER] {
    let mask = u16::MAX >> (REGISTER - pairs);
    let mut registers = [_mm512_setzero_si512(); REGISTER];
    for (key, register) in registers.iter_mut().take(keys.rows).enumerate() {
        let pairs = &states[key * keys.stride..][..2 * pairs];
        // SAFETY: the mask selects the pairs that there are.
        *register = unsafe { _mm512_maskz_loadu_epi32(mask, pairs.as_ptr().cast()) };
    }
    registers
}

/// The columns of sixteen rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512i; REGISTER]) -> [__m512i; REGISTER] {
    let mut columns = [_mm512_setzero_si512(); REGISTER];
    // Groups of four rows. Each 128 bits of a register then have a column of the four, and columns of one register are four
    // columns apart.
    let groups: [[__m512i; 4]; 4] = std::array::from_fn(|group| {
        let rows = &rows[4 * group..];
        let low = [
            _mm512_unpacklo_epi32(rows[0], rows[1]),
            _mm512_unpacklo_epi32(rows[2], rows[3]),
        ];
        let high = [
            _mm512_unpackhi_epi32(rows[0], rows[1]),
            _mm512_unpackhi_epi32(rows[2], rows[3]),
        ];
        [
            _mm512_unpacklo_epi64(low[0], low[1]),
            _mm512_unpackhi_epi64(low[0], low[1]),
            _mm512_unpacklo_epi64(high[0], high[1]),
            _mm512_unpackhi_epi64(high[0], high[1]),
        ]
    });
    /// The first and third, and the second and fourth 128 bits of both operands.
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    for column in 0..4 {
        let [a, b, c, d] = groups.map(|group| group[column]);
        let (ab, cd) = (
            _mm512_shuffle_i32x4::<EVEN>(a, b),
            _mm512_shuffle_i32x4::<EVEN>(c, d),
        );
        columns[column] = _mm512_shuffle_i32x4::<EVEN>(ab, cd);
        columns[column + 8] = _mm512_shuffle_i32x4::<ODD>(ab, cd);
        let (ab, cd) = (
            _mm512_shuffle_i32x4::<ODD>(a, b),
            _mm512_shuffle_i32x4::<ODD>(c, d),
        );
        columns[column + 4] = _mm512_shuffle_i32x4::<EVEN>(ab, cd);
        columns[column + 12] = _mm512_shuffle_i32x4::<ODD>(ab, cd);
    }
    columns
}
