//! GELU with AVX-512, as accurate as `elementwise::gelu` and without its division.
//!
//! The distribution function of the normal distribution, of which GELU is a multiple, is a polynomial of degree three in
//! each of 32 intervals. The coefficients of an interval are looked up in registers.

use std::arch::x86_64::{
    __m512, _mm512_abs_ps, _mm512_castps_si512, _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_loadu_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_permutex2var_ps, _mm512_set1_ps, _mm512_storeu_ps,
    _mm512_sub_ps,
};

use super::avx512_bf16::store_rounded;
use crate::elementwise::{ROUNDING_BIAS, gelu_of};
use crate::row_layout::RowLayout;
use crate::tile::PANEL;

/// Values of a register.
const REGISTER: usize = 16;

/// Values that become one register of bf16.
const CHUNK: usize = 2 * REGISTER;

/// Number of intervals. Their middles are multiples of [`WIDTH`].
const INTERVALS: usize = 2 * REGISTER;

/// Width of an interval.
const WIDTH: f32 = 1.0 / 6.0;

/// Beyond it, the distribution function is one in 32-bit floats. It lies in the last interval.
const END: f32 = 31.4 * WIDTH;

/// The terms of the polynomials, from the constant to the cubic one: the distribution function less a half, for the distance
/// to the middle of an interval. They were fitted at Chebyshev's nodes.
static TERMS: [Term; 4] = [
    Term([
        0.0,
        0.066_183_78,
        0.130_558_57,
        0.191_462_34,
        0.247_507_32,
        0.297_671_5,
        0.341_344_62,
        0.378_327_4,
        0.408_788_7,
        0.433_192_76,
        0.452_209_65,
        0.466_623_5,
        0.477_249_9,
        0.484_869_9,
        0.490_184_7,
        0.493_790_36,
        0.496_169_66,
        0.497_696_76,
        0.498_650_13,
        0.499_229_04,
        0.499_570_94,
        0.499_767_4,
        0.499_877_13,
        0.499_936_8,
        0.499_968_32,
        0.499_984_53,
        0.499_992_67,
        0.499_996_6,
        0.499_998_48,
        0.499_999_3,
        0.499_999_7,
        0.5,
    ]),
    Term([
        0.398_942_14,
        0.393_439_6,
        0.377_383_1,
        0.352_065_27,
        0.319_448,
        0.281_911_9,
        0.241_970_79,
        0.201_998_77,
        0.164_010_17,
        0.129_517_69,
        0.099_477_22,
        0.074_311_22,
        0.053_991,
        0.038_152_64,
        0.026_221_89,
        0.017_528_29,
        0.011_395_97,
        0.007_206_082_3,
        0.004_431_831_7,
        0.002_650_961_5,
        0.001_542_267_4,
        8.726_74e-4,
        4.802_644_3e-4,
        2.570_661_3e-4,
        1.338_274_9e-4,
        6.776_130_6e-5,
        3.336_984e-5,
        1.598_315_4e-5,
        7.445_720_7e-6,
        3.373_548e-6,
        1.486_629_9e-6,
        0.0,
    ]),
    Term([
        9.472_414e-16,
        -0.032_730_31,
        -0.062_792_16,
        -0.087_876_4,
        -0.106_325_336,
        -0.117_306_69,
        -0.120_845_42,
        -0.117_720_86,
        -0.109_262_72,
        -0.097_096,
        -0.082_886_904,
        -0.068_132_736,
        -0.054_022_152,
        -0.041_372_485,
        -0.030_635_443,
        -0.021_951_562,
        -0.015_230_787,
        -0.010_238_343,
        -0.006_670_86,
        -0.004_214_457_2,
        -0.002_582_539_3,
        -0.001_535_377_9,
        -8.858_249e-4,
        -4.960_579e-4,
        -2.696_778_4e-4,
        -1.423_487_4e-4,
        -7.296_535e-5,
        -3.632_343_2e-5,
        -1.756_350_1e-5,
        -8.249_565e-6,
        -3.764_301_5e-6,
        0.0,
    ]),
    Term([
        -0.066_403_88,
        -0.063_671_22,
        -0.055_844_64,
        -0.043_968_394,
        -0.029_566_243,
        -0.014_370_548,
        -3.495_875_7e-5,
        0.012_108_956,
        0.021_207_152,
        0.026_931_923,
        0.029_431_907,
        0.029_211_272,
        0.026_975_948,
        0.023_483_474,
        0.019_423_557,
        0.015_343_032,
        0.011_615_996,
        0.008_450_518,
        0.005_918_743_6,
        0.003_997_055_3,
        0.002_605_696_2,
        0.001_641_304,
        9.997_002e-4,
        5.891_727_6e-4,
        3.361_551_8e-4,
        1.857_625e-4,
        9.946_398_5e-5,
        5.161_889_6e-5,
        2.597_246_4e-5,
        1.267_331e-5,
        5.998_422_7e-6,
        0.0,
    ]),
];

/// One coefficient of each interval.
#[repr(C, align(64))]
struct Term([f32; INTERVALS]);

/// The coefficients, in registers.
struct Table([[__m512; 2]; 4]);

/// Applies GELU in place.
///
/// # Safety
///
/// The machine must have AVX-512 F and DQ, and FMA.
#[target_feature(enable = "avx512f,avx512dq,fma")]
pub(crate) unsafe fn gelu(values: &mut [f32], layout: RowLayout) {
    let table = Table::load();
    for row in 0..layout.rows {
        let row = &mut values[row * layout.stride..][..layout.width];
        let (registers, rest) = row.as_chunks_mut::<REGISTER>();
        for register in registers {
            // SAFETY: the chunk is as long as a register.
            unsafe {
                let value = _mm512_loadu_ps(register.as_ptr());
                _mm512_storeu_ps(register.as_mut_ptr(), table.gelu(value));
            }
        }
        rest.iter_mut().for_each(|value| *value = gelu_of(*value));
    }
}

/// Applies GELU to rows of a panel, and rounds the results. Rows of `rounded` are `stride` values apart.
///
/// # Safety
///
/// The machine must have AVX-512 F, DQ and BF16, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bf16,fma")]
pub(crate) unsafe fn gelu_bf16(
    values: &mut [f32],
    layout: RowLayout,
    rounded: &mut [u16],
    stride: usize,
) {
    let table = Table::load();
    for row in 0..layout.rows {
        let from = &values[row * layout.stride..][..PANEL];
        let to = &mut rounded[row * stride..][..PANEL];
        let chunks = from.as_chunks::<CHUNK>().0;
        for (from, to) in chunks.iter().zip(to.as_chunks_mut::<CHUNK>().0) {
            let (low, high) = from.split_at(REGISTER);
            // SAFETY: both halves are as long as a register.
            let (low, high) = unsafe {
                (
                    _mm512_loadu_ps(low.as_ptr()),
                    _mm512_loadu_ps(high.as_ptr()),
                )
            };
            store_rounded(table.gelu(low), table.gelu(high), to);
        }
    }
}

impl Table {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load() -> Self {
        let load = |Term(term): &Term| {
            let start = term.as_ptr();
            // SAFETY: a term has two registers of values.
            unsafe { [_mm512_loadu_ps(start), _mm512_loadu_ps(start.add(REGISTER))] }
        };
        Self([
            load(&TERMS[0]),
            load(&TERMS[1]),
            load(&TERMS[2]),
            load(&TERMS[3]),
        ])
    }

    /// GELU of a register.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,fma")]
    fn gelu(&self, x: __m512) -> __m512 {
        let bias = _mm512_set1_ps(ROUNDING_BIAS);
        let size = _mm512_abs_ps(x);
        let limited = _mm512_min_ps(size, _mm512_set1_ps(END));
        // The number of the interval is in the low bits of the sum.
        let shifted = _mm512_fmadd_ps(limited, _mm512_set1_ps(1.0 / WIDTH), bias);
        let interval = _mm512_castps_si512(shifted);
        let middle = _mm512_sub_ps(shifted, bias);
        let distance = _mm512_fnmadd_ps(middle, _mm512_set1_ps(WIDTH), limited);
        let term = |index: usize| {
            let [low, high] = self.0[index];
            _mm512_permutex2var_ps(low, interval, high)
        };
        let sum = _mm512_fmadd_ps(term(3), distance, term(2));
        let sum = _mm512_fmadd_ps(sum, distance, term(1));
        let sum = _mm512_fmadd_ps(sum, distance, term(0));
        _mm512_fmadd_ps(size, sum, _mm512_mul_ps(x, _mm512_set1_ps(0.5)))
    }
}
