//! A model as its formulas say, in 64-bit floats.

use flow_cuda::{
    Activation, EmbeddingWeights, LayerWeights, LinearWeights, NormWeights, Pooling, PoolingMode,
    Shape,
};

use crate::random::{Seeded, gelu};

pub(crate) type Row = Vec<f64>;

/// A model whose weights are known.
pub(crate) struct Naive {
    pub(crate) shape: Shape,
    pub(crate) embeddings: EmbeddingWeights,
    pub(crate) layers: Vec<LayerWeights>,
}

impl Naive {
    /// A model of this size with weights from a seed.
    pub(crate) fn of(shape: Shape, layers: usize, has_distances: bool) -> Self {
        let mut seeded = Seeded::new(7);
        let seeded = &mut seeded;
        let (hidden, inner) = (shape.hidden, shape.inner);
        let distances = shape.heads * (2 * shape.positions - 1);
        Self {
            shape,
            embeddings: EmbeddingWeights {
                words: seeded.values(shape.vocabulary * hidden, 1.0),
                positions: seeded.values(shape.positions * hidden, 0.5),
                norm: norm(seeded, hidden),
                distances: has_distances.then(|| seeded.values(distances, 1.0)),
            },
            layers: (0..layers)
                .map(|_| LayerWeights {
                    heads: linear(seeded, hidden, 3 * hidden),
                    out: linear(seeded, hidden, hidden),
                    out_norm: norm(seeded, hidden),
                    up: linear(seeded, hidden, inner),
                    down: linear(seeded, inner, hidden),
                    down_norm: norm(seeded, hidden),
                })
                .collect(),
        }
    }

    pub(crate) fn vector(&self, ids: &[u32], pooling: &Pooling) -> Row {
        let mut states: Vec<Row> = ids
            .iter()
            .enumerate()
            .map(|(place, id)| self.embed(place, *id))
            .collect();
        for layer in &self.layers {
            states = self.layer(layer, &states);
        }
        let modes = pooling.modes.iter();
        let mut vector: Row = modes
            .flat_map(|mode| pool(*mode, &states, pooling.skipped))
            .collect();
        vector.truncate(pooling.width);
        let length = vector.iter().map(|it| it * it).sum::<f64>().sqrt();
        if pooling.normalize {
            vector.iter_mut().for_each(|it| *it /= length.max(1e-12));
        }
        vector
    }

    fn embed(&self, place: usize, id: u32) -> Row {
        let hidden = self.shape.hidden;
        let id = (id as usize).min(self.shape.vocabulary - 1);
        let word = wide(&self.embeddings.words[id * hidden..][..hidden]);
        let position = wide(&self.embeddings.positions[place * hidden..][..hidden]);
        self.normalise(&self.embeddings.norm, &add(&word, &position))
    }

    fn layer(&self, layer: &LayerWeights, states: &[Row]) -> Vec<Row> {
        let heads: Vec<Row> = states.iter().map(|it| apply(&layer.heads, it)).collect();
        let step = |(at, state): (usize, &Row)| {
            let context = self.attend(at, &heads);
            let sum = add(state, &apply(&layer.out, &context));
            let state = self.normalise(&layer.out_norm, &sum);
            let inner = apply(&layer.up, &state).into_iter();
            let inner: Row = inner.map(|it| self.activate(it)).collect();
            let sum = add(&state, &apply(&layer.down, &inner));
            self.normalise(&layer.down_norm, &sum)
        };
        states.iter().enumerate().map(step).collect()
    }

    fn activate(&self, x: f64) -> f64 {
        match self.shape.activation {
            Activation::Gelu => gelu(x),
            Activation::Relu => x.max(0.0),
            Activation::None | Activation::GeluTanh => panic!("no case of these tests"),
        }
    }

    fn attend(&self, at: usize, states: &[Row]) -> Row {
        let (hidden, width) = (self.shape.hidden, self.shape.hidden / self.shape.heads);
        let mut context = vec![0.0; hidden];
        for head in 0..self.shape.heads {
            let part = |state: &Row, which: usize| {
                state[which * hidden + head * width..][..width].to_vec()
            };
            let query = part(&states[at], 0);
            let exponent = |(key_at, state): (usize, &Row)| {
                let product = dot(&query, &part(state, 1)) / (width as f64).sqrt();
                product + self.distance(head, at, key_at)
            };
            let exponents: Row = states.iter().enumerate().map(exponent).collect();
            let most = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Row = exponents.iter().map(|it| (it - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (weight, state) in weights.iter().zip(states) {
                let sums = &mut context[head * width..][..width];
                for (sum, value) in sums.iter_mut().zip(part(state, 2)) {
                    *sum += weight / total * value;
                }
            }
        }
        context
    }

    fn distance(&self, head: usize, query: usize, key: usize) -> f64 {
        let span = self.shape.positions;
        let values = self.embeddings.distances.as_ref();
        let at = head * (2 * span - 1) + span - 1 + key - query;
        values.map_or(0.0, |values| f64::from(values[at]))
    }

    fn normalise(&self, norm: &NormWeights, row: &Row) -> Row {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
        let by = 1.0 / (variance + f64::from(self.shape.epsilon)).sqrt();
        let weights = norm.scale.iter().zip(&norm.shift);
        row.iter()
            .zip(weights)
            .map(|(it, (scale, shift))| (it - mean) * by * f64::from(*scale) + f64::from(*shift))
            .collect()
    }
}

fn pool(mode: PoolingMode, states: &[Row], skipped: usize) -> Row {
    let counted = &states[skipped.min(states.len())..];
    let fold = |start: f64, step: fn(f64, f64) -> f64| -> Row {
        let column = |at: usize| counted.iter().fold(start, |sum, it| step(sum, it[at]));
        (0..states[0].len()).map(column).collect()
    };
    let sums = || fold(0.0, |sum, it| sum + it);
    let over = |row: Row, by: f64| -> Row { row.into_iter().map(|it| it / by).collect() };
    let count = counted.len() as f64;
    match mode {
        PoolingMode::Cls => counted.first().unwrap_or(&states[0]).clone(),
        PoolingMode::LastToken => states.last().unwrap().clone(),
        PoolingMode::Max => fold(f64::NEG_INFINITY, f64::max),
        PoolingMode::Min => fold(f64::INFINITY, f64::min),
        PoolingMode::Mean => over(sums(), count),
        PoolingMode::MeanSqrtLen => over(sums(), count.sqrt()),
        PoolingMode::WeightedMean => {
            let weights = || (skipped..states.len()).map(|at| (at + 1) as f64);
            let column = |at: usize| {
                let terms = counted.iter().zip(weights()).map(|(it, by)| it[at] * by);
                terms.sum::<f64>()
            };
            over((0..states[0].len()).map(column).collect(), weights().sum())
        }
    }
}

fn linear(seeded: &mut Seeded, from: usize, to: usize) -> LinearWeights {
    LinearWeights {
        weights: seeded.values(from * to, 2.0 / (from as f32).sqrt()),
        bias: seeded.values(to, 0.1),
    }
}

fn norm(seeded: &mut Seeded, width: usize) -> NormWeights {
    NormWeights {
        scale: seeded
            .values(width, 0.5)
            .iter()
            .map(|it| it + 1.0)
            .collect(),
        shift: seeded.values(width, 0.2),
    }
}

fn apply(linear: &LinearWeights, state: &Row) -> Row {
    let rows = linear.weights.chunks(state.len()).zip(&linear.bias);
    rows.map(|(row, bias)| dot(&wide(row), state) + f64::from(*bias))
        .collect()
}

fn wide(values: &[f32]) -> Row {
    values.iter().map(|it| f64::from(*it)).collect()
}

fn add(a: &Row, b: &Row) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
