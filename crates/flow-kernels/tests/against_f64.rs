//! Compares every instruction set that the machine has with plain loops in 64-bit floats, over odd shapes. AMX is
//! emulated where the machine has everything else that its kernels need.

use flow_kernels::{
    Activation, Activations, AttentionConfig, AttentionScratch, CpuPrecision, Kernels, Linear,
    PANEL, PositionBias, Storage,
};

/// Sizes around those of registers, tiles and panels.
const ODD: [usize; 10] = [1, 2, 7, 15, 16, 17, 31, 33, 64, 71];

/// All kernels that can run on this machine.
fn all_kernels() -> impl Iterator<Item = Kernels> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    flow_amx_emulator::install().expect("the process may install signal handlers");
    Kernels::all()
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

fn states(kernels: &Kernels, rows: usize, values: &[f32]) -> Activations {
    let mut states = Activations::new(values.len() / rows, Storage::Both);
    states.grow(rows);
    let mut all = states.rows_mut(0..rows);
    for (row, values) in values.chunks(values.len() / rows).enumerate() {
        all.row(row).copy_from_slice(values);
    }
    kernels.round_rows(&mut all);
    states
}

/// The kernels whose products read floats. `int8.rs` tests the others.
fn float_kernels() -> impl Iterator<Item = Kernels> {
    all_kernels().filter(|kernels| kernels.precision() != CpuPrecision::Int8)
}

/// The value that a product reads: rounded to bf16 in that precision.
fn as_operand(value: f32, precision: CpuPrecision) -> f64 {
    match precision {
        CpuPrecision::F32 | CpuPrecision::Int8 => f64::from(value),
        CpuPrecision::Bf16 => {
            let bits = value.to_bits();
            f64::from(f32::from_bits(
                (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000,
            ))
        }
    }
}

#[track_caller]
fn check_linear(kernels: &Kernels, (rows, inputs, outputs): (usize, usize, usize)) {
    let mut random = Random((rows * 31 + inputs * 7 + outputs) as u32);
    let (values, weights) = (
        random.values(rows * inputs),
        random.values(outputs * inputs),
    );
    let bias = random.values(outputs);
    let layer = Linear::new(kernels.pack(&weights, inputs), &bias, Activation::Relu);
    let states = states(kernels, rows, &values);
    let mut out = Activations::new(outputs, Storage::Both);
    out.grow(rows);
    let panels = 0..layer.weights().panels();
    kernels.linear(
        &layer,
        panels,
        states.rows(0..rows),
        &mut out.rows_mut(0..rows),
    );
    for row in 0..rows {
        for (output, actual) in out.rows(row..row + 1).row(0).iter().enumerate() {
            let products = (0..inputs).map(|input| {
                as_operand(values[row * inputs + input], kernels.precision())
                    * as_operand(weights[output * inputs + input], kernels.precision())
            });
            let expected = (products.sum::<f64>() + f64::from(bias[output])).max(0.0);
            let error = (f64::from(*actual) - expected).abs();
            let shape = (rows, inputs, outputs);
            assert!(
                error < 1e-4,
                "{kernels:?} {shape:?}: {actual}, expected {expected}"
            );
        }
    }
}

#[test]
fn products_of_odd_shapes_are_correct() {
    for kernels in float_kernels() {
        for rows in ODD {
            for inputs in ODD {
                check_linear(&kernels, (rows, inputs, 33));
                check_linear(&kernels, (rows, 17, inputs));
            }
        }
        check_linear(&kernels, (300, 384, 96));
        check_linear(&kernels, (40, 1536, 64));
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_batch_and_for_any_split_of_columns() {
    for kernels in all_kernels() {
        let mut random = Random(9);
        let (values, weights) = (random.values(37 * 48), random.values(96 * 48));
        let layer = Linear::new(kernels.pack(&weights, 48), &[0.5; 96], Activation::Gelu);
        let states = states(&kernels, 37, &values);
        let mut all = Activations::new(96, Storage::F32);
        all.grow(37);
        kernels.linear(&layer, 0..3, states.rows(0..37), &mut all.rows_mut(0..37));
        for row in 0..37 {
            for panel in 0..3 {
                let mut one = Activations::new(PANEL, Storage::F32);
                one.grow(1);
                let panels = panel..panel + 1;
                kernels.linear(
                    &layer,
                    panels,
                    states.rows(row..row + 1),
                    &mut one.rows_mut(0..1),
                );
                let expected = &all.rows(row..row + 1).row(0)[panel * PANEL..][..PANEL];
                assert_eq!(
                    one.rows(0..1).row(0),
                    expected,
                    "{kernels:?} row {row}, panel {panel}"
                );
            }
        }
    }
}

#[derive(Clone, Copy)]
struct AttentionCase {
    storage: Storage,
    tokens: usize,
    heads: usize,
    head_size: usize,
    max_tokens: Option<usize>,
    scale: f32,
    /// Added to every position bias.
    shift: f32,
    /// Values are multiples of this, so that rounding them changes nothing; or 0.
    grid: f32,
}

#[track_caller]
fn check_attention(kernels: &Kernels, case: &AttentionCase) {
    let &AttentionCase {
        storage,
        tokens,
        heads,
        head_size,
        max_tokens,
        scale,
        shift,
        grid,
    } = case;
    let mut random = Random((tokens + heads * 100 + head_size * 1000) as u32);
    let mut values = random.values(tokens * heads * head_size * 3);
    if grid > 0.0 {
        values
            .iter_mut()
            .for_each(|value| *value = (*value / grid).round() * grid);
    }
    let bias = max_tokens.map(|tokens| {
        let values = random.values(heads * (2 * tokens - 1)).into_iter();
        (
            tokens,
            values.map(|value| value + shift).collect::<Vec<_>>(),
        )
    });
    let attention = AttentionConfig {
        heads,
        head_size,
        scale,
        position_bias: bias.as_ref().map(|(max_tokens, values)| PositionBias {
            values,
            max_tokens: *max_tokens,
        }),
    };
    let all = states(kernels, tokens, &values);
    let mut states = Activations::new(heads * head_size * 3, storage);
    states.grow(tokens);
    states
        .rows_mut(0..tokens)
        .copy_columns(0, all.rows(0..tokens).stored_in(storage));
    // Queries, keys, scores and values are rounded.
    let error_max = if storage == Storage::Bf16 { 0.02 } else { 2e-5 };
    let mut out = Activations::new(heads * head_size, Storage::Both);
    out.grow(tokens);
    let mut scratch = AttentionScratch::default();
    kernels.attention(
        &attention,
        states.rows(0..tokens),
        &mut scratch,
        &mut out.rows_mut(0..tokens),
    );
    for query in 0..tokens {
        let actual = out.rows(query..query + 1);
        for head in 0..heads {
            let expected = reference(&attention, &values, (tokens, head, query));
            for (actual, expected) in actual.row(0)[head * head_size..].iter().zip(expected) {
                let error = (f64::from(*actual) - expected).abs();
                assert!(
                    error < error_max,
                    "{kernels:?} {storage:?} {tokens} tokens, head size {head_size}: {actual}, expected {expected}"
                );
            }
        }
    }
}

/// The context of one query in one head.
fn reference(
    attention: &AttentionConfig<'_>,
    values: &[f32],
    (tokens, head, query): (usize, usize, usize),
) -> Vec<f64> {
    let head_size = attention.head_size;
    let part = |token: usize, part: usize| {
        let start =
            token * attention.heads * head_size * 3 + head * head_size * 3 + part * head_size;
        values[start..][..head_size]
            .iter()
            .map(|value| f64::from(*value))
    };
    let weights: Vec<f64> = (0..tokens)
        .map(|key| {
            let product: f64 = part(query, 0).zip(part(key, 1)).map(|(a, b)| a * b).sum();
            let bias = attention.position_bias.map_or(0.0, |it| {
                let index = head * (2 * it.max_tokens - 1) + it.max_tokens - 1 + key - query;
                f64::from(it.values[index])
            });
            (product * f64::from(attention.scale) + bias).exp()
        })
        .collect();
    let total: f64 = weights.iter().sum();
    let mut sums = vec![0.0; head_size];
    for (key, weight) in weights.iter().enumerate() {
        for (sum, value) in sums.iter_mut().zip(part(key, 2)) {
            *sum += weight / total * value;
        }
    }
    sums
}

#[test]
fn attention_of_odd_shapes_is_correct() {
    for kernels in all_kernels() {
        for tokens in ODD {
            for head_size in [1, 4, 32, 48, 64] {
                for max_tokens in [None, Some(80)] {
                    let case = AttentionCase {
                        storage: Storage::F32,
                        tokens,
                        heads: 2,
                        head_size,
                        max_tokens,
                        scale: 1.7,
                        shift: 0.0,
                        grid: 0.0,
                    };
                    check_attention(&kernels, &case);
                    let storage = Storage::Bf16;
                    check_attention(&kernels, &AttentionCase { storage, ..case });
                }
            }
        }
    }
}

#[test]
fn attention_is_correct_where_exponentials_of_scores_overflow_or_vanish() {
    for kernels in all_kernels() {
        for tokens in [1, 17, 71, 130] {
            for (scale, shift) in [(100.0, 0.0), (1.7, 200.0), (1.7, -200.0), (100.0, -40.0)] {
                for storage in [Storage::F32, Storage::Bf16] {
                    let case = AttentionCase {
                        storage,
                        tokens,
                        heads: 2,
                        head_size: 4,
                        max_tokens: Some(140),
                        scale,
                        shift,
                        grid: 0.125,
                    };
                    check_attention(&kernels, &case);
                }
            }
        }
    }
}

#[test]
fn weights_in_bf16_take_half_the_memory_and_in_int8_a_quarter() {
    let weights = vec![0.5; 384 * 1536];
    let packed = |precision| {
        let kernels = Kernels::select(precision, None).unwrap();
        kernels.pack(&weights, 384).bytes()
    };
    assert_eq!(packed(CpuPrecision::F32), 384 * 1536 * 4);
    assert_eq!(packed(CpuPrecision::Bf16), 384 * 1536 * 2);
    // A scale and a sum for each output, and a factor for each input.
    let scales = 1536 * 8 + 384 * 4;
    assert_eq!(packed(CpuPrecision::Int8), 384 * 1536 + scales);
}

#[test]
fn amx_is_emulated_on_machines_with_avx512_bf16() {
    let sets: Vec<String> = all_kernels()
        .map(|kernels| format!("{} {}", kernels.instruction_set(), kernels.precision()))
        .collect();
    println!("checked: {}", sets.join(", "));
    let has = |set: &str| sets.iter().any(|it| it == set);
    assert_eq!(has("amx bf16"), has("avx512-bf16 bf16"));
    assert_eq!(has("amx int8"), has("avx512-bf16 int8"));
}
