//! Small BERTs with seeded weights, and folders that lack something.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A folder with a model of two layers that a test can spoil.
pub(crate) struct MadeUp {
    folder: TempDir,
}

const VOCABULARY: [&str; 8] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d"];
const HIDDEN: usize = 8;
const INNER: usize = 16;
const POSITIONS: usize = 16;

impl MadeUp {
    pub(crate) fn bert() -> Self {
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        made.write("config.json", &config());
        made.write("tokenizer.json", &tokenizer());
        fs::write(made.path().join("model.safetensors"), weights()).unwrap();
        made
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

    /// The same model with one entry of its `config.json` changed.
    pub(crate) fn configured(self, key: &str, value: impl Into<Value>) -> Self {
        let mut config = config();
        config[key] = value.into();
        self.write("config.json", &config);
        self
    }

    pub(crate) fn without(self, file: &str) -> Self {
        fs::remove_file(self.file(file)).unwrap();
        self
    }

    /// The model's weights with so many bytes missing at the end.
    pub(crate) fn cut_short_by(self, bytes: usize) -> Self {
        let whole = weights();
        fs::write(
            self.file("model.safetensors"),
            &whole[..whole.len() - bytes],
        )
        .unwrap();
        self
    }
}

fn config() -> Value {
    json!({
        "model_type": "bert",
        "vocab_size": VOCABULARY.len(),
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": INNER,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    })
}

fn tokenizer() -> Value {
    let vocabulary: Map<String, Value> = VOCABULARY
        .iter()
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), json!(id)))
        .collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
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

/// Name and shape of each tensor.
fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut all = vec![
        (
            "embeddings.word_embeddings.weight".to_owned(),
            vec![VOCABULARY.len(), HIDDEN],
        ),
        (
            "embeddings.position_embeddings.weight".to_owned(),
            vec![POSITIONS, HIDDEN],
        ),
        (
            "embeddings.token_type_embeddings.weight".to_owned(),
            vec![2, HIDDEN],
        ),
        ("embeddings.LayerNorm.weight".to_owned(), vec![HIDDEN]),
        ("embeddings.LayerNorm.bias".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..2 {
        for (name, to, from) in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ] {
            all.push((
                format!("encoder.layer.{layer}.{name}.weight"),
                vec![to, from],
            ));
            all.push((format!("encoder.layer.{layer}.{name}.bias"), vec![to]));
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            all.push((format!("encoder.layer.{layer}.{name}.weight"), vec![HIDDEN]));
            all.push((format!("encoder.layer.{layer}.{name}.bias"), vec![HIDDEN]));
        }
    }
    all
}

/// A safetensors file: length of the header, header, values.
fn weights() -> Vec<u8> {
    let (mut header, mut values) = (Map::new(), Vec::new());
    let mut seed = 1_u32;
    for (name, shape) in tensors() {
        let start = values.len();
        for _ in 0..shape.iter().product::<usize>() {
            // A linear congruential generator: the same values on every machine.
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (seed >> 8) as f32 / 16_777_216.0 - 0.5;
            values.extend(value.to_le_bytes());
        }
        let offsets = json!([start, values.len()]);
        header.insert(
            name,
            json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}),
        );
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(values);
    file
}
