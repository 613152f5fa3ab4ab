//! Compares each function, in each instruction set that the machine has, with 64-bit floats.

use super::*;
use crate::activation::Activation;
use crate::kernels::Kernels;
use crate::keys::transpose_keys;
use crate::tile::PANEL;

const LENGTHS: [usize; 9] = [1, 2, 15, 16, 17, 31, 33, 384, 1000];

fn values(count: usize, range: f32) -> Vec<f32> {
    (0..count)
        .map(|n| ((n * 7919 % 1009) as f32 / 504.0 - 1.0) * range)
        .collect()
}

/// The error function as a power series, accurate to the last digit.
fn erf_f64(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn gelu_f64(x: f64) -> f64 {
    0.5 * x * (1.0 + erf_f64(x * std::f64::consts::FRAC_1_SQRT_2))
}

fn gelu_tanh_f64(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

type Reference = fn(f64) -> f64;

/// `exp(scale · (value − largest))` of each value.
fn powers(values: &[f32], scale: f64) -> Vec<f64> {
    let largest = values.iter().copied().fold(f32::MIN, f32::max);
    let power = |value: &f32| (f64::from(value - largest) * scale).exp();
    values.iter().map(power).collect()
}

/// A single row of `width` values.
fn row(width: usize) -> RowLayout {
    RowLayout {
        rows: 1,
        width,
        stride: width.next_multiple_of(32),
    }
}

#[test]
fn activations_are_accurate_to_a_few_units_in_the_last_place() {
    let references: [(Activation, Reference); 3] = [
        (Activation::Gelu, gelu_f64),
        (Activation::GeluTanh, gelu_tanh_f64),
        (Activation::Relu, |x| x.max(0.0)),
    ];
    for kernels in Kernels::all() {
        for (activation, reference) in references {
            for length in LENGTHS {
                let before = values(length, 8.0);
                let mut after = before.clone();
                kernels.activate(activation, &mut after, row(length));
                for (before, after) in before.iter().zip(&after) {
                    let expected = reference(f64::from(*before));
                    let error =
                        (f64::from(*after) - expected).abs() / (1.0 + f64::from(before.abs()));
                    assert!(
                        error < 3e-7,
                        "{kernels:?} {activation:?}({before}) = {after}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_softmax_sums_to_one_and_ignores_values_behind_the_row() {
    for kernels in Kernels::all() {
        for length in LENGTHS {
            let before = values(length, 30.0);
            let mut actual_values = before.clone();
            actual_values.resize(length.next_multiple_of(32), 1e9);
            let mut factor = [0.0];
            kernels.softmax(&mut actual_values, row(length), 0.5, &mut factor);
            let powers = powers(&before, 0.5);
            let total: f64 = powers.iter().sum();
            for (power, actual) in powers.iter().zip(&actual_values) {
                let expected = power / total;
                let error = (f64::from(actual * factor[0]) - expected).abs();
                assert!(
                    error < 1e-6,
                    "{kernels:?} {length}: {actual}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn a_layer_norm_has_the_expected_mean_and_variance() {
    for kernels in Kernels::all() {
        for length in LENGTHS {
            let (before, added) = (values(length, 3.0), values(length, 0.5));
            let (scale, shift) = (vec![2.0; length], vec![0.25; length]);
            let mut out = before.clone();
            let weights = LayerNormArgs {
                scale: &scale,
                shift: &shift,
                epsilon: 1e-12,
            };
            // SAFETY: `Kernels::all` returns only kernels that the machine can run.
            unsafe { (kernels.table().elementwise.add_layer_norm)(&mut out, &added, &weights) };
            let sums: Vec<f64> = before
                .iter()
                .zip(&added)
                .map(|(a, b)| f64::from(a + b))
                .collect();
            let mean = sums.iter().sum::<f64>() / length as f64;
            let variance = sums.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / length as f64;
            for (sum, actual) in sums.iter().zip(&out) {
                let expected = (sum - mean) / (variance + 1e-12).sqrt() * 2.0 + 0.25;
                let error = (f64::from(*actual) - expected).abs();
                assert!(
                    length == 1 || error < 2e-5,
                    "{kernels:?} {length}: {actual}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn the_exponential_is_accurate_over_its_whole_range() {
    for hundredths in -8700..8800_i32 {
        let x = hundredths as f32 / 100.0;
        for actual in [exp::<true>(x), exp::<false>(x)] {
            let expected = f64::from(x).exp();
            assert!(
                (f64::from(actual) / expected - 1.0).abs() < 3e-7,
                "exp({x}) = {actual}"
            );
        }
    }
    assert!(exp::<true>(-1e30) < 1e-37);
}

#[test]
fn rows_of_any_width_are_rounded_to_bf16() {
    for kernels in Kernels::all() {
        for width in LENGTHS {
            let layout = RowLayout {
                rows: 3,
                width,
                stride: width + 5,
            };
            let before = values(3 * layout.stride, 100.0);
            let mut after = vec![7; 3 * (width + 2)];
            kernels.round(&before, layout, &mut after, width + 2);
            for (from, to) in before.chunks(layout.stride).zip(after.chunks(width + 2)) {
                let expected = from[..width].iter().map(|value| bf16::from_f32(*value));
                assert!(
                    to[..width].iter().copied().eq(expected),
                    "{kernels:?} {width}"
                );
                assert_eq!(
                    to[width..],
                    [7, 7],
                    "{kernels:?} {width}: values between rows"
                );
            }
        }
    }
}

#[test]
fn gelu_in_bf16_is_gelu_rounded() {
    const ROWS: usize = 3;
    let layout = RowLayout {
        rows: ROWS,
        width: PANEL,
        stride: PANEL + 16,
    };
    for kernels in Kernels::all() {
        let before = values(ROWS * layout.stride, 8.0);
        let (mut after, mut expected) = (before.clone(), vec![0; ROWS * PANEL]);
        kernels.activate(Activation::Gelu, &mut after, layout);
        kernels.round(&after, layout, &mut expected, PANEL);
        let (mut from, mut actual) = (before.clone(), vec![0; ROWS * PANEL]);
        kernels.activate_bf16(Activation::Gelu, (&mut from, layout), &mut actual, PANEL);
        assert_eq!(actual, expected, "{kernels:?}");
    }
}

#[test]
fn weights_in_bf16_are_rounded_and_followed_by_zeros() {
    for kernels in Kernels::all() {
        for length in LENGTHS {
            let before = values(length, 30.0);
            let largest = before.iter().copied().fold(f32::MIN, f32::max);
            let layout = row(length);
            let mut scores = before.clone();
            scores.resize(layout.stride, f32::NAN);
            let mut weights = vec![0xffff; layout.stride];
            let mut sums = [[0.0; LANES]];
            sums[0][3] = 2.5;
            kernels.weigh_bf16(&mut ScoreBlock {
                scores: &mut scores,
                layout,
                scale: 0.5,
                shifts: &[largest],
                sums: &mut sums,
                weights: &mut weights,
                weights_stride: layout.stride,
            });
            let powers = powers(&before, 0.5);
            let expected = powers.iter().sum::<f64>() + 2.5;
            let total = f64::from(reduce(sums[0], |a, b| a + b));
            assert!((total / expected - 1.0).abs() < 1e-4, "{length}");
            let (weights, rest) = weights.split_at(length);
            for (expected, actual) in powers.iter().zip(weights) {
                let actual = f64::from(bf16::to_f32(*actual));
                // Half a unit in the last place, and the error of the exponential.
                let error_max = expected / 256.0 * 1.03 + 1e-37;
                assert!(
                    (actual - expected).abs() <= error_max,
                    "{kernels:?} {length}: {actual}, expected {expected}"
                );
            }
            assert!(rest.iter().all(|value| *value == 0), "{kernels:?} {length}");
        }
    }
}

#[test]
fn transposed_keys_are_those_of_the_portable_function() {
    for kernels in Kernels::all() {
        for (rows, width) in [(1, 2), (5, 7), (15, 64), (16, 32), (17, 32), (32, 80)] {
            let keys = RowLayout {
                rows,
                width,
                stride: width + 13,
            };
            let states: Vec<u16> = (0..rows as u16 * 93).map(|n| n % 997).collect();
            let states = &states[..(rows - 1) * keys.stride + width];
            let length = width.div_ceil(2) * 2 * PANEL;
            let (mut expected, mut actual) = (vec![0; length], vec![0; length]);
            transpose_keys(states, keys, &mut expected);
            kernels.transpose_keys(states, keys, &mut actual);
            assert_eq!(actual, expected, "{kernels:?}");
        }
    }
}
