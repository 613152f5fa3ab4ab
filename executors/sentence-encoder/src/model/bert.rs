//! BERT as candle-transformers has it, in 32-bit floats on the CPU.
//!
//! Texts of one length go through without a mask and without padding; the caller sorts by length, so
//! that this is the common case. Otherwise short texts are padded, and the mask keeps the padding out
//! of the attention.

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use candle_transformers::models::bert::{BertModel, Config};

use super::weights::{Weights, WeightsError};
use super::{ForwardError, States, TokenBatch};

/// A loaded BERT.
pub struct Bert {
    model: BertModel,
    width: usize,
    positions: usize,
}

impl Bert {
    /// Loads the weights, after a look at all their names and shapes.
    ///
    /// # Errors
    ///
    /// If a tensor is not there, has another shape than `config` says, or cannot be read.
    pub fn load(config: &Config, weights: Weights) -> Result<Self, BertError> {
        let (heads, hidden) = (config.num_attention_heads, config.hidden_size);
        if heads == 0 || hidden % heads != 0 {
            return Err(BertError::Heads { heads, hidden });
        }
        let prefix = prefix(&weights);
        for (name, shape) in tensors(config) {
            weights.check(&format!("{prefix}{name}"), &shape)?;
        }
        let reader = VarBuilder::from_backend(Box::new(Reader(weights)), DType::F32, Device::Cpu);
        let reader = if prefix.is_empty() {
            reader
        } else {
            reader.pp(prefix.trim_end_matches('.'))
        };
        // candle looks for the prefix of the family itself, under names that our reader does not list.
        let model = BertModel::load(reader, config).map_err(BertError::Candle)?;
        let (width, positions) = (config.hidden_size, config.max_position_embeddings);
        Ok(Self {
            model,
            width,
            positions,
        })
    }

    /// How many values a token's state has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many tokens a text can have at most.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// The states of all tokens after the last layer.
    ///
    /// # Errors
    ///
    /// If candle cannot compute them.
    pub fn forward(&self, batch: &TokenBatch) -> Result<States, ForwardError> {
        let (texts, stride) = (batch.lengths.len(), batch.longest());
        let ids = Tensor::from_vec(batch.padded_ids(), (texts, stride), &Device::Cpu)?;
        // One text at a time has one segment, whose number is 0.
        let segments = ids.zeros_like()?;
        let mask = if batch.is_even() {
            None
        } else {
            Some(mask(batch, stride)?)
        };
        let states = self.model.forward(&ids, &segments, mask.as_ref())?;
        let values = states.flatten_all()?.to_vec1()?;
        Ok(States {
            values,
            stride,
            width: self.width,
        })
    }
}

/// Why a BERT could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum BertError {
    /// Its weights are not what they should be.
    #[error(transparent)]
    Weights(#[from] WeightsError),
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
    /// candle refuses them.
    #[error("candle cannot build the model")]
    Candle(#[source] candle_core::Error),
}

fn mask(batch: &TokenBatch, stride: usize) -> candle_core::Result<Tensor> {
    let row = |length: usize| (0..stride).map(move |at| u32::from(at < length));
    let mask: Vec<u32> = batch
        .lengths
        .iter()
        .flat_map(|&length| row(length))
        .collect();
    Tensor::from_vec(mask, (batch.lengths.len(), stride), &Device::Cpu)
}

/// What stands before the names: nothing in an encoder's checkpoint, `bert.` in those with a head.
fn prefix(weights: &Weights) -> &'static str {
    if weights.contains("bert.embeddings.word_embeddings.weight") {
        "bert."
    } else {
        ""
    }
}

/// Name and shape of each tensor that a BERT of these dimensions has.
fn tensors(config: &Config) -> Vec<(String, Vec<usize>)> {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let mut all = vec![
        (
            "embeddings.word_embeddings.weight".to_owned(),
            vec![config.vocab_size, hidden],
        ),
        (
            "embeddings.position_embeddings.weight".to_owned(),
            vec![config.max_position_embeddings, hidden],
        ),
        (
            "embeddings.token_type_embeddings.weight".to_owned(),
            vec![config.type_vocab_size, hidden],
        ),
    ];
    let linear = [
        ("attention.self.query", hidden, hidden),
        ("attention.self.key", hidden, hidden),
        ("attention.self.value", hidden, hidden),
        ("attention.output.dense", hidden, hidden),
        ("intermediate.dense", inner, hidden),
        ("output.dense", hidden, inner),
    ];
    for layer in 0..config.num_hidden_layers {
        for (name, to, from) in linear {
            all.push((
                format!("encoder.layer.{layer}.{name}.weight"),
                vec![to, from],
            ));
            all.push((format!("encoder.layer.{layer}.{name}.bias"), vec![to]));
        }
    }
    all
}

/// Lets candle ask for tensors by name, and gives each out as it is read.
struct Reader(Weights);

impl SimpleBackend for Reader {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.0
            .check(name, shape.dims())
            .map_err(candle_core::Error::wrap)?;
        let values = self.0.read(name).map_err(candle_core::Error::wrap)?;
        Tensor::from_vec(values, shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        Err(candle_core::Error::CannotFindTensor {
            path: name.to_owned(),
        })
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl std::fmt::Debug for Bert {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bert")
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}
