//! Tiny models with pseudo-random weights, and incomplete copies of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A folder with a model of two layers, which a test can modify.
pub(crate) struct TinyModel {
    folder: TempDir,
}

const VOCABULARY: [&str; 8] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d"];
pub(crate) const HIDDEN: usize = 8;
pub(crate) const INNER: usize = 16;
pub(crate) const POSITIONS: usize = 16;
pub(crate) const LAYERS: usize = 2;
pub(crate) const HEADS: usize = 2;
pub(crate) const BUCKETS: usize = 32;
/// The epsilon of all layer norms. DistilBERT's files do not contain it.
pub(crate) const EPSILON: f64 = 1e-12;

impl TinyModel {
    pub(crate) fn bert() -> Self {
        Self::of("bert")
    }

    /// A model of the family with this `model_type`.
    pub(crate) fn of(model_type: &'static str) -> Self {
        let model = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        model.write("config.json", &config(model_type));
        model.write("tokenizer.json", &tokenizer());
        fs::write(model.path().join("model.safetensors"), weights(model_type)).unwrap();
        model
    }

    /// A model with a classification head, of the family with this `model_type` and with so many labels.
    pub(crate) fn classifier(model_type: &'static str, labels: usize) -> Self {
        let model = Self::of(model_type);
        let values = classifier_values(model_type, labels);
        fs::write(model.file("model.safetensors"), safetensors(values)).unwrap();
        model
    }

    /// A model with a head for masked words, of the family with this `model_type`. `has_words` says whether the words have vectors of
    /// their own, besides the word embeddings.
    pub(crate) fn masked_lm(model_type: &'static str, has_words: bool) -> Self {
        let model = Self::of(model_type);
        let values = masked_lm_values(model_type, has_words);
        fs::write(model.file("model.safetensors"), safetensors(values)).unwrap();
        model
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &Value) {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content.to_string()).unwrap();
    }

    /// Changes one entry of `config.json`.
    pub(crate) fn configured(self, key: &str, value: impl Into<Value>) -> Self {
        let mut config = config("bert");
        config[key] = value.into();
        self.write("config.json", &config);
        self
    }

    pub(crate) fn without(self, file: &str) -> Self {
        fs::remove_file(self.file(file)).unwrap();
        self
    }

    /// Removes bytes at the end of the weights.
    pub(crate) fn truncated_by(self, bytes: usize) -> Self {
        let whole = weights("bert");
        fs::write(
            self.file("model.safetensors"),
            &whole[..whole.len() - bytes],
        )
        .unwrap();
        self
    }
}

fn config(model_type: &str) -> Value {
    match model_type {
        "distilbert" => json!({
            "model_type": model_type, "vocab_size": VOCABULARY.len(), "dim": HIDDEN,
            "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER, "activation": "gelu",
            "max_position_embeddings": POSITIONS, "pad_token_id": 0,
        }),
        _ => json!({
            "model_type": model_type,
            "vocab_size": VOCABULARY.len(),
            "hidden_size": HIDDEN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "intermediate_size": INNER,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "max_position_embeddings": POSITIONS + first_position(model_type),
            "type_vocab_size": token_types(model_type),
            "initializer_range": 0.02,
            "layer_norm_eps": EPSILON,
            "pad_token_id": first_position(model_type).saturating_sub(1),
            "relative_attention_num_buckets": BUCKETS,
        }),
    }
}

/// The row of a text's first token among the position embeddings.
pub(crate) fn first_position(model_type: &str) -> usize {
    match model_type {
        "roberta" | "xlm-roberta" | "mpnet" => 2,
        _ => 0,
    }
}

/// Number of token types.
pub(crate) fn token_types(model_type: &str) -> usize {
    match model_type {
        "bert" => 2,
        "roberta" | "xlm-roberta" => 1,
        _ => 0,
    }
}

/// The names of a layer's parts: query, key, value, attention output, attention norm, MLP up, MLP down, MLP norm.
pub(crate) fn names(model_type: &str, layer: usize) -> [String; 8] {
    let (layers, names) = match model_type {
        "distilbert" => (
            "transformer.layer",
            "attention.q_lin attention.k_lin attention.v_lin attention.out_lin sa_layer_norm \
             ffn.lin1 ffn.lin2 output_layer_norm",
        ),
        "mpnet" => (
            "encoder.layer",
            "attention.attn.q attention.attn.k attention.attn.v attention.attn.o \
             attention.LayerNorm intermediate.dense output.dense output.LayerNorm",
        ),
        _ => (
            "encoder.layer",
            "attention.self.query attention.self.key attention.self.value \
             attention.output.dense attention.output.LayerNorm intermediate.dense output.dense \
             output.LayerNorm",
        ),
    };
    let mut names = names.split_whitespace();
    std::array::from_fn(|_| format!("{layers}.{layer}.{}", names.next().unwrap()))
}

fn tokenizer() -> Value {
    let vocabulary: Map<String, Value> = VOCABULARY
        .iter()
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), json!(id)))
        .collect();
    let special = |word: &str| {
        json!({
            "id": vocabulary[word], "content": word, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [special("[CLS]"), special("[SEP]")],
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]
        },
        "decoder": null,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary
        }
    })
}

/// The name and shape of each tensor.
fn tensors(model_type: &str) -> Vec<(String, Vec<usize>)> {
    let embeddings = |name: &str| format!("embeddings.{name}.weight");
    let positions = POSITIONS + first_position(model_type);
    let mut all = vec![
        (
            embeddings("word_embeddings"),
            vec![VOCABULARY.len(), HIDDEN],
        ),
        (embeddings("position_embeddings"), vec![positions, HIDDEN]),
    ];
    if token_types(model_type) > 0 {
        let shape = vec![token_types(model_type), HIDDEN];
        all.push((embeddings("token_type_embeddings"), shape));
    }
    if model_type == "mpnet" {
        let name = "encoder.relative_attention_bias.weight";
        all.push((name.to_owned(), vec![BUCKETS, HEADS]));
    }
    let mut with_bias = |name: String, weight: Vec<usize>, to| {
        all.push((format!("{name}.weight"), weight));
        all.push((format!("{name}.bias"), vec![to]));
    };
    with_bias("embeddings.LayerNorm".to_owned(), vec![HIDDEN], HIDDEN);
    for layer in 0..LAYERS {
        let [query, key, value, out, out_norm, up, down, down_norm] = names(model_type, layer);
        for name in [query, key, value, out] {
            with_bias(name, vec![HIDDEN, HIDDEN], HIDDEN);
        }
        with_bias(up, vec![INNER, HIDDEN], INNER);
        with_bias(down, vec![HIDDEN, INNER], HIDDEN);
        for name in [out_norm, down_norm] {
            with_bias(name, vec![HIDDEN], HIDDEN);
        }
    }
    all
}

/// The names of the linear layers of a classification head.
pub(crate) fn head_names(model_type: &str) -> [&'static str; 2] {
    match model_type {
        "bert" => ["bert.pooler.dense", "classifier"],
        "distilbert" => ["pre_classifier", "classifier"],
        _ => ["classifier.dense", "classifier.out_proj"],
    }
}

/// The prefix of the encoder's tensors in a file with a head.
pub(crate) fn prefix(model_type: &str) -> &str {
    match model_type {
        "xlm-roberta" => "roberta",
        other => other,
    }
}

/// The name, shape and values of each tensor of a model with a classification head.
pub(crate) fn classifier_values(model_type: &str, labels: usize) -> Vec<TensorValues> {
    let prefixed = |(name, shape)| (format!("{}.{name}", prefix(model_type)), shape);
    let mut all: Vec<_> = tensors(model_type).into_iter().map(prefixed).collect();
    let [hidden, label] = head_names(model_type);
    for (name, outputs) in [(hidden, HIDDEN), (label, labels)] {
        all.push((format!("{name}.weight"), vec![outputs, HIDDEN]));
        all.push((format!("{name}.bias"), vec![outputs]));
    }
    filled(all)
}

/// The names of a head for masked words: the linear layer, the layer norm, the vectors of the words, and their bias.
pub(crate) fn masked_lm_names(model_type: &str) -> [&'static str; 4] {
    match model_type {
        "bert" => [
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.decoder.weight",
            "cls.predictions.bias",
        ],
        "distilbert" => [
            "vocab_transform",
            "vocab_layer_norm",
            "vocab_projector.weight",
            "vocab_projector.bias",
        ],
        _ => [
            "lm_head.dense",
            "lm_head.layer_norm",
            "lm_head.decoder.weight",
            "lm_head.bias",
        ],
    }
}

/// The name, shape and values of each tensor of a model with a head for masked words.
pub(crate) fn masked_lm_values(model_type: &str, has_words: bool) -> Vec<TensorValues> {
    let prefixed = |(name, shape)| (format!("{}.{name}", prefix(model_type)), shape);
    let mut all: Vec<_> = tensors(model_type).into_iter().map(prefixed).collect();
    let [transform, norm, words, bias] = masked_lm_names(model_type);
    all.push((format!("{transform}.weight"), vec![HIDDEN, HIDDEN]));
    all.push((format!("{transform}.bias"), vec![HIDDEN]));
    all.push((format!("{norm}.weight"), vec![HIDDEN]));
    all.push((format!("{norm}.bias"), vec![HIDDEN]));
    all.push((bias.to_owned(), vec![VOCABULARY.len()]));
    if has_words {
        all.push((words.to_owned(), vec![VOCABULARY.len(), HIDDEN]));
    }
    filled(all)
}

/// The name, shape and values of a tensor.
pub(crate) type TensorValues = (String, Vec<usize>, Vec<f32>);

/// The name, shape and values of each tensor.
pub(crate) fn values(model_type: &str) -> Vec<TensorValues> {
    filled(tensors(model_type))
}

/// Gives tensors pseudo-random values.
fn filled(tensors: Vec<(String, Vec<usize>)>) -> Vec<TensorValues> {
    let mut seed = 1_u32;
    let mut next = |_| {
        // A linear congruential generator: the same values on every machine.
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / 16_777_216.0 - 0.5
    };
    let fill = |(name, shape): (String, Vec<usize>)| {
        let values = (0..shape.iter().product()).map(&mut next).collect();
        (name, shape, values)
    };
    tensors.into_iter().map(fill).collect()
}

fn weights(model_type: &str) -> Vec<u8> {
    safetensors(values(model_type))
}

/// A safetensors file: the length of the header, the header, and the values.
fn safetensors(tensors: Vec<TensorValues>) -> Vec<u8> {
    let (mut header, mut bytes) = (Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = bytes.len();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let offsets = json!([start, bytes.len()]);
        header.insert(
            name,
            json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}),
        );
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}
