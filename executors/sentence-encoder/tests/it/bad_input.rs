//! What is wrong with a model or an option is said clearly, before anything is computed.

use std::fs;
use std::num::NonZeroUsize;

use flow_core::Chain;
use sentence_encoder::source::{self, Environment};
use sentence_encoder::{Device, Encoder, With};
use serde_json::{Value, json};

use crate::made_up::MadeUp;

/// Loading from `made` with options `with` fails and says all `parts`.
#[track_caller]
fn check(made: &MadeUp, with: Value, parts: &[&str]) {
    let with: With = serde_json::from_value(with).unwrap();
    let opened = Device::Cpu.open(NonZeroUsize::MIN).unwrap();
    let folder = made.path().to_str().unwrap();
    let error = match source::pull(folder, None, &nowhere(), &mut ()) {
        Err(error) => Chain(&error).to_string(),
        Ok(folder) => {
            Chain(&Encoder::load(&folder, &with, opened).expect_err("it should fail")).to_string()
        }
    };
    for part in parts {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

/// An environment without any model.
fn nowhere() -> Environment {
    let variables = [("HOME", "/nonexistent"), ("HF_HUB_OFFLINE", "1")];
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
    Environment::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn a_made_up_model_loads_so_that_the_failures_below_mean_something() {
    let made = MadeUp::bert();
    let encoder = crate::load(made.path(), &With::default());
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
        &MadeUp::bert().configured("hidden_size", 12),
        json!({}),
        &wanted,
    );
    let wanted = [
        "`encoder.layer.0.intermediate.dense.weight`",
        "[16, 8]",
        "[32, 8]",
    ];
    check(
        &MadeUp::bert().configured("intermediate_size", 32),
        json!({}),
        &wanted,
    );
}

#[test]
fn a_missing_layer_is_refused_by_name() {
    let wanted = ["no tensor `encoder.layer.2.attention.self.query.weight`"];
    check(
        &MadeUp::bert().configured("num_hidden_layers", 3),
        json!({}),
        &wanted,
    );
}

#[test]
fn heads_that_do_not_divide_the_width_are_refused() {
    let wanted = ["`num_attention_heads` is 3", "`hidden_size` is 8"];
    check(
        &MadeUp::bert().configured("num_attention_heads", 3),
        json!({}),
        &wanted,
    );
}

#[test]
fn half_a_download_is_noticed_at_every_length() {
    for bytes in [1, 100, 4000] {
        check(
            &MadeUp::bert().cut_short_by(bytes),
            json!({}),
            &["half a download"],
        );
    }
    let empty = MadeUp::bert();
    fs::write(empty.file("model.safetensors"), "").unwrap();
    check(&empty, json!({}), &["not a safetensors file", "empty"]);
}

#[test]
fn what_is_no_safetensors_file_is_refused() {
    let made = MadeUp::bert();
    fs::write(
        made.file("model.safetensors"),
        "version https://git-lfs.github.com/spec/v1",
    )
    .unwrap();
    check(&made, json!({}), &["not a safetensors file"]);
}

#[test]
fn another_family_is_refused_and_those_there_are_named() {
    let wanted = ["not a BERT", "`t5`", "`bert`"];
    check(
        &MadeUp::bert().configured("model_type", "t5"),
        json!({}),
        &wanted,
    );
    check(
        &MadeUp::bert().configured("model_type", Value::Null),
        json!({}),
        &["not a BERT"],
    );
}

#[test]
fn a_missing_file_is_named() {
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        check(
            &MadeUp::bert().without(file),
            json!({}),
            &[&format!("has no `{file}`")],
        );
    }
    let made = MadeUp::bert().without("tokenizer.json");
    fs::write(made.file("vocab.txt"), "").unwrap();
    check(
        &made,
        json!({}),
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
        let made = MadeUp::bert();
        let steps = json!([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]);
        made.write("modules.json", &steps);
        made.write(file, &json!("nonsense"));
        check(&made, json!({}), &[file]);
    }
}

#[test]
fn options_that_do_not_go_with_the_model_are_refused() {
    let made = MadeUp::bert();
    check(
        &made,
        json!({"max_length": 17}),
        &["`max_length` is 17", "16 tokens"],
    );
    check(
        &made,
        json!({"max_length": 2}),
        &["`max_length` is 2", "special tokens"],
    );
    check(
        &made,
        json!({"dimensions": 9}),
        &["`dimensions` is 9", "have 8"],
    );
    check(
        &made,
        json!({"prompt_name": "query"}),
        &["`query`", "it has none"],
    );
    made.write(
        "config_sentence_transformers.json",
        &json!({"prompts": {"doc": "d: "}}),
    );
    check(
        &made,
        json!({"prompt_name": "query"}),
        &["`query`", "it has `doc`"],
    );
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
