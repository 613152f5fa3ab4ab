//! Measures each kernel of a layer of MiniLM on one core, with every instruction set that the machine has.
//!
//! ```text
//! cargo bench -p flow-kernels
//! cargo bench -p flow-kernels --bench kernels -- "avx512-vnni int8"
//! ```
//!
//! The weights are those of six layers in turn, as in a model, so that they do not stay in the L1 and L2 caches. Figures
//! are medians. The last line of each instruction set is JSON. `cargo xtask bench products` compares products with those
//! of other libraries.

#![allow(clippy::print_stdout, reason = "the figures are its output")]

use std::time::Instant;

use flow_kernels::{
    Activation, Activations, AttentionConfig, AttentionScratch, CpuPrecision, Kernels, Linear,
    Rows, Storage,
};

const LAYERS: usize = 6;
const WIDTH: usize = 384;
const HEADS: usize = 12;
/// Number of passes through all layers. The figure is the median pass.
const PASSES: usize = 41;

/// The linear layers of a transformer layer: name, inputs, outputs, activation, and what reads the outputs.
const LINEARS: [(&str, usize, usize, Activation, Reader); 4] = [
    ("qkv", WIDTH, 3 * WIDTH, Activation::None, Reader::Attention),
    (
        "attention output",
        WIDTH,
        WIDTH,
        Activation::None,
        Reader::LayerNorm,
    ),
    (
        "up and GELU",
        WIDTH,
        4 * WIDTH,
        Activation::Gelu,
        Reader::Product,
    ),
    (
        "down",
        4 * WIDTH,
        WIDTH,
        Activation::None,
        Reader::LayerNorm,
    ),
];

/// What reads the outputs of a layer, which decides their format.
#[derive(Clone, Copy)]
enum Reader {
    Attention,
    Product,
    LayerNorm,
}

impl Reader {
    fn storage(self, kernels: &Kernels) -> Storage {
        let is_bf16 = match self {
            Self::Attention => kernels.attends_in_bf16(),
            Self::Product => kernels.precision() == CpuPrecision::Bf16,
            Self::LayerNorm => false,
        };
        if is_bf16 { Storage::Bf16 } else { Storage::F32 }
    }
}

/// Rows of one short text, of seven, of a block, and of two.
const ROWS: [usize; 4] = [14, 98, 192, 384];
/// Lengths of a text in tokens.
const TEXTS: [usize; 3] = [14, 224, 508];

fn main() {
    // cargo adds an option of its own.
    let only = std::env::args().skip(1).find(|it| !it.starts_with('-'));
    for kernels in Kernels::all() {
        let name = format!("{} {}", kernels.instruction_set(), kernels.precision());
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let mut figures = Vec::new();
        for (layer, inputs, outputs, activation, reader) in LINEARS {
            for rows in ROWS {
                let seconds = linear_s(&kernels, (rows, inputs, outputs), (activation, reader));
                let gflops = 2.0 * (rows * inputs * outputs) as f64 / seconds / 1e9;
                figures.push((format!("{layer}, {rows} rows"), gflops, "GFLOP/s"));
            }
        }
        let rows = ROWS[0];
        let seconds = all_linears_s(&kernels, rows);
        figures.push((format!("all products, {rows} rows"), seconds * 1e3, "ms"));
        let rows = ROWS[1];
        let each = layer_norm_s(&kernels, rows) / rows as f64;
        figures.push(("layer norm per token".to_owned(), each * 1e6, "µs"));
        for tokens in TEXTS {
            let each = attention_s(&kernels, tokens) / tokens as f64;
            let what = format!("attention per token of {tokens}");
            figures.push((what, each * 1e6, "µs"));
        }
        for (what, figure, unit) in &figures {
            println!("{name:18} {what:26} {figure:9.2} {unit}");
        }
        let fields = figures
            .iter()
            .map(|(what, figure, unit)| format!("\"{what} ({unit})\": {figure:.3}"));
        println!(
            "{{\"back_end\": \"{name}\", {}}}",
            fields.collect::<Vec<_>>().join(", ")
        );
    }
}

fn layers(kernels: &Kernels, inputs: usize, outputs: usize, activation: Activation) -> Vec<Linear> {
    let layer = |layer| {
        let weights = values(layer, inputs * outputs);
        Linear::new(
            kernels.pack(&weights, inputs),
            &vec![0.1; outputs],
            activation,
        )
    };
    (0..LAYERS).map(layer).collect()
}

/// Seconds of one linear layer.
fn linear_s(
    kernels: &Kernels,
    (rows, inputs, outputs): (usize, usize, usize),
    (activation, reader): (Activation, Reader),
) -> f64 {
    let layers = layers(kernels, inputs, outputs, activation);
    let states = states(kernels, rows, inputs);
    let mut out = Activations::new(outputs, reader.storage(kernels));
    out.grow(rows);
    let seconds = median(|| {
        for layer in &layers {
            run(kernels, layer, states.rows(0..rows), &mut out);
        }
    });
    seconds / LAYERS as f64
}

/// Seconds of all linear layers of all transformer layers, whose weights exceed the caches: what a short text waits for.
fn all_linears_s(kernels: &Kernels, rows: usize) -> f64 {
    let linears = LINEARS
        .map(|(_, inputs, outputs, activation, _)| layers(kernels, inputs, outputs, activation));
    let narrow = states(kernels, rows, WIDTH);
    let wide = states(kernels, rows, 4 * WIDTH);
    let mut out = activations(rows, 4 * WIDTH);
    median(|| {
        for layer in 0..LAYERS {
            for linear in linears.iter().map(|layers| &layers[layer]) {
                let is_narrow = linear.weights().inputs() == WIDTH;
                let states = if is_narrow { &narrow } else { &wide };
                run(kernels, linear, states.rows(0..rows), &mut out);
            }
        }
    })
}

fn run(kernels: &Kernels, layer: &Linear, states: Rows<'_>, out: &mut Activations) {
    let (rows, panels) = (states.count(), 0..layer.weights().panels());
    kernels.linear(layer, panels, states, &mut out.rows_mut(0..rows));
}

fn layer_norm_s(kernels: &Kernels, rows: usize) -> f64 {
    let added = states(kernels, rows, WIDTH);
    let mut out = states(kernels, rows, WIDTH);
    let (scale, shift) = (values(1, WIDTH), values(2, WIDTH));
    let seconds = median(|| {
        for _ in 0..LAYERS {
            kernels.add_layer_norm(
                added.rows(0..rows),
                (&scale, &shift, 1e-12),
                &mut out.rows_mut(0..rows),
            );
        }
    });
    seconds / LAYERS as f64
}

fn attention_s(kernels: &Kernels, tokens: usize) -> f64 {
    let attention = AttentionConfig {
        heads: HEADS,
        head_size: WIDTH / HEADS,
        scale: 0.2,
        position_bias: None,
    };
    let states = states(kernels, tokens, 3 * WIDTH);
    let format = Reader::Attention.storage(kernels);
    let mut out = activations(tokens, WIDTH);
    let mut scratch = AttentionScratch::default();
    let seconds = median(|| {
        for _ in 0..LAYERS {
            kernels.attention(
                &attention,
                states.rows(0..tokens).stored_in(format),
                &mut scratch,
                &mut out.rows_mut(0..tokens),
            );
        }
    });
    seconds / LAYERS as f64
}

/// The median of the seconds of all passes.
fn median(mut pass: impl FnMut()) -> f64 {
    pass();
    let mut times: Vec<f64> = (0..PASSES)
        .map(|_| {
            let started = Instant::now();
            pass();
            started.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[PASSES / 2]
}

fn values(seed: usize, count: usize) -> Vec<f32> {
    let value = |n: usize| ((n * 31 + seed * 17) % 101) as f32 / 101.0 - 0.5;
    (0..count).map(value).collect()
}

fn activations(rows: usize, width: usize) -> Activations {
    let mut activations = Activations::new(width, Storage::Both);
    activations.grow(rows);
    activations
}

fn states(kernels: &Kernels, rows: usize, width: usize) -> Activations {
    let mut states = activations(rows, width);
    let mut all = states.rows_mut(0..rows);
    for row in 0..rows {
        all.row(row).copy_from_slice(&values(row, width));
    }
    kernels.round_rows(&mut all);
    states
}
