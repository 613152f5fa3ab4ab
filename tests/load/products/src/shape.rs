//! The shapes and values of the measured products.

use std::fmt;

/// `rows` states of `inputs` values each, times weights for a number of `outputs`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// The layers of all-MiniLM-L6-v2: one short text, a long one, a batch of short ones, and many.
pub(crate) const SHAPES: [Shape; 16] = shapes();

/// What is multiplied.
pub(crate) struct Matrices {
    pub(crate) shape: Shape,
    /// Row after row.
    pub(crate) states: Vec<f32>,
    /// Output after output, as models keep them.
    pub(crate) weights: Vec<f32>,
}

const fn shapes() -> [Shape; 16] {
    const ROWS: [usize; 4] = [14, 128, 448, 4096];
    const LAYERS: [(usize, usize); 4] = [(384, 1152), (384, 384), (384, 1536), (1536, 384)];
    let mut shapes = [Shape {
        rows: 0,
        inputs: 0,
        outputs: 0,
    }; 16];
    let mut at = 0;
    while at < shapes.len() {
        let (inputs, outputs) = LAYERS[at % LAYERS.len()];
        shapes[at] = Shape {
            rows: ROWS[at / LAYERS.len()],
            inputs,
            outputs,
        };
        at += 1;
    }
    shapes
}

impl Shape {
    pub(crate) fn flop(self) -> f64 {
        2.0 * (self.rows * self.inputs * self.outputs) as f64
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} × {}", self.rows, self.inputs, self.outputs)
    }
}

impl Matrices {
    pub(crate) fn of(shape: Shape) -> Self {
        let mut seed = 1_u32;
        // Between -1 and 1, the same in each run.
        let mut next = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / 8_388_608.0 - 1.0
        };
        Self {
            shape,
            states: (0..shape.rows * shape.inputs).map(&mut next).collect(),
            weights: (0..shape.outputs * shape.inputs).map(&mut next).collect(),
        }
    }

    /// What a product should be.
    pub(crate) fn value(&self, row: usize, output: usize) -> f64 {
        let inputs = self.shape.inputs;
        let state = &self.states[row * inputs..][..inputs];
        let weights = &self.weights[output * inputs..][..inputs];
        let products = state.iter().zip(weights);
        products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }
}
