//! What each kernel of a layer of MiniLM takes, on one core, by every back end that the machine has.
//!
//! ```text
//! cargo bench -p flow-kernels
//! ```
//!
//! Weights are those of six layers in turn, as a model reads them: they do not stay in the nearest caches. Figures
//! are medians. The last lines are JSON, one for each back end. `cargo xtask bench products` has products beside those of
//! other libraries.

#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::Instant;

use flow_kernels::{
    Activation, Activations, Attention, AttentionScratch, BackEnd, Keeps, Kernels, Product, Rows,
};

const LAYERS: usize = 6;
const WIDTH: usize = 384;
const HEADS: usize = 12;
/// Passes through all layers; the figure is the median pass.
const PASSES: usize = 41;

/// A layer's products: their names, inputs, outputs, and what follows them.
const PRODUCTS: [(&str, usize, usize, Activation); 4] = [
    ("heads", WIDTH, 3 * WIDTH, Activation::None),
    ("out", WIDTH, WIDTH, Activation::None),
    ("up and GELU", WIDTH, 4 * WIDTH, Activation::Gelu),
    ("down", 4 * WIDTH, WIDTH, Activation::None),
];
/// One short text, some of them, a block of many.
const ROWS: [usize; 3] = [14, 98, 384];
/// Tokens of a text.
const TEXTS: [usize; 2] = [14, 224];

fn main() {
    for kernels in BackEnd::all() {
        let name = format!("{} {}", kernels.back_end(), kernels.format());
        let mut figures = Vec::new();
        for (product, inputs, outputs, activation) in PRODUCTS {
            for rows in ROWS {
                let seconds = product_s(&kernels, (rows, inputs, outputs), activation);
                let gflops = 2.0 * (rows * inputs * outputs) as f64 / seconds / 1e9;
                figures.push((format!("{product}, {rows} rows"), gflops, "GFLOP/s"));
            }
        }
        let rows = ROWS[0];
        let seconds = model_s(&kernels, rows);
        figures.push((
            format!("a model's products, {rows} rows"),
            seconds * 1e3,
            "ms",
        ));
        let rows = ROWS[1];
        let each = norm_s(&kernels, rows) / rows as f64;
        figures.push(("layer norm of a token".to_owned(), each * 1e6, "µs"));
        for tokens in TEXTS {
            let each = attention_s(&kernels, tokens) / tokens as f64;
            let what = format!("attention of a token of {tokens}");
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

fn layers(kernels: &Kernels, inputs: usize, outputs: usize, after: Activation) -> Vec<Product> {
    let layer = |layer| {
        let weights = values(layer, inputs * outputs);
        Product::new(kernels.pack(&weights, inputs), &vec![0.1; outputs], after)
    };
    (0..LAYERS).map(layer).collect()
}

/// One of a layer's products.
fn product_s(
    kernels: &Kernels,
    (rows, inputs, outputs): (usize, usize, usize),
    after: Activation,
) -> f64 {
    let layers = layers(kernels, inputs, outputs, after);
    let states = states(kernels, rows, inputs);
    let mut out = activations(rows, outputs);
    let seconds = median(|| {
        for product in &layers {
            run(kernels, product, states.rows(0..rows), &mut out);
        }
    });
    seconds / LAYERS as f64
}

/// All products of all layers, whose weights are more than caches hold: what a short text waits for.
fn model_s(kernels: &Kernels, rows: usize) -> f64 {
    let products =
        PRODUCTS.map(|(_, inputs, outputs, after)| layers(kernels, inputs, outputs, after));
    let narrow = states(kernels, rows, WIDTH);
    let wide = states(kernels, rows, 4 * WIDTH);
    let mut out = activations(rows, 4 * WIDTH);
    median(|| {
        for layer in 0..LAYERS {
            for product in products.iter().map(|layers| &layers[layer]) {
                let is_narrow = product.weights().inputs() == WIDTH;
                let states = if is_narrow { &narrow } else { &wide };
                run(kernels, product, states.rows(0..rows), &mut out);
            }
        }
    })
}

fn run(kernels: &Kernels, product: &Product, states: Rows<'_>, out: &mut Activations) {
    let (rows, panels) = (states.count(), 0..product.weights().panels());
    kernels.product(product, panels, states, &mut out.rows_mut(0..rows));
}

fn norm_s(kernels: &Kernels, rows: usize) -> f64 {
    let added = states(kernels, rows, WIDTH);
    let mut out = states(kernels, rows, WIDTH);
    let (scale, shift) = (values(1, WIDTH), values(2, WIDTH));
    let seconds = median(|| {
        for _ in 0..LAYERS {
            kernels.add_norm(
                added.rows(0..rows),
                (&scale, &shift, 1e-12),
                &mut out.rows_mut(0..rows),
            );
        }
    });
    seconds / LAYERS as f64
}

fn attention_s(kernels: &Kernels, tokens: usize) -> f64 {
    let attention = Attention {
        heads: HEADS,
        width: WIDTH / HEADS,
        scale: 0.2,
        distances: None,
    };
    let states = states(kernels, tokens, 3 * WIDTH);
    let mut out = activations(tokens, WIDTH);
    let mut scratch = AttentionScratch::default();
    let seconds = median(|| {
        for _ in 0..LAYERS {
            kernels.attention(
                &attention,
                states.rows(0..tokens),
                &mut scratch,
                &mut out.rows_mut(0..tokens),
            );
        }
    });
    seconds / LAYERS as f64
}

/// Seconds of the median pass.
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
    let value = |at: usize| ((at * 31 + seed * 17) % 101) as f32 / 101.0 - 0.5;
    (0..count).map(value).collect()
}

fn activations(rows: usize, width: usize) -> Activations {
    let mut activations = Activations::new(width, Keeps::Both);
    activations.grow(rows);
    activations
}

fn states(kernels: &Kernels, rows: usize, width: usize) -> Activations {
    let mut states = activations(rows, width);
    let mut all = states.rows_mut(0..rows);
    for row in 0..rows {
        all.row(row).copy_from_slice(&values(row, width));
    }
    all.round(kernels);
    states
}
