//! Errors of invalid models and options are clear, and come before anything is computed.

use std::fs;
use std::num::NonZeroUsize;

use flow_core::Chain;
use flow_models::source::{self, SourceEnvironment};
use flow_models::{DeviceSpec, EncoderOptions, TextEncoder};
use serde_json::{Value, json};

use crate::tiny_model::TinyModel;

/// Loading must fail with an error that contains all `parts`.
#[track_caller]
fn check_with(model: &TinyModel, options: &EncoderOptions, parts: &[&str]) {
    let opened = DeviceSpec::Cpu.open(NonZeroUsize::MIN).unwrap();
    let folder = model.path().to_str().unwrap();
    let error = match source::pull(folder, None, &empty_environment(), &mut ()) {
        Err(error) => Chain(&error).to_string(),
        Ok(folder) => {
            Chain(&TextEncoder::load(&folder, options, opened).expect_err("it should fail"))
                .to_string()
        }
    };
    for part in parts {
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    }
}

/// As [`check_with`], with default options.
#[track_caller]
fn check(model: &TinyModel, parts: &[&str]) {
    check_with(model, &EncoderOptions::default(), parts);
}

/// An environment without models.
fn empty_environment() -> SourceEnvironment {
    let variables = [("HOME", "/nonexistent"), ("HF_HUB_OFFLINE", "1")];
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
    SourceEnvironment::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn a_valid_tiny_model_loads() {
    let model = TinyModel::bert();
    let encoder = crate::load(model.path(), &EncoderOptions::default());
    let vectors = encoder.encode(&["a b", "c"], None).unwrap();
    assert_eq!((vectors.width(), vectors.rows().len()), (8, 2));
}

#[test]
fn tensors_of_another_shape_are_refused_by_name() {
    let expected = [
        "`embeddings.word_embeddings.weight`",
        "[8, 8]",
        "[8, 12]",
        "different models",
    ];
    check(&TinyModel::bert().configured("hidden_size", 12), &expected);
    let expected = [
        "`encoder.layer.0.intermediate.dense.weight`",
        "[16, 8]",
        "[32, 8]",
    ];
    check(
        &TinyModel::bert().configured("intermediate_size", 32),
        &expected,
    );
}

#[test]
fn a_missing_layer_is_refused_by_name() {
    let expected = ["no tensor `encoder.layer.2.attention.self.query.weight`"];
    check(
        &TinyModel::bert().configured("num_hidden_layers", 3),
        &expected,
    );
}

#[test]
fn heads_that_do_not_divide_the_hidden_size_are_refused() {
    let expected = ["`num_attention_heads` is 3", "`hidden_size` is 8"];
    check(
        &TinyModel::bert().configured("num_attention_heads", 3),
        &expected,
    );
}

#[test]
fn a_truncated_download_is_detected_at_any_length() {
    for bytes in [1, 100, 4000] {
        check(&TinyModel::bert().truncated_by(bytes), &["half a download"]);
    }
    let empty = TinyModel::bert();
    fs::write(empty.file("model.safetensors"), "").unwrap();
    check(&empty, &["not a safetensors file", "empty"]);
}

#[test]
fn a_file_that_is_not_safetensors_is_refused() {
    let model = TinyModel::bert();
    fs::write(
        model.file("model.safetensors"),
        "version https://git-lfs.github.com/spec/v1",
    )
    .unwrap();
    check(&model, &["not a safetensors file"]);
}

#[test]
fn an_unsupported_family_is_refused_with_the_supported_ones() {
    let expected = ["unsupported model family", "`t5`", "`bert`"];
    check(&TinyModel::bert().configured("model_type", "t5"), &expected);
    check(
        &TinyModel::bert().configured("model_type", Value::Null),
        &["unsupported model family"],
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
    let model = TinyModel::bert().without("tokenizer.json");
    fs::write(model.file("vocab.txt"), "").unwrap();
    check(&model, &["has no `tokenizer.json`", "save_pretrained"]);
}

#[test]
fn invalid_files_are_named() {
    for file in [
        "config.json",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
    ] {
        let model = TinyModel::bert();
        let modules =
            json!([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]);
        model.write("modules.json", &modules);
        model.write(file, &json!("nonsense"));
        check(&model, &[file]);
    }
}

fn max_length(tokens: usize) -> EncoderOptions {
    EncoderOptions {
        max_length: NonZeroUsize::new(tokens),
        ..EncoderOptions::default()
    }
}

#[test]
fn options_that_do_not_suit_the_model_are_refused() {
    let model = TinyModel::bert();
    check_with(
        &model,
        &max_length(17),
        &["`max_length` is 17", "16 tokens"],
    );
    check_with(
        &model,
        &max_length(2),
        &["`max_length` is 2", "special tokens"],
    );
    let dimensions = EncoderOptions {
        dimensions: NonZeroUsize::new(9),
        ..EncoderOptions::default()
    };
    check_with(&model, &dimensions, &["`dimensions` is 9", "have 8"]);
    let prompt = EncoderOptions {
        prompt_name: Some("query".to_owned()),
        ..EncoderOptions::default()
    };
    check_with(&model, &prompt, &["`query`", "it has none"]);
    model.write(
        "config_sentence_transformers.json",
        &json!({"prompts": {"doc": "d: "}}),
    );
    check_with(&model, &prompt, &["`query`", "it has `doc`"]);
}

#[test]
fn the_error_for_a_missing_model_names_every_source() {
    let error = source::pull("no-one/nothing", None, &with_lock_folder(), &mut ()).unwrap_err();
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
    let error = source::pull("./no/such/folder", None, &empty_environment(), &mut ()).unwrap_err();
    assert!(
        Chain(&error).to_string().contains("there is no folder"),
        "{error}"
    );
}

/// Like [`empty_environment`], with a folder for the lock.
fn with_lock_folder() -> SourceEnvironment {
    let folder = std::env::temp_dir().join("flow-no-models");
    SourceEnvironment {
        flow_cache: folder,
        ..empty_environment()
    }
}
