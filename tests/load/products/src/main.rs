//! Our matrix products beside those of libraries: one core, the shapes of a small encoder.
//!
//! Each line is `shape;system;GFLOP/s`. The first lines are what the core can do at all: products and sums in
//! registers, without memory (`ceiling.rs`). Weights are packed beforehand where a library can do that, as a
//! model is loaded once; states come as they are. Each result is compared with plain sums before it counts.
//! `onednn.cpp` is the same for oneDNN; `cargo xtask bench products` runs both.

mod ceiling;
mod ours;
mod peers;
mod shape;

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::shape::{Matrices, SHAPES, Shape};

/// How long each is measured, at least.
const SPAN: Duration = Duration::from_millis(30);

/// Something that multiplies two matrices.
trait Product {
    /// Computes all of it once.
    fn run(&mut self);

    /// One value of what was computed last.
    fn value(&self, row: usize, output: usize) -> f32;
}

/// A product and who computes it.
struct System<'a> {
    name: String,
    product: Box<dyn Product + 'a>,
    /// How far a result may be from plain sums: bf16 are rounded on the way in.
    error_max: f64,
}

fn main() -> anyhow::Result<()> {
    // A word picks the systems that have it in their names.
    let word = std::env::args().nth(1).unwrap_or_default();
    for (instructions, rate) in ceiling::rates(SPAN) {
        println!("in registers;{instructions};{rate:.2}");
    }
    for shape in SHAPES {
        let matrices = Matrices::of(shape);
        let mut systems = ours::systems(&matrices);
        systems.extend(peers::systems(&matrices)?);
        let wanted = systems.into_iter().filter(|it| it.name.contains(&word));
        for mut system in wanted {
            let rate = measure(&mut *system.product, shape);
            check(&system, &matrices)?;
            println!("{shape};{};{rate:.2}", system.name);
        }
    }
    Ok(())
}

/// Billions of operations in a second, in the quickest run: whatever else a machine does only takes time.
fn measure(product: &mut dyn Product, shape: Shape) -> f64 {
    product.run();
    let started = Instant::now();
    let mut quickest = f64::INFINITY;
    while started.elapsed() < SPAN {
        let run = Instant::now();
        product.run();
        quickest = quickest.min(run.elapsed().as_secs_f64());
    }
    shape.flop() / quickest / 1e9
}

/// Compares the corners and the middle.
fn check(system: &System<'_>, matrices: &Matrices) -> anyhow::Result<()> {
    let Shape { rows, outputs, .. } = matrices.shape;
    for row in [0, rows / 2, rows - 1] {
        for output in [0, outputs / 2, outputs - 1] {
            let (got, wanted) = (
                system.product.value(row, output),
                matrices.value(row, output),
            );
            ensure!(
                (f64::from(got) - wanted).abs() < system.error_max,
                "{} of {}: {got} in row {row}, column {output}, wanted {wanted}",
                system.name,
                matrices.shape
            );
        }
    }
    Ok(())
}
