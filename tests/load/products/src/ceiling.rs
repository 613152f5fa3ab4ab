//! The maximum of one core: fused products and sums on registers, as many side by side as hide their
//! latency.

use std::time::Duration;

/// Billions of operations in a second, for each set of instructions that the machine has.
pub(crate) fn rates(span: Duration) -> Vec<(&'static str, f64)> {
    #[cfg(target_arch = "x86_64")]
    return x86::rates(span);
    #[cfg(not(target_arch = "x86_64"))]
    return Vec::new();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512bh, __m512i, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_dpbf16_ps, _mm512_fmadd_ps,
        _mm512_set1_epi16, _mm512_set1_ps,
    };
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    /// Registers that sums are kept in: more than latency times instructions a cycle on any core so far, and
    /// fewer than AVX2 has.
    const SUMS: usize = 12;
    const STEPS: usize = 10_000;

    /// Computes [`STEPS`] times [`SUMS`] registers.
    ///
    /// # Safety
    /// The machine has the instructions that the function was compiled for.
    type Loop = unsafe fn();

    pub(super) fn rates(span: Duration) -> Vec<(&'static str, f64)> {
        let mut rates = Vec::new();
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            rates.push(("AVX2 f32", rate(avx2, 2 * 8, span)));
        }
        if is_x86_feature_detected!("avx512f") {
            rates.push(("AVX-512 f32", rate(avx512, 2 * 16, span)));
        }
        if is_x86_feature_detected!("avx512bf16") {
            rates.push(("AVX-512 bf16", rate(avx512_bf16, 2 * 32, span)));
        }
        rates
    }

    fn rate(steps: Loop, flop: usize, span: Duration) -> f64 {
        let started = Instant::now();
        let mut quickest = f64::INFINITY;
        while started.elapsed() < span {
            let run = Instant::now();
            // SAFETY: the caller has looked for the instructions.
            unsafe { steps() };
            quickest = quickest.min(run.elapsed().as_secs_f64());
        }
        (STEPS * SUMS * flop) as f64 / quickest / 1e9
    }

    #[target_feature(enable = "avx2,fma")]
    fn avx2() {
        let (a, b) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(0.25));
        let mut sums = [_mm256_set1_ps(0.0); SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f")]
    fn avx512() {
        let (a, b) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(0.25));
        let mut sums = [_mm512_set1_ps(0.0); SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn avx512_bf16() {
        let a = pairs(_mm512_set1_epi16(black_box(0x3f00)));
        let mut sums = [_mm512_set1_ps(0.0); SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, a, a);
            }
        }
        black_box(sums);
    }

    /// The same bits, seen as bf16.
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn pairs(register: __m512i) -> __m512bh {
        // SAFETY: both types are 512 bits, of which every pattern is a value.
        unsafe { std::mem::transmute(register) }
    }
}
