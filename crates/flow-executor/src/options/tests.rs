//! Options are read as serde reads them, and all problems are found at once.

use std::num::NonZeroUsize;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct With {
    #[serde(alias = "model_name")]
    model: String,
    batch_size: Option<NonZeroUsize>,
    top_k: u16,
    shift: i64,
    ratio: f32,
    on: bool,
    engine: Engine,
    names: Vec<String>,
    inner: Inner,
    device: Device,
    any: Value,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Engine {
    #[default]
    Flow,
    Candle,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Inner {
    depth: usize,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Device;

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "cpu" => Ok(Self),
            _ => Err(format!("`{text}` is not a device; there is `cpu`")),
        }
    }
}

fn parsed<T: DeserializeOwned>(with: &Value) -> Result<T, Vec<String>> {
    parse(with.as_object().unwrap().clone()).map_err(|bad: BadOptions| {
        let said = |bad: &BadOption| format!("{}: {bad}", bad.key.as_deref().unwrap_or("-"));
        bad.0.iter().map(said).collect()
    })
}

#[track_caller]
fn check_refused(with: &Value, expected: &[&str]) {
    let found: Result<With, _> = parsed(with);
    assert_eq!(found.unwrap_err(), expected, "{with}");
}

#[test]
fn values_are_read_as_serde_json_reads_them() {
    let with = json!({
        "model_name": "m", "batch_size": 3, "top_k": 7, "shift": -2, "ratio": 2, "on": true,
        "engine": "candle", "names": ["a", "b"], "inner": {"depth": 1}, "device": "cpu",
        "any": {"a": [1, null, {"b": 2.5}]},
    });
    let found: With = parsed(&with).unwrap();
    assert_eq!(found, serde_json::from_value(with).unwrap());
    let nothing: With = parsed(&json!({"batch_size": null})).unwrap();
    assert_eq!(nothing, With::default());
}

#[test]
fn expected_types_are_described_without_rust_terms() {
    let check = |with: Value, expected: &str| check_refused(&with, &[expected]);
    let at_least_1 = "batch_size: must be a whole number of at least 1, is";
    check(
        json!({"batch_size": "x"}),
        &format!("{at_least_1} the text `x`"),
    );
    check(json!({"batch_size": 0}), &format!("{at_least_1} `0`"));
    check(json!({"batch_size": -1}), &format!("{at_least_1} `-1`"));
    check(json!({"batch_size": 2.0}), &format!("{at_least_1} `2.0`"));
    check(json!({"batch_size": [1]}), &format!("{at_least_1} a list"));
    check(
        json!({"top_k": 65536}),
        "top_k: must be a whole number from 0 to 65535, is `65536`",
    );
    check(
        json!({"shift": "x"}),
        "shift: must be a whole number, is the text `x`",
    );
    check(
        json!({"ratio": {}}),
        "ratio: must be a number, is a mapping",
    );
    check(
        json!({"on": "yes"}),
        "on: must be `true` or `false`, is the text `yes`",
    );
    check(json!({"model": 5}), "model: must be a text, is `5`");
    check(json!({"model": null}), "model: must be a text, is empty");
    check(
        json!({"names": "a"}),
        "names: must be a list, is the text `a`",
    );
    check(json!({"inner": 1}), "inner: must be a mapping, is `1`");
    check(
        json!({"inner": {"depth": -1}}),
        "inner: `depth` must be a whole number of at least 0, is `-1`",
    );
    check(
        json!({"engine": "candel"}),
        "engine: must be `flow` or `candle`, is `candel`; did you mean `candle`?",
    );
    check(
        json!({"engine": 1}),
        "engine: must be `flow` or `candle`, is `1`",
    );
    check(
        json!({"device": "tpu"}),
        "device: `tpu` is not a device; there is `cpu`",
    );
}

#[test]
fn an_unknown_option_is_reported_with_the_known_ones() {
    check_refused(
        &json!({"batchsize": 3}),
        &["batchsize: `batchsize` is not an option of this executor; did you mean `batch_size`?"],
    );
    let found: Result<Inner, _> = parsed(&json!({"x": 1}));
    let said = "x: `x` is not an option of this executor; its options are `depth`";
    assert_eq!(found.unwrap_err(), [said]);
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    let found: Result<Nothing, _> = parsed(&json!({"x": 1}));
    let said = "x: `x` is not an option of this executor; it takes no options";
    assert_eq!(found.unwrap_err(), [said]);
}

#[test]
fn everything_that_is_wrong_is_found_in_the_order_of_the_options() {
    check_refused(
        &json!({"batch_size": "x", "model": "m", "onn": true, "engine": "torch", "model_name": "n"}),
        &[
            "batch_size: must be a whole number of at least 1, is the text `x`",
            "onn: `onn` is not an option of this executor; did you mean `on`?",
            "engine: must be `flow` or `candle`, is `torch`",
            "model_name: means `model`, which is given too; keep one of them",
        ],
    );
}

#[test]
fn a_missing_required_option_is_reported_unless_its_value_was_invalid() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        model: String,
    }
    let check = |with: Value, expected: &[&str]| {
        let found: Result<Strict, _> = parsed(&with);
        assert_eq!(found.unwrap_err(), expected, "{with}");
    };
    check(json!({}), &["-: `model` is missing"]);
    check(json!({"model": 1}), &["model: must be a text, is `1`"]);
    check(
        json!({"modle": "m"}),
        &[
            "modle: `modle` is not an option of this executor; did you mean `model`?",
            "-: `model` is missing",
        ],
    );
}

#[test]
fn several_are_shown_below_each_other() {
    let found: Result<With, _> = parse(
        json!({"on": 1, "batch_size": 0})
            .as_object()
            .unwrap()
            .clone(),
    );
    assert_eq!(
        found.unwrap_err().to_string(),
        "\n  on          must be `true` or `false`, is `1`\
         \n  batch_size  must be a whole number of at least 1, is `0`"
    );
}

#[test]
fn what_may_be_a_secret_is_not_quoted() {
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Login {
        #[allow(dead_code, reason = "it is only read")]
        api_key: u16,
        #[allow(dead_code, reason = "it is only read")]
        device_token: Device,
        #[allow(dead_code, reason = "it is only read")]
        place: u16,
    }
    for with in [
        json!({"api_key": "hunter2"}),
        json!({"device_token": "hunter2"}),
        json!({"place": "redis://user:hunter2@host"}),
    ] {
        let said = parsed::<Login>(&with).unwrap_err().join("; ");
        assert!(!said.contains("hunter2"), "{said}");
        assert!(said.contains("may be a secret"), "{said}");
    }
}
