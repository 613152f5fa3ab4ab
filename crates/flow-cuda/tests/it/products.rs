//! Matrix products in each format, against plain loops in 64-bit floats.

use std::sync::Arc;

use flow_cuda::{Activation, Epilogue, Format, Gpu, Multiplier};
use flow_cuda_emulator::Settings;

use crate::emulator;
use crate::random::{Seeded, gelu, half_unit, rounded};

/// Rows, columns, and what is summed over.
const SHAPES: &[[usize; 3]] = &[
    [1, 1, 1],
    [1, 33, 17],
    [15, 16, 31],
    [16, 8, 32],
    [17, 15, 33],
    [31, 127, 64],
    [33, 64, 129],
    [65, 129, 40],
    [129, 130, 24],
];

const FORMATS: [Format; 4] = [Format::F32, Format::Tf32, Format::F16, Format::Bf16];

struct Case {
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
    shape: [usize; 3],
}

impl Case {
    fn of(shape: [usize; 3]) -> Self {
        let [rows, columns, depth] = shape;
        let mut seeded = Seeded::new((rows * 1000 + columns) as u32);
        Self {
            a: seeded.values(rows * depth, 1.0),
            b: seeded.values(columns * depth, 1.0),
            bias: seeded.values(columns, 1.0),
            residual: seeded.values(rows * columns, 1.0),
            shape,
        }
    }

    /// The sum of a place of C, and that of its terms' magnitudes.
    fn sum(&self, format: Format, (row, column): (usize, usize)) -> (f64, f64) {
        let depth = self.shape[2];
        let at = |values: &[f32], row: usize, k: usize| rounded(values[row * depth + k], format);
        let terms = (0..depth).map(|k| at(&self.a, row, k) * at(&self.b, column, k));
        terms.fold((0.0, 0.0), |(sum, size), term| {
            (sum + term, size + term.abs())
        })
    }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Gelu => gelu(x),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Relu => x.max(0.0),
    }
}

/// With bias and residual, or without both.
fn check(gpu: &Arc<dyn Gpu>, format: Format, shape: [usize; 3], with: Option<Activation>) {
    let (case, [rows, columns, depth]) = (Case::of(shape), shape);
    let multiplier = Multiplier::new(gpu, format).unwrap();
    let a = multiplier.matrix(&case.a, depth).unwrap();
    let b = multiplier.matrix(&case.b, depth).unwrap();
    let bias = multiplier.bias(&case.bias).unwrap();
    let residual = multiplier.matrix(&case.residual, columns).unwrap();
    let mut c = multiplier.matrix(&vec![f32::NAN; rows * columns], columns);
    let c = c.as_mut().unwrap();
    let epilogue = Epilogue {
        bias: with.map(|_| &bias),
        activation: with.unwrap_or_default(),
        residual: with.map(|_| &residual),
    };
    multiplier.multiply(&a, &b, epilogue, c).unwrap();
    let got = multiplier.read(c).unwrap();
    let stored = if format == Format::Tf32 {
        Format::F32
    } else {
        format
    };
    for (place, got) in got.iter().enumerate() {
        let at = (place / columns, place % columns);
        let (mut wanted, mut size) = case.sum(format, at);
        if let Some(activation) = with {
            wanted = activate(activation, wanted + f64::from(case.bias[at.1]));
            wanted += rounded(case.residual[place], stored);
            size += 2.0;
        }
        let off = (f64::from(*got) - wanted).abs();
        let allowed = half_unit(stored) * 1.01 * wanted.abs() + 2f64.powi(-20) * size + 1e-7;
        assert!(
            off <= allowed,
            "{format} {shape:?} {with:?} at {at:?}: {got}, wanted {wanted}"
        );
    }
}

/// In small tiles on a device with many multiprocessors, in large ones on one with one.
#[track_caller]
fn check_all(formats: &[Format], multiprocessors: u32) {
    let settings = Settings {
        multiprocessors,
        ..Settings::default()
    };
    let Some(gpu) = emulator(settings) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    for (number, shape) in SHAPES.iter().enumerate() {
        for format in formats {
            let activations = [
                Activation::None,
                Activation::Gelu,
                Activation::GeluTanh,
                Activation::Relu,
            ];
            check(&gpu, *format, *shape, None);
            check(&gpu, *format, *shape, Some(activations[number % 4]));
        }
    }
}

#[test]
fn products_in_small_tiles_are_what_sums_in_64_bits_say() {
    check_all(&FORMATS, 1000);
}

#[test]
fn products_in_large_tiles_are_what_sums_in_64_bits_say() {
    check_all(&FORMATS, 1);
}

#[test]
fn a_row_has_the_same_values_in_tiles_of_either_size() {
    let shape = [129, 65, 70];
    for format in FORMATS {
        let values = [1, 1000].map(|multiprocessors| {
            let settings = Settings {
                multiprocessors,
                ..Settings::default()
            };
            let gpu: Arc<dyn Gpu> = emulator(settings)?;
            let case = Case::of(shape);
            let multiplier = Multiplier::new(&gpu, format).unwrap();
            let a = multiplier.matrix(&case.a, 70).unwrap();
            let b = multiplier.matrix(&case.b, 70).unwrap();
            let mut c = multiplier.matrix(&case.residual[..129 * 65], 65).unwrap();
            multiplier
                .multiply(&a, &b, Epilogue::default(), &mut c)
                .unwrap();
            Some(multiplier.read(&c).unwrap())
        });
        assert_eq!(values[0], values[1], "{format}");
    }
}

#[test]
fn what_is_too_large_for_half_precision_becomes_the_largest_and_what_is_no_number_stays_none() {
    let Some(gpu) = emulator(Settings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let multiplier = Multiplier::new(&gpu, Format::F16).unwrap();
    let a = multiplier.matrix(&[60000.0, -60000.0, f32::NAN], 1);
    let b = multiplier.matrix(&[2.0], 1).unwrap();
    let mut c = multiplier.matrix(&[0.0; 3], 1).unwrap();
    multiplier
        .multiply(&a.unwrap(), &b, Epilogue::default(), &mut c)
        .unwrap();
    let got = multiplier.read(&c).unwrap();
    assert_eq!(got[..2], [65504.0, -65504.0]);
    // Kept by products, where a number's clamping must not hide it.
    assert!(!got[2].is_infinite());
}

#[test]
fn a_matrix_of_several_copies_comes_back_as_it_went() {
    let Some(gpu) = emulator(Settings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    // Rows of three values are filled up to eight: more than nine million bytes, and a part of a copy at the end.
    let values = Seeded::new(3).values(3 * 300_001, 1.0);
    for format in [Format::F32, Format::F16, Format::Bf16] {
        let multiplier = Multiplier::new(&gpu, format).unwrap();
        let matrix = multiplier.matrix(&values, 3).unwrap();
        let got = multiplier.read(&matrix).unwrap();
        assert_eq!(got.len(), values.len());
        for (got, value) in got.iter().zip(&values) {
            assert_eq!(f64::from(*got), rounded(*value, format), "{format}");
        }
    }
}
