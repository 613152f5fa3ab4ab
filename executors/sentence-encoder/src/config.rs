//! What stands under `uses_with:`, and which of it makes no sense.

use std::num::NonZeroUsize;

use flow_core::AccessPaths;
use flow_kernels::InstructionSet;
use flow_models::source::DEFAULT_MODEL;
use flow_models::{Device, EncoderOptions, EngineName, PoolingMode, Precision};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The options of the sentence encoder. Names of Jina's TransformerTorchEncoder are understood too.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct With {
    /// A folder, or a name on the Hugging Face hub.
    #[serde(
        alias = "pretrained_model_name_or_path",
        alias = "model_name",
        alias = "model_name_or_path"
    )]
    pub model: String,

    /// A branch, tag or commit of the model; `main` if not given.
    pub revision: Option<String>,

    /// `cpu`, `cuda`, `cuda:0`, `cuda:all`, `gpu`, or `auto`.
    pub device: Device,

    /// How token states become one vector; what the model's own files say if not given.
    #[serde(alias = "pooling_strategy")]
    pub pooling: Option<PoolingMode>,

    /// Whether vectors get the length 1; what the model's own files say if not given.
    #[serde(alias = "normalize_embeddings")]
    pub normalize: Option<bool>,

    /// Most tokens of a text that are read, special ones included; the model's own limit if not given.
    #[serde(alias = "max_seq_length")]
    pub max_length: Option<NonZeroUsize>,

    /// Most tokens, with padding, that go through the model together. It bounds memory and has no
    /// influence on the vectors. If not given: 2048 on the processor; on a GPU, what its memory has room for.
    pub batch_tokens: Option<NonZeroUsize>,

    /// Most texts that go through the model together. It has no influence on the vectors either. If not given: 64 on
    /// the processor; on a GPU, as many as `batch_tokens` allows.
    #[serde(alias = "default_batch_size")]
    pub batch_size: Option<NonZeroUsize>,

    /// The numbers that are computed with. If not given: 32-bit floats on the processor, because vectors are the same
    /// on every machine then, so that an index that one has made can be searched from another; half precision on a GPU.
    pub precision: Option<Precision>,

    /// What computes.
    pub engine: EngineName,

    /// The best instructions that may be used, such as `avx2`; all that the machine has if not given.
    #[serde(deserialize_with = "back_end")]
    pub back_end: Option<InstructionSet>,

    /// Which documents are encoded, such as `@r`, `@c` or `@r,c`.
    #[serde(
        alias = "traversal_paths",
        alias = "default_traversal_paths",
        alias = "default_access_paths"
    )]
    pub access_paths: AccessPaths,

    /// Put before each text, such as `query: `. The model's default prompt if not given.
    pub prompt: Option<String>,

    /// A prompt of the model's own, by the name it has there.
    pub prompt_name: Option<String>,

    /// Keeps only so many values of a vector (Matryoshka), and normalises after that.
    #[serde(alias = "truncate_dim")]
    pub dimensions: Option<NonZeroUsize>,

    /// How many threads compute; one for each core if not given.
    #[serde(alias = "num_threads")]
    pub threads: Option<NonZeroUsize>,

    /// Of TransformerTorchEncoder; only the model's own tokenizer is used.
    pub base_tokenizer_model: Option<String>,

    /// Of TransformerTorchEncoder; only the last layer, -1, can be used.
    pub layer_index: i64,

    /// Of TransformerTorchEncoder; only `__call__` can be used.
    pub embedding_fn_name: String,
}

impl Default for With {
    fn default() -> Self {
        Self {
            model: DEFAULT_MODEL.to_owned(),
            revision: None,
            device: Device::default(),
            pooling: None,
            normalize: None,
            max_length: None,
            batch_tokens: None,
            batch_size: None,
            precision: None,
            engine: EngineName::default(),
            back_end: None,
            access_paths: AccessPaths::default(),
            prompt: None,
            prompt_name: None,
            dimensions: None,
            threads: None,
            base_tokenizer_model: None,
            layer_index: -1,
            embedding_fn_name: CALL.to_owned(),
        }
    }
}

/// The name under which Python calls a model itself.
const CALL: &str = "__call__";

fn back_end<'de, D: Deserializer<'de>>(text: D) -> Result<Option<InstructionSet>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    let parse = |text: String| text.parse().map_err(D::Error::custom);
    text.map(parse).transpose()
}

/// An option makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// A layer other than the last.
    #[error("`layer_index` is {0}, but only the last layer, -1, can be used")]
    Layer(i64),
    /// A way to call the model that only Python has.
    #[error("`embedding_fn_name` is `{0}`, but only `{CALL}` can be used")]
    Function(String),
    /// A tokenizer of another model.
    #[error(
        "`base_tokenizer_model` is `{tokenizer}`, but only the tokenizer of `{model}` itself can be used"
    )]
    Tokenizer {
        /// What was asked for.
        tokenizer: String,
        /// The model.
        model: String,
    },
    /// Two prompts.
    #[error("`prompt` and `prompt_name` are both given; give one of them")]
    Prompts,
}

impl With {
    /// Finds what cannot be done whatever the model is.
    ///
    /// # Errors
    ///
    /// If there is such an option.
    pub fn check(&self) -> Result<(), BadOption> {
        if self.layer_index != -1 {
            return Err(BadOption::Layer(self.layer_index));
        }
        if self.embedding_fn_name != CALL {
            return Err(BadOption::Function(self.embedding_fn_name.clone()));
        }
        if self.prompt.is_some() && self.prompt_name.is_some() {
            return Err(BadOption::Prompts);
        }
        match &self.base_tokenizer_model {
            Some(tokenizer) if *tokenizer != self.model => Err(BadOption::Tokenizer {
                tokenizer: tokenizer.clone(),
                model: self.model.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The options of the text encoder among them.
    #[must_use]
    pub fn encoder_options(&self) -> EncoderOptions {
        EncoderOptions {
            device: self.device,
            pooling: self.pooling,
            normalize: self.normalize,
            max_length: self.max_length,
            dimensions: self.dimensions,
            prompt: self.prompt.clone(),
            prompt_name: self.prompt_name.clone(),
            engine: self.engine,
            precision: self.precision,
            back_end: self.back_end,
            threads: self.threads,
            batch_tokens: self.batch_tokens,
            batch_size: self.batch_size,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(with: Value) -> Result<With, String> {
        let with: With = serde_json::from_value(with).map_err(|error| error.to_string())?;
        with.check().map_err(|error| error.to_string())?;
        Ok(with)
    }

    #[track_caller]
    fn check_refused(with: Value, parts: &[&str]) {
        let error = parse(with).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{error:?} does not say {part:?}");
        }
    }

    #[test]
    fn no_options_are_fine() {
        assert_eq!(parse(json!({})), Ok(With::default()));
    }

    #[test]
    fn options_of_the_torch_encoder_are_understood() {
        let with = parse(json!({
            "pretrained_model_name_or_path": "a/b",
            "base_tokenizer_model": "a/b",
            "pooling_strategy": "cls",
            "layer_index": -1,
            "max_length": 128,
            "embedding_fn_name": "__call__",
            "device": "cpu",
            "num_threads": 1,
            "default_traversal_paths": ["r", "c"],
            "default_batch_size": 16,
        }));
        let with = with.unwrap();
        assert_eq!(with.model, "a/b");
        assert_eq!(with.pooling, Some(PoolingMode::Cls));
        assert_eq!(with.access_paths, "@r,c".parse().unwrap());
        assert_eq!(with.batch_size.map(NonZeroUsize::get), Some(16));
    }

    #[test]
    fn what_cannot_be_done_is_named_with_what_can() {
        check_refused(
            json!({"modle": "a/b"}),
            &["unknown field `modle`", "`model`"],
        );
        check_refused(json!({"pooling": "meen"}), &["`meen`", "`mean`", "`cls`"]);
        check_refused(json!({"device": "tpu"}), &["`tpu`", "`cpu`"]);
        check_refused(
            json!({"precision": "int8"}),
            &["`int8`", "not built yet", "`f32`", "`bf16`", "`f16`"],
        );
        check_refused(json!({"precision": "f8"}), &["`f8`", "`f32`"]);
        check_refused(
            json!({"engine": "torch"}),
            &["`torch`", "`flow`", "`candle`"],
        );
        check_refused(
            json!({"back_end": "sse"}),
            &["`sse`", "`avx2`", "`portable`"],
        );
        check_refused(json!({"layer_index": -2}), &["-2", "last layer"]);
        check_refused(
            json!({"embedding_fn_name": "encode"}),
            &["`encode`", "`__call__`"],
        );
        check_refused(
            json!({"base_tokenizer_model": "x"}),
            &["`x`", "all-MiniLM-L6-v2"],
        );
        check_refused(json!({"prompt": "a", "prompt_name": "b"}), &["one of them"]);
        check_refused(json!({"access_paths": "@x"}), &["`@x`", "`@r`"]);
        check_refused(json!({"batch_tokens": 0}), &["nonzero"]);
    }
}
