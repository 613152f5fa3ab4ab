//! The head for masked words: gives each token a score for every word of the vocabulary.
//!
//! It is the head of the `…ForMaskedLM` classes of the transformers library: a linear layer, GELU, a layer norm, and a linear layer
//! whose weights are often the word embeddings.

use flow_kernels::{Activations, CpuPrecision, Kernels, Linear, Storage};

use super::error::ModelError;
use crate::family::{Architecture, LayerNormTensors, ModelTensors};
use crate::tokens::{HiddenStates, TokenBatch};
use crate::weights::{WeightsError, WeightsFile};

/// Tokens whose scores exist at the same time. Each has 120 KB with a vocabulary of 30,000 words.
const BLOCK_TOKENS: usize = 32;

/// Turns hidden states into scores of words.
#[derive(Debug)]
pub(crate) struct MaskedLmHead {
    /// Kernels for 32-bit floats: the precision of the head is that of the scores.
    kernels: Kernels,
    transform: Linear,
    norm: LayerNormTensors,
    epsilon: f32,
    words: Linear,
}

impl MaskedLmHead {
    /// Loads the head of a model.
    ///
    /// # Errors
    ///
    /// If the model has none, or it cannot be read.
    pub(crate) fn load(
        architecture: &Architecture,
        weights: &WeightsFile,
        kernels: Kernels,
    ) -> Result<Self, ModelError> {
        let tensors = ModelTensors::new(architecture, weights).masked_lm();
        let tensors = tensors.map_err(|error| match error {
            source @ WeightsError::Missing { .. } => ModelError::NoMaskedLmHead {
                path: weights.path().to_owned(),
                source: Box::new(source),
            },
            error => error.into(),
        })?;
        let kernels = kernels.with_precision(CpuPrecision::F32);
        let pack = |weights: &[f32]| kernels.pack(weights, architecture.hidden_size);
        let activation = architecture.masked_lm_activation();
        Ok(Self {
            transform: Linear::new(
                pack(&tensors.transform.weights),
                &tensors.transform.bias,
                activation,
            ),
            norm: tensors.norm,
            epsilon: architecture.epsilon,
            words: Linear::new(
                pack(&tensors.words.weights),
                &tensors.words.bias,
                flow_kernels::Activation::None,
            ),
            kernels,
        })
    }

    /// Number of words of the vocabulary.
    pub(crate) fn words(&self) -> usize {
        self.words.weights().outputs()
    }

    /// What `finish` makes of each text of a batch: of the largest score that every word has among the text's tokens, or 0 if all are
    /// negative. The scores of one text exist at a time, because a vocabulary may have 250,000 words.
    pub(crate) fn largest_scores<T>(
        &self,
        batch: &TokenBatch,
        states: &HiddenStates,
        mut finish: impl FnMut(&[f32]) -> T,
    ) -> Vec<T> {
        let texts = batch.lengths.iter().enumerate();
        let tokens = texts.flat_map(|(text, &length)| {
            let states = states.of_text(text, length);
            states.map(move |state| (text, state))
        });
        let tokens: Vec<(usize, &[f32])> = tokens.collect();
        let mut finished = Vec::with_capacity(batch.lengths.len());
        let mut largest = vec![0.0_f32; self.words()];
        let mut block = ScoreBlock::new(self, states.width, tokens.len().min(BLOCK_TOKENS));
        for tokens in tokens.chunks(BLOCK_TOKENS) {
            let scores = block.compute(self, tokens.iter().map(|(_, state)| *state));
            for (row, (text, _)) in tokens.iter().enumerate() {
                // The texts before this one have no more tokens.
                while finished.len() < *text {
                    finished.push(finish(&largest));
                    largest.fill(0.0);
                }
                for (largest, score) in largest.iter_mut().zip(scores.rows(row..row + 1).row(0)) {
                    *largest = largest.max(*score);
                }
            }
        }
        while finished.len() < batch.lengths.len() {
            finished.push(finish(&largest));
            largest.fill(0.0);
        }
        finished
    }
}

/// Buffers for the scores of some tokens.
struct ScoreBlock {
    states: Activations,
    transformed: Activations,
    /// What is added before the layer norm: nothing.
    zeros: Activations,
    scores: Activations,
}

impl ScoreBlock {
    /// Buffers for so many tokens.
    fn new(head: &MaskedLmHead, width: usize, tokens: usize) -> Self {
        let buffer = |width| {
            let mut buffer = Activations::new(width, Storage::F32);
            buffer.grow(tokens);
            buffer
        };
        let mut zeros = buffer(width);
        let mut rows = zeros.rows_mut(0..tokens);
        (0..tokens).for_each(|row| rows.row(row).fill(0.0));
        Self {
            states: buffer(width),
            transformed: buffer(width),
            zeros,
            scores: buffer(head.words()),
        }
    }

    /// The scores of at most as many tokens as there are buffers for, a row for each.
    fn compute<'s>(
        &mut self,
        head: &MaskedLmHead,
        states: impl ExactSizeIterator<Item = &'s [f32]>,
    ) -> &Activations {
        let rows = 0..states.len();
        let mut into = self.states.rows_mut(rows.clone());
        for (row, state) in states.enumerate() {
            into.row(row).copy_from_slice(state);
        }
        let linear = |layer: &Linear, from: &Activations, to: &mut Activations| {
            let panels = 0..layer.weights().panels();
            let from = from.rows(rows.clone());
            head.kernels
                .linear(layer, panels, from, &mut to.rows_mut(rows.clone()));
        };
        linear(&head.transform, &self.states, &mut self.transformed);
        let norm = (
            head.norm.scale.as_slice(),
            head.norm.shift.as_slice(),
            head.epsilon,
        );
        head.kernels.add_layer_norm(
            self.zeros.rows(rows.clone()),
            norm,
            &mut self.transformed.rows_mut(rows.clone()),
        );
        linear(&head.words, &self.transformed, &mut self.scores);
        &self.scores
    }
}
