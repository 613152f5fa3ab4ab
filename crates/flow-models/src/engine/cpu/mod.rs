//! BERT and its relatives on `flow-kernels`: no padding, weights packed once, one pass through memory.
//!
//! `load.rs` makes an [`Engine`] of a file of weights; `piece.rs` takes some texts through all layers on one
//! thread, which is how many texts are computed: one piece for each core, with nothing shared but the
//! weights. `alone.rs` takes one text through all layers on several threads at once.

mod batch_pass;
mod embeddings;
mod f16;
mod load;
mod single_text;

use std::sync::{Mutex, PoisonError};

use flow_kernels::{AttentionConfig, Kernels, Linear, PositionBias, Rows, RowsMut};

use self::batch_pass::Piece;
use self::embeddings::Embeddings;
pub(super) use self::single_text::Alone;
use super::{Size, States, TokenBatch};

/// A model on our own kernels.
#[derive(Debug)]
pub struct Engine {
    kernels: Kernels,
    heads: Heads,
    size: Size,
    positions: usize,
    embeddings: Embeddings,
    layers: Vec<Layer>,
    /// Memory of pieces that are not computed just now: as many as there were at once.
    pieces: Mutex<Vec<Piece>>,
    alone: Alone,
}

/// What all layers' attention has in common.
#[derive(Debug)]
struct Heads {
    count: usize,
    width: usize,
    /// By head and distance; see [`PositionBias`].
    distances: Option<Vec<f32>>,
    span: usize,
}

#[derive(Debug)]
struct Layer {
    /// Head after head: query, key, value.
    heads: Linear,
    out: Linear,
    out_norm: Norm,
    up: Linear,
    down: Linear,
    down_norm: Norm,
}

#[derive(Debug)]
struct Norm {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl Engine {
    /// How many values a token's state has.
    pub(super) fn width(&self) -> usize {
        self.size.hidden
    }

    /// How large it is.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// How many tokens a text can have at most.
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// What computes.
    pub(super) fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Bytes of all weights, as they are kept.
    pub(super) fn weight_bytes(&self) -> usize {
        let layers = self.layers.iter().map(Layer::weight_bytes);
        self.embeddings.bytes() + layers.sum::<usize>()
    }

    /// The states of all tokens after the last layer, computed on this thread.
    pub(super) fn forward(&self, batch: &TokenBatch) -> States {
        let spare = self.spare().pop();
        let mut piece = spare.unwrap_or_else(|| Piece::new(self));
        let states = piece.forward(self, batch);
        self.spare().push(piece);
        states
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<Piece>> {
        // What is in it is whole, whoever panicked.
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layer {
    /// Those of its matrices; the others are a thousandth of them.
    fn weight_bytes(&self) -> usize {
        let products = [&self.heads, &self.out, &self.up, &self.down];
        products.iter().map(|it| it.weights().bytes()).sum()
    }
}

impl Heads {
    /// The attention of the heads with these numbers.
    fn attention(&self, heads: &std::ops::Range<usize>) -> AttentionConfig<'_> {
        let distances = self.distances.as_ref().map(|values| {
            let each = 2 * self.span - 1;
            let values = &values[heads.start * each..heads.end * each];
            PositionBias {
                values,
                max_tokens: self.span,
            }
        });
        AttentionConfig {
            heads: heads.len(),
            head_size: self.width,
            scale: 1.0 / (self.width as f32).sqrt(),
            position_bias: distances,
        }
    }
}

impl Norm {
    /// Adds, then normalises.
    fn add(&self, kernels: &Kernels, added: Rows<'_>, values: &mut RowsMut<'_>) {
        kernels.add_layer_norm(added, (&self.scale, &self.shift, self.epsilon), values);
    }
}
