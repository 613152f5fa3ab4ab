//! 8-bit states with AVX2, with the results of `elementwise::quantize`.
//!
//! As `avx512_quantize.rs`, with sixteen registers of eight values for a block. Values are mixed in the same order, so the last
//! step of a register of AVX-512, between values that are eight apart, comes after those within a register.

use std::arch::x86_64::{
    __m256, __m256i, _mm256_add_ps, _mm256_and_si256, _mm256_castps_si256, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_packus_epi16,
    _mm256_packus_epi32, _mm256_permute_ps, _mm256_permute2f128_ps, _mm256_permutevar8x32_epi32,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setr_ps, _mm256_setzero_ps,
    _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps,
};

use crate::elementwise::{self, RowRange};
use crate::int8::{RowScale, StateLayout};

/// Values of a register.
const REGISTER: usize = 8;

/// Registers of a block.
const REGISTERS: usize = 16;

/// Values of a block.
const BLOCK: usize = REGISTERS * REGISTER;

/// Integers of a register.
const BYTES: usize = 32;

/// Multiplies a row by factors, rotates it and turns it into 8-bit integers. `rotated` is as long as the row.
///
/// # Safety
///
/// The machine must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn quantize(
    row: &[f32],
    layout: &StateLayout,
    rotated: &mut [f32],
    quantized: &mut [u8],
) -> RowScale {
    if layout.rotation.block() != BLOCK {
        // SAFETY: the caller guarantees what the function needs.
        return unsafe { (elementwise::avx2::TABLE.quantize)(row, layout, rotated, quantized) };
    }
    let (mut low, mut high) = (_mm256_setzero_ps(), _mm256_setzero_ps());
    let blocks = row.as_chunks::<BLOCK>().0.iter();
    let factors = layout.factors.as_chunks::<BLOCK>().0;
    for ((from, factors), to) in blocks.zip(factors).zip(rotated.as_chunks_mut::<BLOCK>().0) {
        let registers = mix(load(from, factors));
        for (register, to) in registers.into_iter().zip(to.as_chunks_mut::<REGISTER>().0) {
            low = _mm256_min_ps(low, register);
            high = _mm256_max_ps(high, register);
            // SAFETY: the chunk is as long as a register.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), register) };
        }
    }
    let range = RowRange::new(
        values(low).into_iter().fold(0.0, f32::min),
        values(high).into_iter().fold(0.0, f32::max),
    );
    let to = quantized.as_chunks_mut::<BYTES>().0;
    for (to, from) in to.iter_mut().zip(rotated.as_chunks::<BYTES>().0) {
        let bytes = integers(from, range);
        // SAFETY: the chunk is as long as a register.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes) };
    }
    range.scale
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(values: &[f32; BLOCK], factors: &[f32; BLOCK]) -> [__m256; REGISTERS] {
    let values = values.as_chunks::<REGISTER>().0;
    let factors = factors.as_chunks::<REGISTER>().0;
    // SAFETY: the chunks are as long as a register.
    std::array::from_fn(|index| unsafe {
        let value = _mm256_loadu_ps(values[index].as_ptr());
        _mm256_mul_ps(value, _mm256_loadu_ps(factors[index].as_ptr()))
    })
}

/// Mixes all values of a block.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mix(registers: [__m256; REGISTERS]) -> [__m256; REGISTERS] {
    let registers = mix_registers(registers, 2);
    let registers = mix_registers(registers, 4);
    let registers = mix_registers(registers, 8);
    mix_registers(registers.map(|register| mix_lanes(register)), 1)
}

/// Mixes values that are `half` registers apart.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mix_registers(mut registers: [__m256; REGISTERS], half: usize) -> [__m256; REGISTERS] {
    for first in (0..REGISTERS).filter(|index| index & half == 0) {
        let (a, b) = (registers[first], registers[first + half]);
        registers[first] = _mm256_add_ps(a, b);
        registers[first + half] = _mm256_sub_ps(a, b);
    }
    registers
}

/// Mixes the values of a register.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mix_lanes(x: __m256) -> __m256 {
    let signs = _mm256_setr_ps(1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0);
    let x = _mm256_fmadd_ps(x, signs, _mm256_permute_ps::<0b10_11_00_01>(x));
    let signs = _mm256_setr_ps(1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0);
    let x = _mm256_fmadd_ps(x, signs, _mm256_permute_ps::<0b01_00_11_10>(x));
    let signs = _mm256_setr_ps(1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0);
    _mm256_fmadd_ps(x, signs, _mm256_permute2f128_ps::<1>(x, x))
}

/// Rounds four registers to one of 8-bit integers.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn integers(values: &[f32; BYTES], range: RowRange) -> __m256i {
    let (factor, offset) = (_mm256_set1_ps(range.factor), _mm256_set1_ps(range.offset));
    let values = values.as_chunks::<REGISTER>().0;
    let [a, b, c, d] = std::array::from_fn(|index| {
        // SAFETY: the chunk is as long as a register.
        let value = unsafe { _mm256_loadu_ps(values[index].as_ptr()) };
        let sum = _mm256_add_ps(_mm256_mul_ps(value, factor), offset);
        _mm256_and_si256(_mm256_castps_si256(sum), _mm256_set1_epi32(0xff))
    });
    // Packing works on halves of registers, so groups of four integers are put into order afterwards.
    let packed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn values(register: __m256) -> [f32; REGISTER] {
    let mut values = [0.0; REGISTER];
    // SAFETY: the array is as long as a register.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), register) };
    values
}
