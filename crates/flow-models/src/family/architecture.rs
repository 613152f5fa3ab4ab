//! The architecture of a model, as its `config.json` describes it, and the names of its tensors.
//!
//! BERT (Devlin et al., 2019), RoBERTa (Liu et al., 2019), DistilBERT (Sanh et al., 2019) and MPNet (Song et al., 2020)
//! compute the same layers. They differ in names, in the embeddings that they add, and in the position of the first token.

use flow_kernels::Activation;
use serde::Deserialize;

use crate::weights::{WeightsError, WeightsFile};

/// A model family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelFamily {
    Bert,
    DistilBert,
    Roberta,
    Mpnet,
}

/// The relevant part of `config.json`. The aliases are those of DistilBERT.
#[derive(Debug, Deserialize)]
pub(crate) struct ConfigFile {
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

/// A model's architecture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Architecture {
    pub(crate) family: ModelFamily,
    /// Values of a hidden state.
    pub(crate) hidden_size: usize,
    /// Values of the intermediate state of a layer's MLP.
    pub(crate) intermediate_size: usize,
    /// Number of layers.
    pub(crate) layers: usize,
    /// Number of attention heads of a layer.
    pub(crate) heads: usize,
    /// Number of token ids.
    pub(crate) vocab_size: usize,
    /// Rows of the position embeddings.
    pub(crate) position_rows: usize,
    /// The row of a text's first token among the position embeddings.
    pub(crate) first_position: usize,
    /// Rows of the token type embeddings. 0 means that the model has none.
    pub(crate) token_types: usize,
    /// Buckets of the relative position bias. 0 means that the model has none.
    pub(crate) position_buckets: usize,
    /// Added to the variance in layer norms.
    pub(crate) epsilon: f32,
    /// Activation of the intermediate state.
    pub(crate) activation: Activation,
}

/// A linear layer or layer norm of a transformer layer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LayerPart {
    Query,
    Key,
    Value,
    AttentionOutput,
    AttentionNorm,
    MlpUp,
    MlpDown,
    MlpNorm,
}

/// The activation of a classification head's hidden layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClassificationActivation {
    /// `max(x, 0)`.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
}

/// Names of the tensors of a head for masked words.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaskedLmNames {
    /// The linear layer, without `.weight` or `.bias`.
    pub(super) transform: &'static str,
    /// The layer norm, without `.weight` or `.bias`.
    pub(super) norm: &'static str,
    /// The vectors of the words. Without it, they are the word embeddings.
    pub(super) words: &'static str,
    /// A value for each word.
    pub(super) bias: &'static str,
}

/// An architecture that is invalid or unsupported.
#[derive(Debug, thiserror::Error)]
pub enum ArchitectureError {
    /// The heads do not divide the hidden size.
    #[error(
        "`num_attention_heads` is {heads}, which does not divide `hidden_size`; `hidden_size` is {hidden_size}"
    )]
    Heads {
        /// Number of heads.
        heads: usize,
        /// Values of a hidden state.
        hidden_size: usize,
    },
    /// A setting that is not supported.
    #[error("`{key}` is `{found}`, which is not supported yet; supported are `{}`", .supported.join("`, `"))]
    Unsupported {
        /// The setting.
        key: &'static str,
        /// Its value.
        found: String,
        /// The supported values.
        supported: &'static [&'static str],
    },
    /// There is no position for a token.
    #[error("`max_position_embeddings` is {0}, which leaves no position for a token")]
    Positions(usize),
}

pub(crate) const WORD_EMBEDDINGS: &str = "embeddings.word_embeddings.weight";
pub(crate) const POSITION_EMBEDDINGS: &str = "embeddings.position_embeddings.weight";
pub(crate) const TOKEN_TYPE_EMBEDDINGS: &str = "embeddings.token_type_embeddings.weight";
pub(crate) const EMBEDDINGS_NORM: &str = "embeddings.LayerNorm";
pub(crate) const POSITION_BIAS: &str = "encoder.relative_attention_bias.weight";

const ABSOLUTE: &str = "absolute";

impl ModelFamily {
    /// The family of a `model_type` in `config.json`.
    pub(crate) fn from_model_type(model_type: &str) -> Option<Self> {
        match model_type {
            "bert" => Some(Self::Bert),
            "distilbert" => Some(Self::DistilBert),
            "roberta" | "xlm-roberta" => Some(Self::Roberta),
            "mpnet" => Some(Self::Mpnet),
            _ => None,
        }
    }

    /// Prefix of tensor names in checkpoints of models with a head. Checkpoints of plain encoders have none.
    fn prefix(self) -> &'static str {
        match self {
            Self::Bert => "bert.",
            Self::DistilBert => "distilbert.",
            Self::Roberta => "roberta.",
            Self::Mpnet => "mpnet.",
        }
    }

    /// Names of the two linear layers that turn the first token's hidden state into scores, without `.weight` or `.bias`.
    pub(super) fn classification(self) -> [&'static str; 2] {
        match self {
            Self::Bert => ["bert.pooler.dense", "classifier"],
            Self::DistilBert => ["pre_classifier", "classifier"],
            Self::Roberta | Self::Mpnet => ["classifier.dense", "classifier.out_proj"],
        }
    }

    /// The activation between these layers.
    pub(crate) fn classification_activation(self) -> ClassificationActivation {
        match self {
            Self::DistilBert => ClassificationActivation::Relu,
            Self::Bert | Self::Roberta | Self::Mpnet => ClassificationActivation::Tanh,
        }
    }

    /// Names of the head for masked words.
    pub(super) fn masked_lm(self) -> MaskedLmNames {
        let [transform, norm, words, bias] = match self {
            Self::Bert => [
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
                "cls.predictions.decoder.weight",
                "cls.predictions.bias",
            ],
            Self::DistilBert => [
                "vocab_transform",
                "vocab_layer_norm",
                "vocab_projector.weight",
                "vocab_projector.bias",
            ],
            Self::Roberta | Self::Mpnet => [
                "lm_head.dense",
                "lm_head.layer_norm",
                "lm_head.decoder.weight",
                "lm_head.bias",
            ],
        };
        MaskedLmNames {
            transform,
            norm,
            words,
            bias,
        }
    }

    /// Name of the list of layers.
    fn layers(self) -> &'static str {
        match self {
            Self::DistilBert => "transformer.layer",
            Self::Bert | Self::Roberta | Self::Mpnet => "encoder.layer",
        }
    }

    /// Name of a part within a layer.
    fn part(self, part: LayerPart) -> &'static str {
        match (self, part) {
            (Self::DistilBert, LayerPart::Query) => "attention.q_lin",
            (Self::DistilBert, LayerPart::Key) => "attention.k_lin",
            (Self::DistilBert, LayerPart::Value) => "attention.v_lin",
            (Self::DistilBert, LayerPart::AttentionOutput) => "attention.out_lin",
            (Self::DistilBert, LayerPart::AttentionNorm) => "sa_layer_norm",
            (Self::DistilBert, LayerPart::MlpUp) => "ffn.lin1",
            (Self::DistilBert, LayerPart::MlpDown) => "ffn.lin2",
            (Self::DistilBert, LayerPart::MlpNorm) => "output_layer_norm",
            (Self::Mpnet, LayerPart::Query) => "attention.attn.q",
            (Self::Mpnet, LayerPart::Key) => "attention.attn.k",
            (Self::Mpnet, LayerPart::Value) => "attention.attn.v",
            (Self::Mpnet, LayerPart::AttentionOutput) => "attention.attn.o",
            (Self::Mpnet, LayerPart::AttentionNorm) => "attention.LayerNorm",
            (_, LayerPart::Query) => "attention.self.query",
            (_, LayerPart::Key) => "attention.self.key",
            (_, LayerPart::Value) => "attention.self.value",
            (_, LayerPart::AttentionOutput) => "attention.output.dense",
            (_, LayerPart::AttentionNorm) => "attention.output.LayerNorm",
            (_, LayerPart::MlpUp) => "intermediate.dense",
            (_, LayerPart::MlpDown) => "output.dense",
            (_, LayerPart::MlpNorm) => "output.LayerNorm",
        }
    }
}

impl Architecture {
    /// The architecture that `config.json` describes.
    ///
    /// # Errors
    ///
    /// If it is invalid or unsupported.
    pub(crate) fn new(family: ModelFamily, config: &ConfigFile) -> Result<Self, ArchitectureError> {
        let (heads, hidden_size) = (config.num_attention_heads, config.hidden_size);
        if heads == 0 || hidden_size == 0 || hidden_size % heads != 0 {
            return Err(ArchitectureError::Heads { heads, hidden_size });
        }
        if config.position_embedding_type != ABSOLUTE {
            return Err(ArchitectureError::Unsupported {
                key: "position_embedding_type",
                found: config.position_embedding_type.clone(),
                supported: &[ABSOLUTE],
            });
        }
        let first_position = match family {
            ModelFamily::Bert | ModelFamily::DistilBert => 0,
            // The first position follows that of the padding token.
            ModelFamily::Roberta | ModelFamily::Mpnet => config.pad_token_id.unwrap_or(1) + 1,
        };
        if config.max_position_embeddings <= first_position {
            return Err(ArchitectureError::Positions(config.max_position_embeddings));
        }
        let has_token_types = matches!(family, ModelFamily::Bert | ModelFamily::Roberta);
        let buckets = config.relative_attention_num_buckets;
        Ok(Self {
            family,
            hidden_size,
            intermediate_size: config.intermediate_size,
            layers: config.num_hidden_layers,
            heads,
            vocab_size: config.vocab_size,
            position_rows: config.max_position_embeddings,
            first_position,
            token_types: if has_token_types {
                config.type_vocab_size
            } else {
                0
            },
            position_buckets: if family == ModelFamily::Mpnet {
                buckets
            } else {
                0
            },
            epsilon: config.layer_norm_eps,
            activation: activation(&config.hidden_act)?,
        })
    }

    /// The activation of the head for masked words.
    pub(crate) fn masked_lm_activation(&self) -> Activation {
        match self.family {
            ModelFamily::Bert | ModelFamily::DistilBert => self.activation,
            ModelFamily::Roberta | ModelFamily::Mpnet => Activation::Gelu,
        }
    }

    /// Maximum tokens of a text.
    pub(crate) fn max_tokens(&self) -> usize {
        self.position_rows - self.first_position
    }

    /// Prefix of all tensor names in these weights.
    pub(crate) fn prefix(&self, weights: &WeightsFile) -> &'static str {
        let prefix = self.family.prefix();
        if weights.contains(&format!("{prefix}{WORD_EMBEDDINGS}")) {
            prefix
        } else {
            ""
        }
    }

    /// Name of a part of a layer, without `.weight` or `.bias`.
    pub(crate) fn part_name(&self, layer: usize, part: LayerPart) -> String {
        let family = self.family;
        format!("{}.{layer}.{}", family.layers(), family.part(part))
    }

    /// Checks that all tensors exist and have the expected shapes.
    ///
    /// # Errors
    ///
    /// If one is missing or has another shape or an unsupported data type.
    pub(crate) fn check(&self, weights: &WeightsFile) -> Result<(), WeightsError> {
        let prefix = self.prefix(weights);
        let check = |name: &str, shape: &[usize]| weights.check(&format!("{prefix}{name}"), shape);
        check(WORD_EMBEDDINGS, &[self.vocab_size, self.hidden_size])?;
        check(POSITION_EMBEDDINGS, &[self.position_rows, self.hidden_size])?;
        if self.token_types > 0 {
            check(TOKEN_TYPE_EMBEDDINGS, &[self.token_types, self.hidden_size])?;
        }
        if self.position_buckets > 0 {
            check(POSITION_BIAS, &[self.position_buckets, self.heads])?;
        }
        let (hidden, intermediate) = (self.hidden_size, self.intermediate_size);
        for layer in 0..self.layers {
            for (part, outputs, inputs) in [
                (LayerPart::Query, hidden, hidden),
                (LayerPart::Key, hidden, hidden),
                (LayerPart::Value, hidden, hidden),
                (LayerPart::AttentionOutput, hidden, hidden),
                (LayerPart::MlpUp, intermediate, hidden),
                (LayerPart::MlpDown, hidden, intermediate),
            ] {
                let name = self.part_name(layer, part);
                check(&format!("{name}.weight"), &[outputs, inputs])?;
                check(&format!("{name}.bias"), &[outputs])?;
            }
        }
        Ok(())
    }

    /// Checks that the tensors of a classification head exist and have the expected shapes, and returns the number of its
    /// labels.
    ///
    /// # Errors
    ///
    /// If one is missing or has another shape or an unsupported data type.
    pub(crate) fn check_classification(
        &self,
        weights: &WeightsFile,
    ) -> Result<usize, WeightsError> {
        let [hidden, labels] = self.family.classification();
        let size = self.hidden_size;
        weights.check(&format!("{hidden}.weight"), &[size, size])?;
        weights.check(&format!("{hidden}.bias"), &[size])?;
        let name = format!("{labels}.weight");
        let count = weights.shape(&name)?.first().copied().unwrap_or(0);
        weights.check(&name, &[count, size])?;
        weights.check(&format!("{labels}.bias"), &[count])?;
        Ok(count)
    }
}

fn activation(name: &str) -> Result<Activation, ArchitectureError> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        _ => Err(ArchitectureError::Unsupported {
            key: "hidden_act",
            found: name.to_owned(),
            supported: &["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"],
        }),
    }
}

// Defaults of `config.json`, as in the transformers library.

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
