//! Takes a batch through all layers on one thread.
//!
//! The texts lie one after the other, without padding. Within a layer, they are processed in blocks whose states stay in the
//! L2 cache from one operation to the next. Linear layers see a block as one matrix; attention sees each text.

use std::ops::Range;

use flow_kernels::{Activations, AttentionScratch, Rows, Storage};

use super::model::{CpuLayer, CpuModel, LinearPart};
use crate::tokens::{HiddenStates, TokenBatch};

/// Tokens of a block, unless a single text is longer: enough rows to use weights that come from memory many times, and few
/// enough for 192 rows of 1536 values to stay in the L2 cache.
const BLOCK_TOKENS: usize = 192;

/// A function that sees what each linear layer reads: the number of the layer and the linear layer in it, which tokens of the
/// batch, and their states.
pub(super) type Observer<'a> = dyn FnMut((usize, LinearPart), Range<usize>, Rows<'_>) + 'a;

/// Reusable buffers of a pass.
#[derive(Debug)]
pub(super) struct BatchPass {
    states: Activations,
    qkv: Activations,
    context: Activations,
    sums: Activations,
    intermediate: Activations,
    scratch: AttentionScratch,
}

impl BatchPass {
    pub(super) fn new(model: &CpuModel) -> Self {
        let hidden = model.size.hidden;
        Self {
            states: Activations::new(hidden, model.residual_storage()),
            qkv: Activations::new(3 * hidden, model.qkv_storage()),
            context: Activations::new(hidden, model.operand_storage()),
            sums: Activations::new(hidden, Storage::F32),
            intermediate: Activations::new(model.size.intermediate, model.operand_storage()),
            scratch: AttentionScratch::default(),
        }
    }

    /// The hidden states of all tokens after the last layer.
    pub(super) fn forward(&mut self, model: &CpuModel, batch: &TokenBatch) -> HiddenStates {
        self.forward_observed(model, batch, &mut |_, _, _| ())
    }

    /// [`Self::forward`], with an observer.
    pub(super) fn forward_observed(
        &mut self,
        model: &CpuModel,
        batch: &TokenBatch,
        observer: &mut Observer<'_>,
    ) -> HiddenStates {
        let texts = batch.ranges();
        self.states.grow(batch.ids.len());
        for (index, text) in texts.iter().enumerate() {
            let tokens = (&batch.ids[text.clone()], batch.second_text(index));
            let mut states = self.states.rows_mut(text.clone());
            model.embeddings.embed(&model.kernels, tokens, &mut states);
        }
        let blocks = text_blocks(&texts);
        for (index, layer) in model.layers.iter().enumerate() {
            let mut observe = |part, tokens, rows: Rows<'_>| observer((index, part), tokens, rows);
            for block in &blocks {
                self.attention((model, layer), &texts[block.clone()], &mut observe);
            }
            for rows in row_blocks(batch.ids.len()) {
                self.mlp((model, layer), rows, &mut observe);
            }
        }
        let states = self.states.rows(0..batch.ids.len());
        HiddenStates::copy_from(states, model.size.hidden, &texts)
    }

    /// The attention sublayer, for the texts of one block.
    fn attention(
        &mut self,
        (model, layer): (&CpuModel, &CpuLayer),
        texts: &[Range<usize>],
        observe: &mut dyn FnMut(LinearPart, Range<usize>, Rows<'_>),
    ) {
        let (Some(first), Some(last)) = (texts.first(), texts.last()) else {
            return;
        };
        let (kernels, start) = (&model.kernels, first.start);
        let (all, count) = (start..last.end, last.end - start);
        self.qkv.grow(count);
        self.context.grow(count);
        self.sums.grow(count);
        observe(LinearPart::Qkv, all.clone(), self.states.rows(all.clone()));
        let panels = 0..layer.qkv.weights().panels();
        let mut qkv = self.qkv.rows_mut(0..count);
        kernels.linear(&layer.qkv, panels, self.states.rows(all.clone()), &mut qkv);
        let attention = model.heads.attention(&(0..model.heads.count));
        for text in texts {
            let text = text.start - start..text.end - start;
            let mut context = self.context.rows_mut(text.clone());
            kernels.attention(
                &attention,
                self.qkv.rows(text),
                &mut self.scratch,
                &mut context,
            );
        }
        let context = self.context.rows(0..count);
        observe(LinearPart::AttentionOutput, all.clone(), context);
        let panels = 0..layer.attention_output.weights().panels();
        let mut sums = self.sums.rows_mut(0..count);
        kernels.linear(&layer.attention_output, panels, context, &mut sums);
        let mut states = self.states.rows_mut(all);
        layer
            .attention_norm
            .add(kernels, self.sums.rows(0..count), &mut states);
    }

    /// The MLP sublayer, for some tokens.
    fn mlp(
        &mut self,
        (model, layer): (&CpuModel, &CpuLayer),
        rows: Range<usize>,
        observe: &mut dyn FnMut(LinearPart, Range<usize>, Rows<'_>),
    ) {
        let (kernels, count) = (&model.kernels, rows.len());
        self.intermediate.grow(count);
        self.sums.grow(count);
        observe(
            LinearPart::MlpUp,
            rows.clone(),
            self.states.rows(rows.clone()),
        );
        let panels = 0..layer.mlp_up.weights().panels();
        let mut intermediate = self.intermediate.rows_mut(0..count);
        kernels.linear(
            &layer.mlp_up,
            panels,
            self.states.rows(rows.clone()),
            &mut intermediate,
        );
        observe(
            LinearPart::MlpDown,
            rows.clone(),
            self.intermediate.rows(0..count),
        );
        let panels = 0..layer.mlp_down.weights().panels();
        let mut sums = self.sums.rows_mut(0..count);
        kernels.linear(
            &layer.mlp_down,
            panels,
            self.intermediate.rows(0..count),
            &mut sums,
        );
        let mut states = self.states.rows_mut(rows);
        layer
            .mlp_norm
            .add(kernels, self.sums.rows(0..count), &mut states);
    }
}

/// Groups whole texts into blocks. Each block but the last has at least [`BLOCK_TOKENS`] tokens.
fn text_blocks(texts: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut first = 0;
    for (index, text) in texts.iter().enumerate() {
        if text.end - texts[first].start >= BLOCK_TOKENS {
            blocks.push(first..index + 1);
            first = index + 1;
        }
    }
    if first < texts.len() {
        blocks.push(first..texts.len());
    }
    blocks
}

/// Splits the tokens into as few blocks of at most [`BLOCK_TOKENS`] as possible, of similar length.
fn row_blocks(tokens: usize) -> impl Iterator<Item = Range<usize>> {
    let count = tokens.div_ceil(BLOCK_TOKENS);
    (0..count).map(move |block| tokens * block / count..tokens * (block + 1) / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_closes_when_it_is_large_enough_and_every_text_is_in_one() {
        let texts = [0..100, 100..191, 191..192, 192..500, 500..501];
        assert_eq!(text_blocks(&texts), [0..3, 3..4, 4..5]);
        assert!(text_blocks(&[]).is_empty());
    }

    #[test]
    fn rows_are_split_into_blocks_of_similar_length() {
        assert_eq!(row_blocks(193).collect::<Vec<_>>(), [0..96, 96..193]);
        assert_eq!(row_blocks(0).count(), 0);
    }
}
