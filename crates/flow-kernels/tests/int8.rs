//! Compares products of 8-bit integers with sums of 64-bit integers, over odd shapes and with every instruction set that the
//! machine has, and the instruction sets with each other. AMX is emulated where the machine has everything else that its
//! kernels need.

use flow_kernels::{
    Activation, Activations, CpuPrecision, Int8Matrix, Kernels, Linear, PANEL, Rotation, Storage,
};

/// Sizes around those of steps, registers, tiles and panels.
const ODD: [usize; 12] = [1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 64, 71];

/// All kernels for 8-bit integers that can run on this machine.
fn int8_kernels() -> Vec<Kernels> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    flow_amx_emulator::install().expect("the process may install signal handlers");
    Kernels::all()
        .filter(|kernels| kernels.precision() == CpuPrecision::Int8)
        .collect()
}

/// Pseudo-random values between -1 and 1.
struct Random(u32);

impl Random {
    fn values(&mut self, count: usize) -> Vec<f32> {
        let next = |_| {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(next).collect()
    }
}

/// A product and its operands.
struct Case {
    rows: usize,
    matrix: Int8Matrix,
    bias: Vec<f32>,
    states: Vec<f32>,
}

impl Case {
    /// Some values of the states are a hundred times as large as the others.
    fn new(rows: usize, inputs: usize, outputs: usize) -> Self {
        let mut random = Random((rows * 31 + inputs * 7 + outputs) as u32);
        let weights = random.values(outputs * inputs);
        let factors = random
            .values(inputs)
            .iter()
            .map(|it| it.abs() + 0.5)
            .collect();
        let mut states = random.values(rows * inputs);
        states
            .iter_mut()
            .step_by(37)
            .for_each(|value| *value *= 100.0);
        Self {
            rows,
            matrix: Int8Matrix::round(&weights, factors),
            bias: random.values(outputs),
            states,
        }
    }

    fn inputs(&self) -> usize {
        self.matrix.factors.len()
    }

    /// The product as kernels compute it, row after row.
    fn product(&self, kernels: &Kernels) -> Vec<f32> {
        self.product_of(kernels, &self.states)
    }

    fn product_of(&self, kernels: &Kernels, states: &[f32]) -> Vec<f32> {
        let weights = kernels.pack_int8(&self.matrix);
        let layer = Linear::new(weights, &self.bias, Activation::None);
        let rows = states.len() / self.inputs();
        let mut all = Activations::new(self.inputs(), Storage::F32);
        all.grow(rows);
        for (row, values) in states.chunks_exact(self.inputs()).enumerate() {
            all.rows_mut(0..rows).row(row).copy_from_slice(values);
        }
        let mut out = Activations::new(self.bias.len(), Storage::F32);
        out.grow(rows);
        let panels = 0..layer.weights().panels();
        kernels.linear(
            &layer,
            panels,
            all.rows(0..rows),
            &mut out.rows_mut(0..rows),
        );
        let out = out.rows(0..rows);
        (0..rows).flat_map(|row| out.row(row)).copied().collect()
    }

    /// The product of the same integers, in 64 bits.
    fn expected(&self) -> Vec<f64> {
        let states = self
            .states
            .chunks_exact(self.inputs())
            .map(|row| self.quantized(row));
        states.flat_map(|state| self.outputs(&state)).collect()
    }

    /// The integers of a row of states, without their zero point, and their scale.
    fn quantized(&self, row: &[f32]) -> (Vec<i64>, f64) {
        let mut row: Vec<f32> = row
            .iter()
            .zip(&self.matrix.factors)
            .map(|(a, b)| a * b)
            .collect();
        Rotation::of_width(row.len()).rotate_states(&mut row);
        let low = row.iter().copied().fold(0.0, f32::min);
        let high = row.iter().copied().fold(0.0, f32::max);
        let factor = 254.0 / (high - low);
        let zero = (-low * factor).round_ties_even();
        let values = row
            .iter()
            .map(|value| (f64::from(value * factor) + f64::from(zero)).round_ties_even());
        let values = values.inspect(|value| assert!((0.0..=255.0).contains(value), "{value}"));
        (
            values.map(|value| value as i64 - zero as i64).collect(),
            f64::from(high - low) / 254.0,
        )
    }

    fn outputs(&self, (state, scale): &(Vec<i64>, f64)) -> Vec<f64> {
        let rows = self.matrix.values.chunks_exact(self.inputs());
        let scales = self.matrix.scales.iter().zip(&self.bias);
        rows.zip(scales)
            .map(|(weights, (weight_scale, bias))| {
                let products = weights.iter().zip(state).map(|(a, b)| i64::from(*a) * b);
                products.sum::<i64>() as f64 * scale * f64::from(*weight_scale) + f64::from(*bias)
            })
            .collect()
    }

    #[track_caller]
    fn check(&self) {
        let expected = self.expected();
        let largest = expected
            .iter()
            .fold(1.0_f64, |max, value| max.max(value.abs()));
        let first = self.product(&int8_kernels()[0]);
        for kernels in int8_kernels() {
            let actual = self.product(&kernels);
            assert_eq!(actual, first, "{kernels:?}");
            for (actual, expected) in actual.iter().zip(&expected) {
                let error = (f64::from(*actual) - expected).abs();
                let shape = (self.rows, self.inputs(), self.bias.len());
                assert!(
                    error < 1e-6 * largest,
                    "{kernels:?} {shape:?}: {actual}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn products_of_odd_shapes_equal_those_of_64_bit_integers_and_each_other() {
    for rows in ODD {
        for inputs in ODD {
            Case::new(rows, inputs, 33).check();
            Case::new(rows, 17, inputs).check();
        }
    }
    Case::new(300, 384, 96).check();
    Case::new(40, 1536, 64).check();
}

#[test]
fn the_largest_products_do_not_overflow_or_saturate() {
    let inputs = 1536;
    for sign in [1.0, -1.0] {
        let mut case = Case::new(15, inputs, 33);
        case.matrix.values.fill(if sign > 0.0 { 127 } else { -127 });
        // A single value of each block is not zero, so after rotation all values have the same magnitude.
        case.states.fill(0.0);
        case.states
            .iter_mut()
            .step_by(128)
            .for_each(|value| *value = 1.0);
        case.check();
    }
}

#[test]
fn states_of_zeros_give_the_bias() {
    let mut case = Case::new(3, 40, 35);
    case.states.fill(0.0);
    for kernels in int8_kernels() {
        assert_eq!(case.product(&kernels), case.bias.repeat(3), "{kernels:?}");
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_any_batch() {
    let case = Case::new(37, 384, 64);
    for kernels in int8_kernels() {
        let all = case.product(&kernels);
        let rows = case
            .states
            .chunks_exact(384)
            .zip(all.chunks_exact(2 * PANEL));
        for (row, expected) in rows {
            assert_eq!(case.product_of(&kernels, row), expected, "{kernels:?}");
        }
    }
}

#[test]
fn rounding_to_8_bits_changes_a_product_by_little_even_with_outliers() {
    let case = |outliers: f32| {
        let mut random = Random(5);
        let (mut states, weights) = (random.values(384), random.values(384 * 64));
        states
            .iter_mut()
            .step_by(37)
            .for_each(|value| *value *= outliers);
        let matrix = Int8Matrix::round(&weights, vec![1.0; 384]);
        let case = Case {
            rows: 1,
            matrix,
            bias: vec![0.0; 64],
            states,
        };
        let exact: Vec<f32> = weights
            .chunks_exact(384)
            .map(|row| row.iter().zip(&case.states).map(|(a, b)| a * b).sum())
            .collect();
        let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let actual = case.product(&int8_kernels()[0]);
        let errors: Vec<f32> = actual.iter().zip(&exact).map(|(a, b)| a - b).collect();
        norm(&errors) / norm(&exact)
    };
    for outliers in [1.0, 10.0, 100.0] {
        let error = case(outliers);
        assert!(error < 0.015, "outliers of {outliers}: {error}");
    }
}
