//! A plain implementation of a model in 64-bit floats.

use flow_cuda::{
    Activation, EmbeddingWeights, LayerNormWeights, LayerWeights, LinearWeights, ModelShape,
    PoolingMode, PoolingSpec,
};

use crate::random::{Random, gelu};

pub(crate) type Row = Vec<f64>;

/// A model with its weights.
pub(crate) struct ReferenceModel {
    pub(crate) shape: ModelShape,
    pub(crate) embeddings: EmbeddingWeights,
    pub(crate) layers: Vec<LayerWeights>,
}

impl ReferenceModel {
    /// Creates a model with pseudo-random weights.
    pub(crate) fn new(shape: ModelShape, layers: usize, has_position_bias: bool) -> Self {
        let mut random = Random::new(7);
        let random = &mut random;
        let (hidden, intermediate) = (shape.hidden_size, shape.intermediate_size);
        let distances = shape.heads * (2 * shape.max_tokens - 1);
        Self {
            shape,
            embeddings: EmbeddingWeights {
                words: random.values(shape.vocab_size * hidden, 1.0),
                positions: random.values(shape.token_types * shape.max_tokens * hidden, 0.5),
                norm: norm(random, hidden),
                position_bias: has_position_bias.then(|| random.values(distances, 1.0)),
            },
            layers: (0..layers)
                .map(|_| LayerWeights {
                    qkv: linear(random, hidden, 3 * hidden),
                    attention_output: linear(random, hidden, hidden),
                    attention_norm: norm(random, hidden),
                    mlp_up: linear(random, hidden, intermediate),
                    mlp_down: linear(random, intermediate, hidden),
                    mlp_norm: norm(random, hidden),
                })
                .collect(),
        }
    }

    pub(crate) fn vector(&self, ids: &[u32], pooling: &PoolingSpec) -> Row {
        self.pair_vector((ids, ids.len()), pooling)
    }

    /// The vector of a pair whose second text begins at `second_start`.
    pub(crate) fn pair_vector(
        &self,
        (ids, second_start): (&[u32], usize),
        pooling: &PoolingSpec,
    ) -> Row {
        let mut states: Vec<Row> = ids
            .iter()
            .enumerate()
            .map(|(position, id)| {
                let is_second = position >= second_start && self.shape.token_types > 1;
                let row = position + usize::from(is_second) * self.shape.max_tokens;
                self.embed(row, *id)
            })
            .collect();
        for layer in &self.layers {
            states = self.layer(layer, &states);
        }
        let modes = pooling.modes.iter();
        let mut vector: Row = modes
            .flat_map(|mode| pool(*mode, &states, pooling.skipped_tokens))
            .collect();
        vector.truncate(pooling.width);
        let length = vector.iter().map(|it| it * it).sum::<f64>().sqrt();
        if pooling.normalize {
            vector.iter_mut().for_each(|it| *it /= length.max(1e-12));
        }
        vector
    }

    fn embed(&self, position: usize, id: u32) -> Row {
        let hidden = self.shape.hidden_size;
        let id = (id as usize).min(self.shape.vocab_size - 1);
        let word = wide(&self.embeddings.words[id * hidden..][..hidden]);
        let embedding = wide(&self.embeddings.positions[position * hidden..][..hidden]);
        self.normalize(&self.embeddings.norm, &add(&word, &embedding))
    }

    fn layer(&self, layer: &LayerWeights, states: &[Row]) -> Vec<Row> {
        let heads: Vec<Row> = states.iter().map(|it| apply(&layer.qkv, it)).collect();
        let step = |(at, state): (usize, &Row)| {
            let context = self.attention(at, &heads);
            let sum = add(state, &apply(&layer.attention_output, &context));
            let state = self.normalize(&layer.attention_norm, &sum);
            let intermediate = apply(&layer.mlp_up, &state).into_iter();
            let intermediate: Row = intermediate.map(|it| self.activate(it)).collect();
            let sum = add(&state, &apply(&layer.mlp_down, &intermediate));
            self.normalize(&layer.mlp_norm, &sum)
        };
        states.iter().enumerate().map(step).collect()
    }

    fn activate(&self, x: f64) -> f64 {
        match self.shape.activation {
            Activation::Gelu => gelu(x),
            Activation::Relu => x.max(0.0),
            Activation::None | Activation::GeluTanh => panic!("not used in these tests"),
        }
    }

    fn attention(&self, at: usize, states: &[Row]) -> Row {
        let (hidden, width) = (
            self.shape.hidden_size,
            self.shape.hidden_size / self.shape.heads,
        );
        let mut context = vec![0.0; hidden];
        for head in 0..self.shape.heads {
            let part = |state: &Row, which: usize| {
                state[which * hidden + head * width..][..width].to_vec()
            };
            let query = part(&states[at], 0);
            let score = |(key_at, state): (usize, &Row)| {
                let product = dot(&query, &part(state, 1)) / (width as f64).sqrt();
                product + self.position_bias(head, at, key_at)
            };
            let scores: Row = states.iter().enumerate().map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Row = scores.iter().map(|it| (it - max).exp()).collect();
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

    fn position_bias(&self, head: usize, query: usize, key: usize) -> f64 {
        let max_tokens = self.shape.max_tokens;
        let values = self.embeddings.position_bias.as_ref();
        let at = head * (2 * max_tokens - 1) + max_tokens - 1 + key - query;
        values.map_or(0.0, |values| f64::from(values[at]))
    }

    fn normalize(&self, norm: &LayerNormWeights, row: &Row) -> Row {
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

fn pool(mode: PoolingMode, states: &[Row], skipped_tokens: usize) -> Row {
    let pooled = &states[skipped_tokens.min(states.len())..];
    let fold = |start: f64, step: fn(f64, f64) -> f64| -> Row {
        let column = |at: usize| pooled.iter().fold(start, |sum, it| step(sum, it[at]));
        (0..states[0].len()).map(column).collect()
    };
    let sums = || fold(0.0, |sum, it| sum + it);
    let over = |row: Row, by: f64| -> Row { row.into_iter().map(|it| it / by).collect() };
    let count = pooled.len() as f64;
    match mode {
        PoolingMode::Cls => pooled.first().unwrap_or(&states[0]).clone(),
        PoolingMode::LastToken => states.last().unwrap().clone(),
        PoolingMode::Max => fold(f64::NEG_INFINITY, f64::max),
        PoolingMode::Min => fold(f64::INFINITY, f64::min),
        PoolingMode::Mean => over(sums(), count),
        PoolingMode::MeanSqrtLen => over(sums(), count.sqrt()),
        PoolingMode::WeightedMean => {
            let weights = || (skipped_tokens..states.len()).map(|at| (at + 1) as f64);
            let column = |at: usize| {
                let terms = pooled.iter().zip(weights()).map(|(it, by)| it[at] * by);
                terms.sum::<f64>()
            };
            over((0..states[0].len()).map(column).collect(), weights().sum())
        }
    }
}

fn linear(random: &mut Random, from: usize, to: usize) -> LinearWeights {
    LinearWeights {
        weights: random.values(from * to, 2.0 / (from as f32).sqrt()),
        bias: random.values(to, 0.1),
    }
}

fn norm(random: &mut Random, width: usize) -> LayerNormWeights {
    LayerNormWeights {
        scale: random
            .values(width, 0.5)
            .iter()
            .map(|it| it + 1.0)
            .collect(),
        shift: random.values(width, 0.2),
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
