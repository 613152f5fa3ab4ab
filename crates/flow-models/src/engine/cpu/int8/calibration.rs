//! Observes the states of a model while it encodes a few texts.
//!
//! The texts are part of the program: sentences, questions, code, numbers, punctuation, repetitions, and many scripts. They
//! only need to reach all parts of a vocabulary; a model's own texts are not known when it is loaded.

use std::path::Path;

use super::statistics::InputStatistics;
use crate::engine::cpu::batch_pass::BatchPass;
use crate::engine::cpu::model::{CpuModel, LinearPart};
use crate::source::TOKENIZER_FILE;
use crate::tokenizer::{Prompt, Tokenizer, TokenizerError, TokenizerOptions};
use crate::tokens::TokenBatch;
use crate::truncation::TruncationDirection;

pub(super) const TEXTS: &str = include_str!("texts.txt");

/// Maximum tokens of a text.
const TOKENS_MAX: usize = 128;

/// The statistics of each linear layer of one layer.
pub(super) type LayerStatistics = [InputStatistics; LinearPart::ALL.len()];

/// The tokens of the calibration texts.
///
/// # Errors
///
/// If the model's tokenizer cannot be loaded.
pub(super) fn tokens(folder: &Path, max_tokens: usize) -> Result<TokenBatch, TokenizerError> {
    let options = TokenizerOptions {
        max_length: TOKENS_MAX.min(max_tokens),
        lower_case: false,
    };
    let tokenizer = Tokenizer::load(&folder.join(TOKENIZER_FILE), options)?;
    let direction = TruncationDirection::default();
    let mut batch = TokenBatch::default();
    for text in TEXTS.lines() {
        batch.push(&tokenizer.ids(text, &Prompt::default(), direction)?);
    }
    Ok(batch)
}

/// What the linear layers of a model in 32-bit floats read. Each text counts as much as any other, whatever its length.
pub(super) fn statistics(model: &CpuModel, texts: &TokenBatch) -> Vec<LayerStatistics> {
    let of_layer = |layer: &crate::engine::cpu::model::CpuLayer| {
        LinearPart::ALL.map(|part| InputStatistics::new(layer.linear(part).weights().inputs()))
    };
    let mut statistics: Vec<LayerStatistics> = model.layers.iter().map(of_layer).collect();
    let of_text = |length: &usize| std::iter::repeat_n(1.0 / *length as f32, *length);
    let weights: Vec<f32> = texts.lengths.iter().flat_map(of_text).collect();
    let mut pass = BatchPass::new(model);
    pass.forward_observed(model, texts, &mut |(layer, part), rows, states| {
        let statistics = &mut statistics[layer][part as usize];
        statistics.add(&model.kernels, states, &weights[rows]);
    });
    statistics
}
