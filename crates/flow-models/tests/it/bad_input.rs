//! What is wrong with a model or an option is said clearly, before anything is computed.

use std::fs;
use std::num::NonZeroUsize;

use flow_core::Chain;
use flow_models::source::{self, Environment};
use flow_models::{Device, Encoder, EncoderOptions};
use serde_json::{Value, json};

use crate::tiny_model::TinyModel;

/// Loading from `made` with options `with` fails and says all `parts`.
#[track_caller]
fn check_with(made: &TinyModel, options: &EncoderOptions, parts: &[&str]) {
    let opened = Device::Cpu.open(NonZeroUsize::MIN).unwrap();
    let folder = made.path().to_str().unwrap();
    let error = match source::pull(folder, None, &nowhere(), &mut ()) {
        Err(error) => Chain(&error).to_string(),
        Ok(folder) => {
            Chain(&Encoder::load(&folder, options, opened).expect_err("it should fail")).to_string()
        }
    };
    for part in parts {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

/// The same with default options.
#[track_caller]
fn check(made: &TinyModel, parts: &[&str]) {
    check_with(made, &EncoderOptions::default(), parts);
}

/// An environment without any model.
fn nowhere() -> Environment {
    let variables = [("HOME", "/nonexistent"), ("HF_HUB_OFFLINE", "1")];
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
    Environment::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn a_made_up_model_loads_so_that_the_failures_below_mean_something() {
    let made = TinyModel::bert();
    let encoder = crate::load(made.path(), &EncoderOptions::default());
    let vectors = encoder.encode(&["a b", "c"], None).unwrap();
    assert_eq!((vectors.width(), vectors.rows().len()), (8, 2));
}

#[test]
fn weights_of_other_dimensions_are_refused_by_name() {
    let wanted = [
        "`embeddings.word_embeddings.weight`",
        "[8, 8]",
        "[8, 12]",
        "different models",
    ];
    check(
        &TinyModel::bert().configured("hidden_size", 12),
        &wanted,
    );
    let wanted = [
        "`encoder.layer.0.intermediate.dense.weight`",
        "[16, 8]",
        "[32, 8]",
    ];
    check(
        &TinyModel::bert().configured("intermediate_size", 32),
        &wanted,
    );
}

#[test]
fn a_missing_layer_is_refused_by_name() {
    let wanted = ["no tensor `encoder.layer.2.attention.self.query.weight`"];
    check(
        &TinyModel::bert().configured("num_hidden_layers", 3),
        &wanted,
    );
}

#[test]
fn heads_that_do_not_divide_the_width_are_refused() {
    let wanted = ["`num_attention_heads` is 3", "`hidden_size` is 8"];
    check(
        &TinyModel::bert().configured("num_attention_heads", 3),
        &wanted,
    );
}

#[test]
fn half_a_download_is_noticed_at_every_length() {
    for bytes in [1, 100, 4000] {
        check(
            &TinyModel::bert().cut_short_by(bytes),
            &["half a download"],
        );
    }
    let empty = TinyModel::bert();
    fs::write(empty.file("model.safetensors"), "").unwrap();
    check(&empty, &["not a safetensors file", "empty"]);
}

#[test]
fn what_is_no_safetensors_file_is_refused() {
    let made = TinyModel::bert();
    fs::write(
        made.file("model.safetensors"),
        "version https://git-lfs.github.com/spec/v1",
    )
    .unwrap();
    check(&made, &["not a safetensors file"]);
}

#[test]
fn another_family_is_refused_and_those_there_are_named() {
    let wanted = ["not a BERT", "`t5`", "`bert`"];
    check(
        &TinyModel::bert().configured("model_type", "t5"),
        &wanted,
    );
    check(
        &TinyModel::bert().configured("model_type", Value::Null),
        &["not a BERT"],
    );
}

#[test]
fn a_missing_file_is_named() {
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        check(
            &TinyModel::bert().without(file),
            &[&format!("has no `{file}`")],
        );
    }
    let made = TinyModel::bert().without("tokenizer.json");
    fs::write(made.file("vocab.txt"), "").unwrap();
    check(
        &made,
        &["has no `tokenizer.json`", "save_pretrained"],
    );
}

#[test]
fn files_that_say_nonsense_are_named() {
    for file in [
        "config.json",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
    ] {
        let made = TinyModel::bert();
        let steps = json!([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]);
        made.write("modules.json", &steps);
        made.write(file, &json!("nonsense"));
        check(&made, &[file]);
    }
}

fn max_length(tokens: usize) -> EncoderOptions {
    EncoderOptions {
        max_length: NonZeroUsize::new(tokens),
        ..EncoderOptions::default()
    }
}

#[test]
fn options_that_do_not_go_with_the_model_are_refused() {
    let made = TinyModel::bert();
    check_with(&made, &max_length(17), &["`max_length` is 17", "16 tokens"]);
    check_with(
        &made,
        &max_length(2),
        &["`max_length` is 2", "special tokens"],
    );
    let dimensions = EncoderOptions {
        dimensions: NonZeroUsize::new(9),
        ..EncoderOptions::default()
    };
    check_with(&made, &dimensions, &["`dimensions` is 9", "have 8"]);
    let prompt = EncoderOptions {
        prompt_name: Some("query".to_owned()),
        ..EncoderOptions::default()
    };
    check_with(&made, &prompt, &["`query`", "it has none"]);
    made.write(
        "config_sentence_transformers.json",
        &json!({"prompts": {"doc": "d: "}}),
    );
    check_with(&made, &prompt, &["`query`", "it has `doc`"]);
}

#[test]
fn a_model_that_does_not_exist_is_looked_for_everywhere_and_each_place_is_named() {
    let error = source::pull("no-one/nothing", None, &here_only(), &mut ()).unwrap_err();
    let error = Chain(&error).to_string();
    for part in [
        "`no-one/nothing`",
        "`main`",
        "Hugging Face cache",
        "hub",
        "HF_HUB_OFFLINE",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let error = source::pull("./no/such/folder", None, &nowhere(), &mut ()).unwrap_err();
    assert!(
        Chain(&error).to_string().contains("there is no folder"),
        "{error}"
    );
}

/// Like [`nowhere`], but with a place to keep a lock.
fn here_only() -> Environment {
    let folder = std::env::temp_dir().join("flow-no-models");
    Environment {
        flow_cache: folder,
        ..nowhere()
    }
}
