//! Each function in each set of instructions that the machine has, against 64-bit floats.

use super::*;
use crate::select::BackEnd;
use crate::linear::Activation;

const LENGTHS: [usize; 9] = [1, 2, 15, 16, 17, 31, 33, 384, 1000];

fn values(count: usize, range: f32) -> Vec<f32> {
    (0..count)
        .map(|at| ((at * 7919 % 1009) as f32 / 504.0 - 1.0) * range)
        .collect()
}

/// The error function by its series, which needs many terms and is right to the last digit.
fn erf_exact(x: f64) -> f64 {
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

fn gelu_exact(x: f64) -> f64 {
    0.5 * x * (1.0 + erf_exact(x * std::f64::consts::FRAC_1_SQRT_2))
}

fn gelu_tanh_exact(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

type Exact = fn(f64) -> f64;

/// One row of so many values.
fn row(width: usize) -> Shape {
    Shape {
        rows: 1,
        width,
        stride: width.next_multiple_of(32),
    }
}

#[test]
fn activations_are_right_to_a_few_units_in_the_last_place() {
    let exact: [(Activation, Exact); 3] = [
        (Activation::Gelu, gelu_exact),
        (Activation::GeluTanh, gelu_tanh_exact),
        (Activation::Relu, |x| x.max(0.0)),
    ];
    for kernels in BackEnd::all() {
        for (activation, exact) in exact {
            for length in LENGTHS {
                let before = values(length, 8.0);
                let mut after = before.clone();
                kernels.activate(activation, &mut after, row(length));
                for (before, after) in before.iter().zip(&after) {
                    let wanted = exact(f64::from(*before));
                    let error =
                        (f64::from(*after) - wanted).abs() / (1.0 + f64::from(before.abs()));
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
fn a_soft_max_sums_to_one_and_ignores_what_stands_behind() {
    for kernels in BackEnd::all() {
        for length in LENGTHS {
            let before = values(length, 30.0);
            let mut softened = before.clone();
            softened.resize(length.next_multiple_of(32), 1e9);
            let mut factor = [0.0];
            kernels.soft_max(&mut softened, row(length), 0.5, &mut factor);
            let largest = before.iter().copied().fold(f32::MIN, f32::max);
            let exact = |value: &f32| (f64::from(value - largest) * 0.5).exp();
            let total: f64 = before.iter().map(exact).sum();
            for (before, got) in before.iter().zip(&softened) {
                let wanted = exact(before) / total;
                let error = (f64::from(got * factor[0]) - wanted).abs();
                assert!(error < 1e-6, "{kernels:?} {length}: {got}, wanted {wanted}");
            }
        }
    }
}

#[test]
fn a_norm_has_the_mean_and_variance_that_it_should() {
    for kernels in BackEnd::all() {
        for length in LENGTHS {
            let (before, added) = (values(length, 3.0), values(length, 0.5));
            let (scale, shift) = (vec![2.0; length], vec![0.25; length]);
            let mut out = before.clone();
            let norm = Norm {
                scale: &scale,
                shift: &shift,
                epsilon: 1e-12,
            };
            // SAFETY: the back end is one that the machine has.
            unsafe { (kernels.table().elementwise.add_norm)(&mut out, &added, &norm) };
            let sums: Vec<f64> = before
                .iter()
                .zip(&added)
                .map(|(a, b)| f64::from(a + b))
                .collect();
            let mean = sums.iter().sum::<f64>() / length as f64;
            let variance = sums.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / length as f64;
            for (sum, got) in sums.iter().zip(&out) {
                let wanted = (sum - mean) / (variance + 1e-12).sqrt() * 2.0 + 0.25;
                let error = (f64::from(*got) - wanted).abs();
                assert!(
                    length == 1 || error < 2e-5,
                    "{kernels:?} {length}: {got}, wanted {wanted}"
                );
            }
        }
    }
}

#[test]
fn the_exponential_is_right_over_its_whole_range() {
    for at in -8700..8800_i32 {
        let x = at as f32 / 100.0;
        for got in [exp::<true>(x), exp::<false>(x)] {
            let wanted = f64::from(x).exp();
            assert!(
                (f64::from(got) / wanted - 1.0).abs() < 3e-7,
                "exp({x}) = {got}"
            );
        }
    }
    assert!(exp::<true>(-1e30) < 1e-37);
}

#[test]
fn rounding_is_that_of_bf16_whatever_the_width() {
    for kernels in BackEnd::all() {
        for width in LENGTHS {
            let shape = Shape {
                rows: 3,
                width,
                stride: width + 5,
            };
            let before = values(3 * shape.stride, 100.0);
            let mut after = vec![7; 3 * (width + 2)];
            kernels.round(&before, shape, &mut after, width + 2);
            for (from, to) in before.chunks(shape.stride).zip(after.chunks(width + 2)) {
                let wanted = from[..width].iter().map(|value| bf16::round(*value));
                assert!(
                    to[..width].iter().copied().eq(wanted),
                    "{kernels:?} {width}"
                );
                assert_eq!(
                    to[width..],
                    [7, 7],
                    "{kernels:?} {width}: what lies between"
                );
            }
        }
    }
}
