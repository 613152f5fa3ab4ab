//! Every back end that the machine has, over odd shapes, against plain loops in 64-bit floats. AMX is emulated
//! where the machine has all but AMX.

use flow_kernels::{
    Activation, Activations, Attention, AttentionScratch, BackEnd, Distances, Format, Keeps,
    Kernels, PANEL, Product,
};

/// Around the sizes of registers, tiles and panels.
const ODD: [usize; 10] = [1, 2, 7, 15, 16, 17, 31, 33, 64, 71];

/// Every back end that can run here.
fn back_ends() -> impl Iterator<Item = Kernels> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    flow_amx_emulator::install().expect("this process may have its signals");
    BackEnd::all()
}

/// Values between -1 and 1, always the same.
struct Seeded(u32);

impl Seeded {
    fn values(&mut self, count: usize) -> Vec<f32> {
        let next = |_| {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(next).collect()
    }
}

fn states(kernels: &Kernels, rows: usize, values: &[f32]) -> Activations {
    let mut states = Activations::new(values.len() / rows, Keeps::Both);
    states.grow(rows);
    let mut all = states.rows_mut(0..rows);
    for (row, values) in values.chunks(values.len() / rows).enumerate() {
        all.row(row).copy_from_slice(values);
    }
    all.round(kernels);
    states
}

/// What goes into a product: bf16 are half the bits.
fn as_kept(value: f32, format: Format) -> f64 {
    match format {
        Format::F32 => f64::from(value),
        Format::Bf16 => {
            let bits = value.to_bits();
            f64::from(f32::from_bits(
                (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000,
            ))
        }
    }
}

#[track_caller]
fn check_product(kernels: &Kernels, (rows, inputs, outputs): (usize, usize, usize)) {
    let mut seeded = Seeded((rows * 31 + inputs * 7 + outputs) as u32);
    let (values, weights) = (
        seeded.values(rows * inputs),
        seeded.values(outputs * inputs),
    );
    let bias = seeded.values(outputs);
    let product = Product::new(kernels.pack(&weights, inputs), &bias, Activation::Relu);
    let states = states(kernels, rows, &values);
    let mut out = Activations::new(outputs, Keeps::Both);
    out.grow(rows);
    let panels = 0..product.weights().panels();
    kernels.product(
        &product,
        panels,
        states.rows(0..rows),
        &mut out.rows_mut(0..rows),
    );
    for row in 0..rows {
        for (output, got) in out.rows(row..row + 1).row(0).iter().enumerate() {
            let products = (0..inputs).map(|input| {
                as_kept(values[row * inputs + input], kernels.format())
                    * as_kept(weights[output * inputs + input], kernels.format())
            });
            let wanted = (products.sum::<f64>() + f64::from(bias[output])).max(0.0);
            let error = (f64::from(*got) - wanted).abs();
            let shape = (rows, inputs, outputs);
            assert!(
                error < 1e-4,
                "{kernels:?} {shape:?}: {got}, wanted {wanted}"
            );
        }
    }
}

#[test]
fn products_of_odd_shapes_are_right() {
    for kernels in back_ends() {
        for rows in ODD {
            for inputs in ODD {
                check_product(&kernels, (rows, inputs, 33));
                check_product(&kernels, (rows, 17, inputs));
            }
        }
        check_product(&kernels, (300, 384, 96));
        check_product(&kernels, (40, 1536, 64));
    }
}

#[test]
fn a_row_has_the_same_bits_whatever_is_beside_it_and_however_columns_are_shared_out() {
    for kernels in back_ends() {
        let mut seeded = Seeded(9);
        let (values, weights) = (seeded.values(37 * 48), seeded.values(96 * 48));
        let product = Product::new(kernels.pack(&weights, 48), &[0.5; 96], Activation::Gelu);
        let states = states(&kernels, 37, &values);
        let mut all = Activations::new(96, Keeps::F32);
        all.grow(37);
        kernels.product(&product, 0..3, states.rows(0..37), &mut all.rows_mut(0..37));
        for row in 0..37 {
            for panel in 0..3 {
                let mut one = Activations::new(PANEL, Keeps::F32);
                one.grow(1);
                let panels = panel..panel + 1;
                kernels.product(
                    &product,
                    panels,
                    states.rows(row..row + 1),
                    &mut one.rows_mut(0..1),
                );
                let wanted = &all.rows(row..row + 1).row(0)[panel * PANEL..][..PANEL];
                assert_eq!(
                    one.rows(0..1).row(0),
                    wanted,
                    "{kernels:?} row {row}, panel {panel}"
                );
            }
        }
    }
}

struct Shape {
    tokens: usize,
    heads: usize,
    width: usize,
    span: Option<usize>,
}

#[track_caller]
fn check_attention(kernels: &Kernels, shape: &Shape) {
    let &Shape {
        tokens,
        heads,
        width,
        span,
    } = shape;
    let mut seeded = Seeded((tokens + heads * 100 + width * 1000) as u32);
    let values = seeded.values(tokens * heads * width * 3);
    let distances = span.map(|span| (span, seeded.values(heads * (2 * span - 1))));
    let attention = Attention {
        heads,
        width,
        scale: 1.7,
        distances: distances.as_ref().map(|(span, values)| Distances {
            values,
            span: *span,
        }),
    };
    let states = states(kernels, tokens, &values);
    let mut out = Activations::new(heads * width, Keeps::Both);
    out.grow(tokens);
    let mut scratch = AttentionScratch::default();
    kernels.attention(
        &attention,
        states.rows(0..tokens),
        &mut scratch,
        &mut out.rows_mut(0..tokens),
    );
    for query in 0..tokens {
        let got = out.rows(query..query + 1);
        for head in 0..heads {
            let wanted = naive(&attention, &values, (tokens, head, query));
            for (got, wanted) in got.row(0)[head * width..].iter().zip(wanted) {
                let error = (f64::from(*got) - wanted).abs();
                assert!(
                    error < 2e-5,
                    "{kernels:?} {tokens} tokens of {width}: {got}, wanted {wanted}"
                );
            }
        }
    }
}

fn naive(
    attention: &Attention<'_>,
    values: &[f32],
    (tokens, head, query): (usize, usize, usize),
) -> Vec<f64> {
    let width = attention.width;
    let part = |token: usize, part: usize| {
        let start = token * attention.heads * width * 3 + head * width * 3 + part * width;
        values[start..][..width]
            .iter()
            .map(|value| f64::from(*value))
    };
    let weights: Vec<f64> = (0..tokens)
        .map(|key| {
            let product: f64 = part(query, 0).zip(part(key, 1)).map(|(a, b)| a * b).sum();
            let distance = attention.distances.map_or(0.0, |it| {
                let at = head * (2 * it.span - 1) + it.span - 1 + key - query;
                f64::from(it.values[at])
            });
            (product * f64::from(attention.scale) + distance).exp()
        })
        .collect();
    let total: f64 = weights.iter().sum();
    let mut sums = vec![0.0; width];
    for (key, weight) in weights.iter().enumerate() {
        for (sum, value) in sums.iter_mut().zip(part(key, 2)) {
            *sum += weight / total * value;
        }
    }
    sums
}

#[test]
fn attention_of_odd_shapes_is_right() {
    for kernels in back_ends() {
        for tokens in ODD {
            for width in [1, 4, 32, 48, 64] {
                check_attention(
                    &kernels,
                    &Shape {
                        tokens,
                        heads: 2,
                        width,
                        span: None,
                    },
                );
                check_attention(
                    &kernels,
                    &Shape {
                        tokens,
                        heads: 2,
                        width,
                        span: Some(80),
                    },
                );
            }
        }
    }
}

#[test]
fn weights_in_bf16_take_half_the_memory() {
    let weights = vec![0.5; 384 * 1536];
    let packed = |format| {
        let kernels = BackEnd::choose(format, None).unwrap();
        kernels.pack(&weights, 384).bytes()
    };
    assert_eq!(packed(Format::F32), 384 * 1536 * 4);
    assert_eq!(packed(Format::Bf16), 384 * 1536 * 2);
}

#[test]
fn a_machine_with_bf16_but_without_amx_has_it_emulated() {
    let sets: Vec<String> = back_ends()
        .map(|kernels| format!("{} {}", kernels.back_end(), kernels.format()))
        .collect();
    println!("checked here: {}", sets.join(", "));
    let has = |set: &str| sets.iter().any(|it| it == set);
    assert_eq!(has("amx bf16"), has("avx512-bf16 bf16"));
}
