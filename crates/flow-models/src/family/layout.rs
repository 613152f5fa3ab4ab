//! What `config.json` says about a model: how large it is, and what its tensors are called.
//!
//! BERT, RoBERTa, MPNet and DistilBERT compute the same layers; they differ in names, in which embeddings
//! there are, and in what the position of a token counts from.

use flow_kernels::Activation;
use serde::Deserialize;

use crate::weights::{Weights, WeightsError};

/// Families of one architecture, with the names that `model_type` has for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Bert,
    DistilBert,
    Roberta,
    Mpnet,
}

/// `config.json`, as far as it concerns us. DistilBERT has words of its own for the same things.
#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    #[serde(alias = "dim")]
    hidden_size: usize,
    #[serde(alias = "hidden_dim")]
    intermediate_size: usize,
    #[serde(alias = "n_layers")]
    num_hidden_layers: usize,
    #[serde(alias = "n_heads")]
    num_attention_heads: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    #[serde(default)]
    type_vocab_size: usize,
    #[serde(default = "epsilon")]
    layer_norm_eps: f32,
    #[serde(default = "gelu", alias = "activation")]
    hidden_act: String,
    pad_token_id: Option<usize>,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default = "buckets")]
    relative_attention_num_buckets: usize,
}

/// A model's dimensions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub(crate) family: Family,
    pub(crate) hidden: usize,
    pub(crate) inner: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) vocabulary: usize,
    /// Rows of the table of positions.
    pub(crate) position_rows: usize,
    /// The row of a text's first token.
    pub(crate) first_position: usize,
    /// Rows of the table of segments; 0: there is none.
    pub(crate) segments: usize,
    /// Rows of the table of distances; 0: there is none.
    pub(crate) buckets: usize,
    pub(crate) epsilon: f32,
    pub(crate) activation: Activation,
}

/// A tensor of one layer, but for `weight` and `bias`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    Query,
    Key,
    Value,
    Out,
    OutNorm,
    Up,
    Down,
    DownNorm,
}

/// A model that would be computed wrongly.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The states cannot be shared out among the heads.
    #[error(
        "`num_attention_heads` is {heads}, which does not divide `hidden_size`; `hidden_size` is {hidden}"
    )]
    Heads {
        /// How many heads.
        heads: usize,
        /// How many values a state has.
        hidden: usize,
    },
    /// A setting that is not built.
    #[error("`{key}` is `{found}`, which is not built yet; there are `{}`", .known.join("`, `"))]
    NotBuilt {
        /// The setting.
        key: &'static str,
        /// What it says.
        found: String,
        /// What can be done.
        known: &'static [&'static str],
    },
    /// There are fewer positions than a text needs.
    #[error("`max_position_embeddings` is {0}, which leaves no room for a text")]
    Positions(usize),
}

pub(crate) const WORDS: &str = "embeddings.word_embeddings.weight";
pub(crate) const POSITIONS: &str = "embeddings.position_embeddings.weight";
pub(crate) const SEGMENTS: &str = "embeddings.token_type_embeddings.weight";
pub(crate) const EMBEDDINGS_NORM: &str = "embeddings.LayerNorm";
pub(crate) const DISTANCES: &str = "encoder.relative_attention_bias.weight";

const ABSOLUTE: &str = "absolute";

impl Family {
    pub(crate) fn of(model_type: &str) -> Option<Self> {
        match model_type {
            "bert" => Some(Self::Bert),
            "distilbert" => Some(Self::DistilBert),
            "roberta" | "xlm-roberta" => Some(Self::Roberta),
            "mpnet" => Some(Self::Mpnet),
            _ => None,
        }
    }

    /// What stands before the names in checkpoints with a head; encoders' own have nothing there.
    fn prefix(self) -> &'static str {
        match self {
            Self::Bert => "bert.",
            Self::DistilBert => "distilbert.",
            Self::Roberta => "roberta.",
            Self::Mpnet => "mpnet.",
        }
    }

    fn layers(self) -> &'static str {
        match self {
            Self::DistilBert => "transformer.layer",
            Self::Bert | Self::Roberta | Self::Mpnet => "encoder.layer",
        }
    }

    fn part(self, part: Part) -> &'static str {
        match (self, part) {
            (Self::DistilBert, Part::Query) => "attention.q_lin",
            (Self::DistilBert, Part::Key) => "attention.k_lin",
            (Self::DistilBert, Part::Value) => "attention.v_lin",
            (Self::DistilBert, Part::Out) => "attention.out_lin",
            (Self::DistilBert, Part::OutNorm) => "sa_layer_norm",
            (Self::DistilBert, Part::Up) => "ffn.lin1",
            (Self::DistilBert, Part::Down) => "ffn.lin2",
            (Self::DistilBert, Part::DownNorm) => "output_layer_norm",
            (Self::Mpnet, Part::Query) => "attention.attn.q",
            (Self::Mpnet, Part::Key) => "attention.attn.k",
            (Self::Mpnet, Part::Value) => "attention.attn.v",
            (Self::Mpnet, Part::Out) => "attention.attn.o",
            (Self::Mpnet, Part::OutNorm) => "attention.LayerNorm",
            (_, Part::Query) => "attention.self.query",
            (_, Part::Key) => "attention.self.key",
            (_, Part::Value) => "attention.self.value",
            (_, Part::Out) => "attention.output.dense",
            (_, Part::OutNorm) => "attention.output.LayerNorm",
            (_, Part::Up) => "intermediate.dense",
            (_, Part::Down) => "output.dense",
            (_, Part::DownNorm) => "output.LayerNorm",
        }
    }
}

impl Layout {
    /// What follows from `config.json`.
    pub(crate) fn of(family: Family, config: &Config) -> Result<Self, LayoutError> {
        let (heads, hidden) = (config.num_attention_heads, config.hidden_size);
        if heads == 0 || hidden == 0 || hidden % heads != 0 {
            return Err(LayoutError::Heads { heads, hidden });
        }
        if config.position_embedding_type != ABSOLUTE {
            return Err(LayoutError::NotBuilt {
                key: "position_embedding_type",
                found: config.position_embedding_type.clone(),
                known: &[ABSOLUTE],
            });
        }
        let first_position = match family {
            Family::Bert | Family::DistilBert => 0,
            // Their positions count from the one after the padding's.
            Family::Roberta | Family::Mpnet => config.pad_token_id.unwrap_or(1) + 1,
        };
        if config.max_position_embeddings <= first_position {
            return Err(LayoutError::Positions(config.max_position_embeddings));
        }
        let has_segments = matches!(family, Family::Bert | Family::Roberta);
        let buckets = config.relative_attention_num_buckets;
        Ok(Self {
            family,
            hidden,
            inner: config.intermediate_size,
            layers: config.num_hidden_layers,
            heads,
            vocabulary: config.vocab_size,
            position_rows: config.max_position_embeddings,
            first_position,
            segments: if has_segments {
                config.type_vocab_size
            } else {
                0
            },
            buckets: if family == Family::Mpnet { buckets } else { 0 },
            epsilon: config.layer_norm_eps,
            activation: activation(&config.hidden_act)?,
        })
    }

    /// How many tokens a text can have at most.
    pub(crate) fn positions(&self) -> usize {
        self.position_rows - self.first_position
    }

    /// What stands before all names in these weights.
    pub(crate) fn prefix(&self, weights: &Weights) -> &'static str {
        let prefix = self.family.prefix();
        if weights.contains(&format!("{prefix}{WORDS}")) {
            prefix
        } else {
            ""
        }
    }

    /// The name of a layer's tensors, but for `.weight` and `.bias`.
    pub(crate) fn name(&self, layer: usize, part: Part) -> String {
        let family = self.family;
        format!("{}.{layer}.{}", family.layers(), family.part(part))
    }

    /// Checks that all tensors are there, and are of the right shape.
    pub(crate) fn check(&self, weights: &Weights) -> Result<(), WeightsError> {
        let prefix = self.prefix(weights);
        let check = |name: &str, shape: &[usize]| weights.check(&format!("{prefix}{name}"), shape);
        check(WORDS, &[self.vocabulary, self.hidden])?;
        check(POSITIONS, &[self.position_rows, self.hidden])?;
        if self.segments > 0 {
            check(SEGMENTS, &[self.segments, self.hidden])?;
        }
        if self.buckets > 0 {
            check(DISTANCES, &[self.buckets, self.heads])?;
        }
        let (hidden, inner) = (self.hidden, self.inner);
        for layer in 0..self.layers {
            for (part, to, from) in [
                (Part::Query, hidden, hidden),
                (Part::Key, hidden, hidden),
                (Part::Value, hidden, hidden),
                (Part::Out, hidden, hidden),
                (Part::Up, inner, hidden),
                (Part::Down, hidden, inner),
            ] {
                let name = self.name(layer, part);
                check(&format!("{name}.weight"), &[to, from])?;
                check(&format!("{name}.bias"), &[to])?;
            }
        }
        Ok(())
    }
}

fn activation(name: &str) -> Result<Activation, LayoutError> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        _ => Err(LayoutError::NotBuilt {
            key: "hidden_act",
            found: name.to_owned(),
            known: &["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"],
        }),
    }
}

fn epsilon() -> f32 {
    1e-12
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn absolute() -> String {
    ABSOLUTE.to_owned()
}

fn buckets() -> usize {
    32
}
