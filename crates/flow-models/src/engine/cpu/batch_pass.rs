//! Some texts, one after another without padding, through all layers on one thread.
//!
//! Within a layer the texts go in blocks whose states stay in the second cache from one operation to the
//! next; linear layers see a block as one matrix, and attention sees each text.

use std::ops::Range;

use flow_kernels::{Activations, AttentionScratch, CpuPrecision, Storage};

use super::{Engine, Layer};
use crate::engine::{States, TokenBatch};

/// Tokens of a block, if texts are not longer: enough for weights that come from memory to be used on many
/// rows, and few enough for 192 rows of 1536 values to stay near.
const BLOCK_TOKENS: usize = 192;

/// Memory for one piece, used again and again.
#[derive(Debug)]
pub(super) struct Piece {
    states: Activations,
    heads: Activations,
    context: Activations,
    sums: Activations,
    inner: Activations,
    scratch: AttentionScratch,
}

/// What is kept of states that go into products.
pub(super) fn operand(format: CpuPrecision) -> Storage {
    match format {
        CpuPrecision::F32 => Storage::F32,
        CpuPrecision::Bf16 => Storage::Bf16,
    }
}

/// What is kept of states that are added to as well.
pub(super) fn residual(format: CpuPrecision) -> Storage {
    match format {
        CpuPrecision::F32 => Storage::F32,
        CpuPrecision::Bf16 => Storage::Both,
    }
}

impl Piece {
    pub(super) fn new(engine: &Engine) -> Self {
        let format = engine.kernels.precision();
        let hidden = engine.size.hidden;
        Self {
            states: Activations::new(hidden, residual(format)),
            heads: Activations::new(3 * hidden, Storage::F32),
            context: Activations::new(hidden, operand(format)),
            sums: Activations::new(hidden, Storage::F32),
            inner: Activations::new(engine.size.inner, operand(format)),
            scratch: AttentionScratch::default(),
        }
    }

    pub(super) fn forward(&mut self, engine: &Engine, batch: &TokenBatch) -> States {
        let texts = batch.ranges();
        self.states.grow(batch.ids.len());
        for text in &texts {
            let ids = &batch.ids[text.clone()];
            let mut states = self.states.rows_mut(text.clone());
            engine.embeddings.embed(&engine.kernels, ids, &mut states);
        }
        let blocks = blocks(&texts);
        for layer in &engine.layers {
            for block in &blocks {
                self.attend(engine, layer, &texts[block.clone()]);
            }
            for rows in rows(batch.ids.len()) {
                self.feed(engine, layer, rows);
            }
        }
        States::gather(
            self.states.rows(0..batch.ids.len()),
            engine.size.hidden,
            &texts,
        )
    }

    /// The first half of a layer, for the texts of one block.
    fn attend(&mut self, engine: &Engine, layer: &Layer, texts: &[Range<usize>]) {
        let (Some(first), Some(last)) = (texts.first(), texts.last()) else {
            return;
        };
        let (kernels, start) = (&engine.kernels, first.start);
        let (all, count) = (start..last.end, last.end - start);
        self.heads.grow(count);
        self.context.grow(count);
        self.sums.grow(count);
        let panels = 0..layer.heads.weights().panels();
        let mut heads = self.heads.rows_mut(0..count);
        kernels.linear(
            &layer.heads,
            panels,
            self.states.rows(all.clone()),
            &mut heads,
        );
        let attention = engine.heads.attention(&(0..engine.heads.count));
        for text in texts {
            let text = text.start - start..text.end - start;
            let mut context = self.context.rows_mut(text.clone());
            kernels.attention(
                &attention,
                self.heads.rows(text),
                &mut self.scratch,
                &mut context,
            );
        }
        let panels = 0..layer.out.weights().panels();
        let mut sums = self.sums.rows_mut(0..count);
        kernels.linear(&layer.out, panels, self.context.rows(0..count), &mut sums);
        let mut states = self.states.rows_mut(all);
        layer
            .out_norm
            .add(kernels, self.sums.rows(0..count), &mut states);
    }

    /// The second half of a layer, for some tokens.
    fn feed(&mut self, engine: &Engine, layer: &Layer, rows: Range<usize>) {
        let (kernels, count) = (&engine.kernels, rows.len());
        self.inner.grow(count);
        self.sums.grow(count);
        let panels = 0..layer.up.weights().panels();
        let mut inner = self.inner.rows_mut(0..count);
        kernels.linear(
            &layer.up,
            panels,
            self.states.rows(rows.clone()),
            &mut inner,
        );
        let panels = 0..layer.down.weights().panels();
        let mut sums = self.sums.rows_mut(0..count);
        kernels.linear(&layer.down, panels, self.inner.rows(0..count), &mut sums);
        let mut states = self.states.rows_mut(rows);
        layer
            .down_norm
            .add(kernels, self.sums.rows(0..count), &mut states);
    }
}

/// Groups whole texts: each group but the last has at least [`BLOCK_TOKENS`].
fn blocks(texts: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut first = 0;
    for (number, text) in texts.iter().enumerate() {
        if text.end - texts[first].start >= BLOCK_TOKENS {
            blocks.push(first..number + 1);
            first = number + 1;
        }
    }
    if first < texts.len() {
        blocks.push(first..texts.len());
    }
    blocks
}

/// As few ranges of at most [`BLOCK_TOKENS`] as there can be, all about as long.
fn rows(tokens: usize) -> impl Iterator<Item = Range<usize>> {
    let count = tokens.div_ceil(BLOCK_TOKENS);
    (0..count).map(move |part| tokens * part / count..tokens * (part + 1) / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_closes_when_it_has_enough_and_every_text_is_in_one() {
        let texts = [0..100, 100..191, 191..192, 192..500, 500..501];
        assert_eq!(blocks(&texts), [0..3, 3..4, 4..5]);
        assert!(blocks(&[]).is_empty());
    }

    #[test]
    fn rows_are_shared_out_evenly() {
        assert_eq!(rows(193).collect::<Vec<_>>(), [0..96, 96..193]);
        assert_eq!(rows(0).count(), 0);
    }
}
