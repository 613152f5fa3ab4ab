//! Compares matrix products in each precision with plain loops in 64-bit floats.

use std::sync::Arc;

use flow_cuda::{Activation, Epilogue, Gpu, GpuPrecision, MatrixMultiplier};
use flow_cuda_emulator::EmulatorSettings;

use crate::emulated_gpu;
use crate::random::{Random, gelu, half_unit, rounded};

/// Rows, columns and depth.
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

const PRECISIONS: [GpuPrecision; 4] = [
    GpuPrecision::F32,
    GpuPrecision::Tf32,
    GpuPrecision::F16,
    GpuPrecision::Bf16,
];

struct MatmulCase {
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
    shape: [usize; 3],
}

impl MatmulCase {
    fn new(shape: [usize; 3]) -> Self {
        let [rows, columns, depth] = shape;
        let mut random = Random::new((rows * 1000 + columns) as u32);
        Self {
            a: random.values(rows * depth, 1.0),
            b: random.values(columns * depth, 1.0),
            bias: random.values(columns, 1.0),
            residual: random.values(rows * columns, 1.0),
            shape,
        }
    }

    /// The sum of an element of C, and the sum of the magnitudes of its terms.
    fn sum(&self, precision: GpuPrecision, (row, column): (usize, usize)) -> (f64, f64) {
        let depth = self.shape[2];
        let at = |values: &[f32], row: usize, k: usize| rounded(values[row * depth + k], precision);
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

/// Checks a product, with a full epilogue if `activation` is given, or else with none.
fn check(
    gpu: &Arc<dyn Gpu>,
    precision: GpuPrecision,
    shape: [usize; 3],
    activation: Option<Activation>,
) {
    let (case, [rows, columns, depth]) = (MatmulCase::new(shape), shape);
    let multiplier = MatrixMultiplier::new(gpu, precision).unwrap();
    let a = multiplier.matrix(&case.a, depth).unwrap();
    let b = multiplier.matrix(&case.b, depth).unwrap();
    let bias = multiplier.bias(&case.bias).unwrap();
    let residual = multiplier.matrix(&case.residual, columns).unwrap();
    let mut c = multiplier.matrix(&vec![f32::NAN; rows * columns], columns);
    let c = c.as_mut().unwrap();
    let epilogue = Epilogue {
        bias: activation.map(|_| &bias),
        activation: activation.unwrap_or_default(),
        residual: activation.map(|_| &residual),
    };
    multiplier.multiply(&a, &b, epilogue, c).unwrap();
    let actual = multiplier.read(c).unwrap();
    let stored = if precision == GpuPrecision::Tf32 {
        GpuPrecision::F32
    } else {
        precision
    };
    for (index, actual) in actual.iter().enumerate() {
        let element = (index / columns, index % columns);
        let (mut expected, mut magnitude) = case.sum(precision, element);
        if let Some(activation) = activation {
            expected = activate(activation, expected + f64::from(case.bias[element.1]));
            expected += rounded(case.residual[index], stored);
            magnitude += 2.0;
        }
        let error = (f64::from(*actual) - expected).abs();
        let allowed = half_unit(stored) * 1.01 * expected.abs() + 2f64.powi(-20) * magnitude + 1e-7;
        assert!(
            error <= allowed,
            "{precision} {shape:?} {activation:?} at {element:?}: {actual}, expected {expected}"
        );
    }
}

/// Checks all shapes. A device with many multiprocessors uses small tiles, a device with one uses large tiles.
#[track_caller]
fn check_all(precisions: &[GpuPrecision], multiprocessors: u32) {
    let settings = EmulatorSettings {
        multiprocessors,
        ..EmulatorSettings::default()
    };
    let Some(gpu) = emulated_gpu(settings) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    for (index, shape) in SHAPES.iter().enumerate() {
        for precision in precisions {
            let activations = [
                Activation::None,
                Activation::Gelu,
                Activation::GeluTanh,
                Activation::Relu,
            ];
            check(&gpu, *precision, *shape, None);
            check(&gpu, *precision, *shape, Some(activations[index % 4]));
        }
    }
}

#[test]
fn products_in_small_tiles_equal_sums_in_64_bits() {
    check_all(&PRECISIONS, 1000);
}

#[test]
fn products_in_large_tiles_equal_sums_in_64_bits() {
    check_all(&PRECISIONS, 1);
}

#[test]
fn a_row_has_the_same_values_in_small_and_large_tiles() {
    let shape = [129, 65, 70];
    for precision in PRECISIONS {
        let values = [1, 1000].map(|multiprocessors| {
            let settings = EmulatorSettings {
                multiprocessors,
                ..EmulatorSettings::default()
            };
            let gpu: Arc<dyn Gpu> = emulated_gpu(settings)?;
            let case = MatmulCase::new(shape);
            let multiplier = MatrixMultiplier::new(&gpu, precision).unwrap();
            let a = multiplier.matrix(&case.a, 70).unwrap();
            let b = multiplier.matrix(&case.b, 70).unwrap();
            let mut c = multiplier.matrix(&case.residual[..129 * 65], 65).unwrap();
            multiplier
                .multiply(&a, &b, Epilogue::default(), &mut c)
                .unwrap();
            Some(multiplier.read(&c).unwrap())
        });
        assert_eq!(values[0], values[1], "{precision}");
    }
}

#[test]
fn numbers_too_large_for_half_precision_are_clamped_and_nan_stays_nan() {
    let Some(gpu) = emulated_gpu(EmulatorSettings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let multiplier = MatrixMultiplier::new(&gpu, GpuPrecision::F16).unwrap();
    let a = multiplier.matrix(&[60000.0, -60000.0, f32::NAN], 1);
    let b = multiplier.matrix(&[2.0], 1).unwrap();
    let mut c = multiplier.matrix(&[0.0; 3], 1).unwrap();
    multiplier
        .multiply(&a.unwrap(), &b, Epilogue::default(), &mut c)
        .unwrap();
    let actual = multiplier.read(&c).unwrap();
    assert_eq!(actual[..2], [65504.0, -65504.0]);
    // Clamping must not turn NaN into a number.
    assert!(!actual[2].is_infinite());
}

#[test]
fn a_matrix_of_several_chunks_survives_a_round_trip() {
    let Some(gpu) = emulated_gpu(EmulatorSettings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    // Rows of three values are padded to eight: more than nine million bytes, with a partial chunk at the end.
    let values = Random::new(3).values(3 * 300_001, 1.0);
    for precision in [GpuPrecision::F32, GpuPrecision::F16, GpuPrecision::Bf16] {
        let multiplier = MatrixMultiplier::new(&gpu, precision).unwrap();
        let matrix = multiplier.matrix(&values, 3).unwrap();
        let actual = multiplier.read(&matrix).unwrap();
        assert_eq!(actual.len(), values.len());
        for (actual, value) in actual.iter().zip(&values) {
            assert_eq!(
                f64::from(*actual),
                rounded(*value, precision),
                "{precision}"
            );
        }
    }
}
