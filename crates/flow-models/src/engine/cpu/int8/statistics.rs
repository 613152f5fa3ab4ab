//! The statistics of the states that a linear layer reads.

use flow_kernels::{Activation, Activations, Kernels, Linear, Rotation, Rows, Storage};

/// Weighted sums over states.
#[derive(Debug, Clone)]
pub(super) struct InputStatistics {
    /// Values of a block: only values of the same block are mixed by a rotation.
    block: usize,
    weight: f32,
    sums: Vec<f32>,
    /// For each block, the products of any two of its values, row by row.
    products: Vec<Vec<f32>>,
}

impl InputStatistics {
    /// The statistics of states of `width` values.
    pub(super) fn new(width: usize) -> Self {
        let block = Rotation::of_width(width).block();
        Self {
            block,
            weight: 0.0,
            sums: vec![0.0; width],
            products: vec![vec![0.0; block * block]; width / block],
        }
    }

    /// Adds some states, each of which has a weight.
    pub(super) fn add(&mut self, kernels: &Kernels, states: Rows<'_>, weights: &[f32]) {
        self.weight += weights.iter().sum::<f32>();
        for (row, weight) in weights.iter().enumerate() {
            for (sum, value) in self.sums.iter_mut().zip(states.row(row)) {
                *sum += weight * value;
            }
        }
        for (index, products) in self.products.iter_mut().enumerate() {
            let start = index * self.block;
            let value =
                |column: usize, row: usize| states.row(row)[start + column] * weights[row].sqrt();
            let rows = 0..weights.len();
            let columns: Vec<f32> = (0..self.block)
                .flat_map(|column| rows.clone().map(move |row| value(column, row)))
                .collect();
            add_products(kernels, &columns, weights.len(), products);
        }
    }

    /// The mean of each value.
    pub(super) fn means(&self) -> Vec<f32> {
        self.sums.iter().map(|sum| sum / self.weight).collect()
    }

    /// The root mean square of each value.
    pub(super) fn magnitudes(&self) -> Vec<f32> {
        let diagonal = |products: &Vec<f32>| -> Vec<f32> {
            products.iter().step_by(self.block + 1).copied().collect()
        };
        let squares = self.products.iter().flat_map(diagonal);
        squares
            .map(|square| (square / self.weight).sqrt())
            .collect()
    }

    /// The mean products of the values of each block after states have been multiplied by `factors` and rotated.
    pub(super) fn rotated_products(&self, factors: &[f32]) -> impl Iterator<Item = Vec<f64>> {
        let rotation = Rotation::of_width(factors.len());
        let blocks = self.products.iter().zip(factors.chunks_exact(self.block));
        blocks.map(move |(products, factors)| {
            let mut products = products.clone();
            for (row, factor) in products.chunks_exact_mut(self.block).zip(factors) {
                for (product, other) in row.iter_mut().zip(factors) {
                    *product *= factor * other / self.weight;
                }
            }
            // The matrix is symmetric: rotating its rows twice, with a transposition between, rotates both sides.
            for _ in 0..2 {
                products
                    .chunks_exact_mut(self.block)
                    .for_each(|row| rotation.rotate_states(row));
                products = transposed(&products, self.block);
            }
            products.into_iter().map(f64::from).collect()
        })
    }
}

/// Adds the products of any two rows of a matrix whose rows have `count` values.
fn add_products(kernels: &Kernels, rows: &[f32], count: usize, products: &mut [f32]) {
    let size = rows.len() / count;
    let layer = Linear::new(
        kernels.pack(rows, count),
        &vec![0.0; size],
        Activation::None,
    );
    let (mut states, mut out) = (
        Activations::new(count, Storage::F32),
        Activations::new(size, Storage::F32),
    );
    states.grow(size);
    out.grow(size);
    for (index, row) in rows.chunks_exact(count).enumerate() {
        states
            .rows_mut(index..index + 1)
            .row(0)
            .copy_from_slice(row);
    }
    let panels = 0..layer.weights().panels();
    kernels.linear(
        &layer,
        panels,
        states.rows(0..size),
        &mut out.rows_mut(0..size),
    );
    for (index, products) in products.chunks_exact_mut(size).enumerate() {
        let row = out.rows(index..index + 1);
        products
            .iter_mut()
            .zip(row.row(0))
            .for_each(|(sum, product)| *sum += product);
    }
}

fn transposed(matrix: &[f32], size: usize) -> Vec<f32> {
    let column = |column: usize| matrix.iter().skip(column).step_by(size);
    (0..size).flat_map(column).copied().collect()
}
