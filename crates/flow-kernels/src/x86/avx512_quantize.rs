//! 8-bit states with AVX-512, with the results of `elementwise::quantize`.
//!
//! A block of 128 values is eight registers. Values that are a register or more apart are mixed by adding and subtracting
//! registers, and closer ones by permuting a register and adding it with alternating signs.

use std::arch::x86_64::{
    __m512, _mm_storeu_si128, _mm512_add_ps, _mm512_castps_si512, _mm512_cvtepi32_epi8,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps,
    _mm512_permute_ps, _mm512_reduce_max_ps, _mm512_reduce_min_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_sub_ps,
};

use crate::elementwise::{self, RowRange};
use crate::int8::{RowScale, StateLayout};

/// Values of a register.
const REGISTER: usize = 16;

/// Registers of a block.
const REGISTERS: usize = 8;

/// Values of a block.
const BLOCK: usize = REGISTERS * REGISTER;

/// Multiplies a row by factors, rotates it and turns it into 8-bit integers. `rotated` is as long as the row.
///
/// # Safety
///
/// The machine must have AVX-512 F, BW, DQ and VL, and FMA.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub(crate) unsafe fn quantize(
    row: &[f32],
    layout: &StateLayout,
    rotated: &mut [f32],
    quantized: &mut [u8],
) -> RowScale {
    if layout.rotation.block() != BLOCK {
        // SAFETY: the caller guarantees what the function needs.
        return unsafe { (elementwise::avx512::TABLE.quantize)(row, layout, rotated, quantized) };
    }
    let (mut low, mut high) = (_mm512_setzero_ps(), _mm512_setzero_ps());
    let blocks = row.as_chunks::<BLOCK>().0.iter();
    let factors = layout.factors.as_chunks::<BLOCK>().0;
    for ((from, factors), to) in blocks.zip(factors).zip(rotated.as_chunks_mut::<BLOCK>().0) {
        let registers = mix_registers(load(from, factors));
        for (register, to) in registers.into_iter().zip(to.as_chunks_mut::<REGISTER>().0) {
            let register = mix_lanes(register);
            low = _mm512_min_ps(low, register);
            high = _mm512_max_ps(high, register);
            // SAFETY: the chunk is as long as a register.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), register) };
        }
    }
    let range = RowRange::new(_mm512_reduce_min_ps(low), _mm512_reduce_max_ps(high));
    let to = quantized.as_chunks_mut::<REGISTER>().0;
    let (factor, offset) = (_mm512_set1_ps(range.factor), _mm512_set1_ps(range.offset));
    for (to, from) in to.iter_mut().zip(rotated.as_chunks::<REGISTER>().0) {
        // SAFETY: the chunks are as long as a register, and as a quarter of one.
        unsafe {
            let value = _mm512_mul_ps(_mm512_loadu_ps(from.as_ptr()), factor);
            let bits = _mm512_castps_si512(_mm512_add_ps(value, offset));
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(bits));
        }
    }
    range.scale
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; BLOCK], factors: &[f32; BLOCK]) -> [__m512; REGISTERS] {
    let (values, factors) = (
        values.as_chunks::<REGISTER>().0,
        factors.as_chunks::<REGISTER>().0,
    );
    // SAFETY: the chunks are as long as a register.
    std::array::from_fn(|index| unsafe {
        let value = _mm512_loadu_ps(values[index].as_ptr());
        _mm512_mul_ps(value, _mm512_loadu_ps(factors[index].as_ptr()))
    })
}

/// Mixes values that are one, two and four registers apart.
#[inline]
#[target_feature(enable = "avx512f")]
fn mix_registers(mut registers: [__m512; REGISTERS]) -> [__m512; REGISTERS] {
    for half in [1, 2, 4] {
        for first in (0..REGISTERS).filter(|index| index & half == 0) {
            let (a, b) = (registers[first], registers[first + half]);
            registers[first] = _mm512_add_ps(a, b);
            registers[first + half] = _mm512_sub_ps(a, b);
        }
    }
    registers
}

/// Mixes the values of a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn mix_lanes(x: __m512) -> __m512 {
    let x = _mm512_fmadd_ps(x, signs::<1>(), _mm512_permute_ps::<0b10_11_00_01>(x));
    let x = _mm512_fmadd_ps(x, signs::<2>(), _mm512_permute_ps::<0b01_00_11_10>(x));
    let x = _mm512_fmadd_ps(x, signs::<4>(), _mm512_shuffle_f32x4::<0b10_11_00_01>(x, x));
    _mm512_fmadd_ps(x, signs::<8>(), _mm512_shuffle_f32x4::<0b01_00_11_10>(x, x))
}

/// 1 for each lane that gets a sum of values that are `D` apart, and -1 for each that gets a difference.
#[inline]
#[target_feature(enable = "avx512f")]
fn signs<const D: usize>() -> __m512 {
    let signs: [f32; REGISTER] = const {
        let mut signs = [1.0; REGISTER];
        let mut lane = 0;
        while lane < REGISTER {
            if lane & D != 0 {
                signs[lane] = -1.0;
            }
            lane += 1;
        }
        signs
    };
    // SAFETY: the array is as long as a register.
    unsafe { _mm512_loadu_ps(signs.as_ptr()) }
}
