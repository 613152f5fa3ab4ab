//! Calls the executor as the runtime does.

use std::fs;

use flow_core::{DocArrayVersion, Document, DocumentArray, EmbeddingType};
use flow_executor::testing::{Loaded, load};
use sentence_encoder::SentenceEncoder;
use serde_json::{Map, Value, json};

use crate::tiny_model::TinyModel;

fn loaded(model: &TinyModel, mut config: Value) -> Loaded {
    config["model"] = json!(model.path());
    load::<SentenceEncoder>(&config).unwrap()
}

fn encode(loaded: &Loaded, docs: Vec<Document>, parameters: Value) -> Vec<Document> {
    let Value::Object(parameters) = parameters else {
        panic!("parameters are objects")
    };
    let docs = docs.into_iter().collect();
    loaded
        .call_with("/encode", docs, parameters)
        .unwrap()
        .into_iter()
        .collect()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max)
}

fn vector(document: &Document) -> Vec<f32> {
    document
        .embedding()
        .expect("an embedding")
        .to_f32()
        .unwrap()
}

#[test]
fn documents_of_both_docarray_versions_get_vectors_and_keep_the_rest() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let mut document = Document::of_version(version);
        document.set_text("a b c");
        let before = document.clone();
        let after = encode(&encoder, vec![document], json!({}));
        assert_eq!(after[0].embedding().unwrap().shape(), [8]);
        assert_eq!(after[0].embedding().unwrap().data_type().as_str(), "<f4");
        assert_eq!(
            (after[0].id(), after[0].text()),
            (before.id(), before.text())
        );
    }
}

#[test]
fn vectors_have_the_type_that_the_request_or_the_flow_asks_for() {
    let encoder = loaded(&TinyModel::bert(), json!({"embedding_type": "int8"}));
    let text = |version| {
        let mut document = Document::of_version(version);
        document.set_text("a b c");
        document
    };
    let floats = {
        let parameters = json!({"embedding_type": "f32"});
        let after = encode(&encoder, vec![text(DocArrayVersion::V1)], parameters);
        vector(&after[0])
    };
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        for (parameters, expected) in [
            (json!({}), EmbeddingType::Int8),
            (json!({"embedding_type": "f16"}), EmbeddingType::F16),
            (json!({"embedding_type": "uint8"}), EmbeddingType::Uint8),
            (json!({"embedding_type": "binary"}), EmbeddingType::Binary),
            (json!({"embedding_type": "ubinary"}), EmbeddingType::Ubinary),
        ] {
            let after = encode(&encoder, vec![text(version)], parameters.clone());
            let found = after[0].embedding().unwrap();
            assert_eq!(found, expected.encode(&floats), "{version:?} {parameters}");
        }
    }
}

#[test]
fn documents_without_a_text_are_returned_unchanged() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    let empty = Document::new();
    let docs = vec![empty.clone(), Document::from_text("a"), empty.clone()];
    let after = encode(&encoder, docs, json!({}));
    assert_eq!((&after[0], &after[2]), (&empty, &empty));
    assert!(after[1].embedding().is_some());
    assert_eq!(encode(&encoder, Vec::new(), json!({})), Vec::new());
}

#[test]
fn access_paths_select_documents_and_a_request_can_override_them() {
    let family = || {
        let mut root = Document::from_text("a");
        root.chunks_mut().unwrap().push(Document::from_text("b"));
        root
    };
    let encoder = loaded(&TinyModel::bert(), json!({"access_paths": "@c"}));
    for (parameters, root, chunk) in [
        (json!({}), false, true),
        (json!({"access_paths": "@r,c"}), true, true),
        (
            json!({"traversal_paths": ["r"], "batch_size": 1}),
            true,
            false,
        ),
    ] {
        let mut after = encode(&encoder, vec![family()], parameters.clone());
        let has = after[0].embedding().is_some();
        let chunk_has = after[0].chunks_mut().unwrap()[0].embedding().is_some();
        assert_eq!((has, chunk_has), (root, chunk), "{parameters}");
    }
}

#[test]
fn an_invalid_parameter_is_named_in_the_error() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    for (name, value) in [
        ("access_paths", json!("@x")),
        ("batch_size", json!(0)),
        ("embedding_type", json!("int4")),
    ] {
        let parameters = Map::from_iter([(name.to_owned(), value)]);
        let docs = DocumentArray::from_iter([Document::from_text("a")]);
        let failure = encoder.call_with("/encode", docs, parameters).unwrap_err();
        assert!(failure.to_string().contains(name), "{failure}");
    }
}

#[test]
fn an_unknown_parameter_is_refused_at_every_endpoint() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    for endpoint in ["/encode", "/index"] {
        let parameters = Map::from_iter([("batchsize".to_owned(), json!(1))]);
        let docs = DocumentArray::from_iter([Document::from_text("a")]);
        let failure = encoder.call_with(endpoint, docs, parameters).unwrap_err();
        let expected =
            format!("`{endpoint}` accepts no parameter `batchsize`; did you mean `batch_size`?");
        assert_eq!(failure.message(), expected);
    }
}

#[test]
fn dimensions_truncate_the_vector_before_normalization() {
    let model = TinyModel::bert();
    let whole = vector(
        &encode(
            &loaded(&model, json!({})),
            vec![Document::from_text("a b")],
            json!({}),
        )[0],
    );
    let cut = loaded(&model, json!({"dimensions": 4, "normalize": true}));
    let cut = vector(&encode(&cut, vec![Document::from_text("a b")], json!({}))[0]);
    let length = whole[..4]
        .iter()
        .map(|value| value * value)
        .sum::<f32>()
        .sqrt();
    let expected: Vec<f32> = whole[..4].iter().map(|value| value / length).collect();
    assert!(largest_difference(&cut, &expected) < 1e-6);
}

#[test]
fn a_prompt_is_put_before_each_text() {
    let model = TinyModel::bert();
    model.write(
        "config_sentence_transformers.json",
        &json!({"prompts": {"query": "c d "}}),
    );
    let plain = loaded(&model, json!({}));
    let expected = vector(&encode(&plain, vec![Document::from_text("c d a")], json!({}))[0]);
    for config in [json!({"prompt": "c d "}), json!({"prompt_name": "query"})] {
        let prompted = loaded(&model, config);
        let actual = vector(&encode(&prompted, vec![Document::from_text("a")], json!({}))[0]);
        assert_eq!(actual, expected);
    }
}

#[test]
fn a_request_can_choose_one_of_the_models_prompts() {
    let model = TinyModel::bert();
    model.write(
        "config_sentence_transformers.json",
        &json!({"prompts": {"query": "c d ", "passage": "b "}, "default_prompt_name": "passage"}),
    );
    let pooling = json!({"word_embedding_dimension": 8, "pooling_mode_mean_tokens": true, "include_prompt": false});
    let modules = json!([
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]);
    for pools_prompt in [true, false] {
        if !pools_prompt {
            model.write("modules.json", &modules);
            model.write("1_Pooling/config.json", &pooling);
        }
        for cache in [false, true] {
            let both = loaded(&model, json!({"cache": cache}));
            let query = loaded(&model, json!({"prompt_name": "query"}));
            let texts = || vec![Document::from_text("a"), Document::from_text("a b")];
            let chosen = encode(&both, texts(), json!({"prompt_name": "query"}));
            let expected = encode(&query, texts(), json!({}));
            let default = encode(&both, texts(), json!({}));
            for at in 0..2 {
                assert_eq!(
                    vector(&chosen[at]),
                    vector(&expected[at]),
                    "{pools_prompt} {cache}"
                );
                assert_ne!(
                    vector(&chosen[at]),
                    vector(&default[at]),
                    "{pools_prompt} {cache}"
                );
            }
            let again = encode(&both, texts(), json!({"prompt_name": "query"}));
            assert_eq!(vector(&again[0]), vector(&expected[0]));
        }
    }
}

#[test]
fn a_prompt_that_the_model_does_not_have_is_the_fault_of_the_request() {
    let model = TinyModel::bert();
    for (prompts, part) in [
        (json!({}), "it has none"),
        (json!({"query": "c "}), "it has `query`"),
    ] {
        model.write(
            "config_sentence_transformers.json",
            &json!({"prompts": prompts}),
        );
        let encoder = loaded(&model, json!({}));
        let docs = [Document::from_text("a")].into_iter().collect();
        let parameters = Map::from_iter([("prompt_name".to_owned(), json!("passage"))]);
        let error = encoder.call_with("/encode", docs, parameters).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("no prompt `passage`") && error.contains(part),
            "{error}"
        );
    }
}

#[test]
fn max_length_truncates_a_text_and_keeps_its_last_special_token() {
    let model = TinyModel::bert();
    let short = loaded(&model, json!({"max_length": 4}));
    let actual = vector(&encode(&short, vec![Document::from_text("a b c d")], json!({}))[0]);
    let whole = loaded(&model, json!({}));
    let expected = vector(&encode(&whole, vec![Document::from_text("a b")], json!({}))[0]);
    assert_eq!(actual, expected);
}

#[test]
fn the_models_pooling_applies_unless_the_user_sets_another() {
    let model = TinyModel::bert();
    let modules = json!([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]);
    model.write("modules.json", &modules);
    model.write(
        "1_Pooling/config.json",
        &json!({"pooling_mode_cls_token": true}),
    );
    let vector_with = |config: Value| {
        vector(
            &encode(
                &loaded(&model, config),
                vec![Document::from_text("a b")],
                json!({}),
            )[0],
        )
    };
    assert_eq!(
        vector_with(json!({})),
        vector_with(json!({"pooling": "cls"}))
    );
    assert!(
        largest_difference(
            &vector_with(json!({})),
            &vector_with(json!({"pooling": "mean"}))
        ) > 1e-3
    );
}

#[test]
fn loading_fails_if_the_device_is_not_available() {
    let model = TinyModel::bert();
    let config = json!({"model": model.path(), "device": "cuda:0"});
    let error = load::<SentenceEncoder>(&config)
        .err()
        .expect("no GPU is available")
        .to_string();
    assert!(
        error.contains("`cuda:0`") && error.contains("`cpu`"),
        "{error}"
    );
}

#[test]
fn facts_include_the_device_and_the_dimensions() {
    let encoder = loaded(&TinyModel::bert(), json!({"device": "auto"}));
    assert_eq!(encoder.facts()["device"], "cpu");
    assert_eq!(encoder.facts()["dimensions"], "8");
}

#[test]
fn tokens_count_special_ones_and_not_what_is_cut_off() {
    let encoder = loaded(&TinyModel::bert(), json!({"max_length": 4}));
    let tokens = |texts: &[&str]| {
        let docs = texts.iter().map(|text| Document::from_text(text)).collect();
        let usage = encoder.usage("/encode", docs).unwrap();
        usage.map(|it| it.tokens)
    };
    assert_eq!(tokens(&["a"]), Some(3));
    assert_eq!(tokens(&["a", "a b"]), Some(7));
    assert_eq!(tokens(&["a b c d"]), Some(4));
    assert_eq!(tokens(&[""]), Some(0));
}

#[test]
fn a_request_can_ask_for_vectors_of_another_length_and_refuse_truncation() {
    let encoder = loaded(&TinyModel::bert(), json!({"max_length": 4}));
    let length = |parameters| {
        let document = Document::from_text("a b");
        let vector = vector(&encode(&encoder, vec![document], parameters)[0]);
        vector.iter().map(|value| value * value).sum::<f32>().sqrt()
    };
    assert!((length(json!({"normalize": true})) - 1.0).abs() < 1e-6);
    assert!((length(json!({"normalize": false})) - 1.0).abs() > 1e-3);
    let parameters = Map::from_iter([("truncate".to_owned(), json!(false))]);
    let docs = ["a b", "a b c"].map(Document::from_text);
    let failure = encoder.call_with("/encode", docs.into_iter().collect(), parameters);
    let message = failure.unwrap_err().to_string();
    assert!(
        message.contains("a text has more than 4 tokens, the most that the model reads: `a b c…`"),
        "{message}"
    );
}

#[test]
fn texts_become_tokens_and_tokens_texts() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    let docs = DocumentArray::from_iter([Document::from_text("a b")]);
    let tokens = encoder.call("/to_tokens", docs).unwrap()[0].tags()["tokens"].clone();
    let tokens = tokens.as_array().unwrap();
    assert_eq!(tokens.len(), 4);
    assert_eq!(
        (&tokens[0]["special"], &tokens[1]["start"]),
        (&json!(true), &json!(0))
    );
    let ids: Vec<&Value> = tokens.iter().map(|token| &token["id"]).collect();
    let mut document = Document::new();
    document.set_tags(&Map::from_iter([("ids".to_owned(), json!(ids))]));
    let texts = encoder
        .call("/from_tokens", DocumentArray::from_iter([document]))
        .unwrap();
    assert_eq!(texts[0].text(), "a b");
}

#[test]
fn the_vectors_of_tokens_are_a_matrix() {
    let encoder = loaded(
        &TinyModel::bert(),
        json!({"pooling": "cls", "normalize": false}),
    );
    let docs = || DocumentArray::from_iter(["a b", "", "c"].map(Document::from_text));
    let vectors = encoder.call("/encode", docs()).unwrap();
    let matrices = encoder.call("/token_vectors", docs()).unwrap();
    for (place, rows) in [(0, 4), (2, 3)] {
        let matrix = matrices[place].embedding().unwrap();
        assert_eq!(matrix.shape(), [rows, 8]);
        let first = &matrix.to_f32().unwrap()[..8];
        assert_eq!(first, vector(&vectors[place]));
    }
    assert!(matrices[1].embedding().is_none());
}

#[test]
fn a_text_that_is_too_long_loses_its_end_or_its_beginning() {
    let encoder = loaded(&TinyModel::bert(), json!({"max_length": 5}));
    for endpoint in ["/encode", "/token_vectors"] {
        let vectors = |text: &str, parameters: Value| {
            let docs = [Document::from_text(text)].into_iter().collect();
            let parameters = parameters.as_object().unwrap().clone();
            let replied = encoder.call_with(endpoint, docs, parameters).unwrap();
            replied[0].embedding().unwrap()
        };
        let (long, plain) = ("a b c d", json!({}));
        let left = json!({"truncation_direction": "left"});
        let right = json!({"truncation_direction": "right"});
        assert_eq!(
            vectors(long, plain.clone()),
            vectors("a b c", plain.clone())
        );
        assert_eq!(vectors(long, right), vectors("a b c", plain.clone()));
        assert_eq!(vectors(long, left), vectors("b c d", plain));
    }
}

#[test]
fn a_cache_keeps_the_vectors_of_a_text_that_is_cut_at_either_side_apart() {
    let model = TinyModel::bert();
    let [plain, cached] = [json!({}), json!({"cache": true})].map(|mut config| {
        config["max_length"] = json!(5);
        loaded(&model, config)
    });
    for direction in ["right", "left", "right", "left"] {
        let encode = |encoder: &Loaded| {
            let docs = vec![Document::from_text("a b c d")];
            vector(&encode(encoder, docs, json!({"truncation_direction": direction}))[0])
        };
        assert_eq!(encode(&cached), encode(&plain), "{direction}");
    }
}

#[test]
fn vectors_of_tokens_may_have_a_prompt_and_a_text_that_is_too_long_may_be_refused() {
    let model = TinyModel::bert();
    let prompts = json!({"prompts": {"query": "c d "}});
    model.write("config_sentence_transformers.json", &prompts);
    let encoder = loaded(&model, json!({"max_length": 5}));
    let call = |text: &str, parameters: Value| {
        let docs = [Document::from_text(text)].into_iter().collect();
        encoder.call_with(
            "/token_vectors",
            docs,
            parameters.as_object().unwrap().clone(),
        )
    };
    let prompted = call("a", json!({"prompt_name": "query"})).unwrap();
    let whole = call("c d a", json!({})).unwrap();
    assert_eq!(prompted[0].embedding(), whole[0].embedding());
    let error = call("a b c d", json!({"truncate": false})).unwrap_err();
    assert_eq!(error.code(), flow_core::Code::BadRequest);
    assert!(error.message().contains("more than 5 tokens"), "{error}");
}

/// What a call is refused with.
fn refusal(loaded: &Loaded, endpoint: &str, docs: Vec<Document>) -> String {
    let refused = loaded.call(endpoint, docs.into_iter().collect());
    let failure = refused.unwrap_err();
    assert_eq!(failure.code(), flow_core::Code::BadRequest);
    failure.message().to_owned()
}

#[test]
fn texts_that_are_too_long_are_refused_before_they_are_tokenized() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    let expected =
        "the texts of one call have more than 262144 bytes; send them in several requests";
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let text = |bytes: usize| {
            let mut document = Document::of_version(version);
            document.set_text("x".repeat(bytes));
            document
        };
        for (docs, is_refused) in [
            (vec![text(256 << 10)], false),
            (vec![text((256 << 10) + 1)], true),
            (vec![text(200 << 10), text(100 << 10)], true),
        ] {
            if is_refused {
                assert_eq!(refusal(&encoder, "/to_tokens", docs), expected);
            } else {
                encoder
                    .call("/to_tokens", docs.into_iter().collect())
                    .unwrap();
            }
        }
    }
}

#[test]
fn the_tokens_of_one_call_are_limited() {
    let encoder = loaded(&TinyModel::bert(), json!({}));
    let many = Document::from_text(&"a ".repeat(131_072));
    assert_eq!(
        refusal(&encoder, "/to_tokens", vec![many]),
        "the texts of one call have more than 131072 tokens; send them in several requests"
    );
    let ids = |count: usize| {
        let mut document = Document::new();
        document.set_tags(&Map::from_iter([("ids".to_owned(), json!(vec![4; count]))]));
        document
    };
    assert_eq!(
        refusal(&encoder, "/from_tokens", vec![ids(131_072), ids(1)]),
        "the tags of one call have more than 131072 token ids; send them in several requests"
    );
    assert_eq!(
        refusal(&encoder, "/from_tokens", vec![ids(1 << 20)]),
        "the tags of one call have more than 8388608 bytes; send them in several requests"
    );
}

#[test]
fn the_model_is_reported_for_the_endpoint_that_it_computes() {
    let model = TinyModel::bert();
    let encoder = loaded(&model, json!({"max_length": 8, "dimensions": 4}));
    let reported = &encoder.models()["/encode"];
    assert_eq!(reported.name, model.path().to_str().unwrap());
    assert_eq!((reported.dimensions, reported.max_length), (4, 8));
    assert_eq!(
        (reported.pooling.as_str(), reported.precision.as_str()),
        ("mean", "f32")
    );
}

/// The vectors of texts.
fn vectors(loaded: &Loaded, texts: &[&str], parameters: Value) -> Vec<Vec<f32>> {
    let docs = texts.iter().map(|&it| Document::from_text(it)).collect();
    let docs = encode(loaded, docs, parameters);
    docs.iter().map(vector).collect()
}

#[test]
fn a_cache_changes_no_vector_and_no_number_of_tokens() {
    let model = TinyModel::bert();
    let folder = tempfile::tempdir().unwrap();
    let plain = loaded(&model, json!({}));
    let in_memory = loaded(&model, json!({"cache": true}));
    let on_disk = || loaded(&model, json!({"cache": {"size": 0, "path": folder.path()}}));
    let calls: [&[&str]; 5] = [
        &["a"],
        &["a", "b", "a", "a"],
        &["b", "a"],
        &[],
        &["c", "c b", "c"],
    ];
    for cached in [in_memory, on_disk(), on_disk()] {
        for call in calls {
            for parameters in [
                json!({}),
                json!({"normalize": false}),
                json!({"batch_size": 1}),
            ] {
                assert_eq!(
                    vectors(&cached, call, parameters.clone()),
                    vectors(&plain, call, parameters),
                    "{call:?}"
                );
            }
        }
    }
}

#[test]
fn a_reply_says_how_many_of_its_texts_were_cached() {
    let cached = |loaded: &Loaded, texts: &[&str]| {
        let docs = texts.iter().map(|&it| Document::from_text(it)).collect();
        loaded.usage("/encode", docs).unwrap().unwrap().cached_texts
    };
    let model = TinyModel::bert();
    let plain = loaded(&model, json!({}));
    assert_eq!(cached(&plain, &["a", "a"]), None);
    let encoder = loaded(&model, json!({"cache": true}));
    assert_eq!(cached(&encoder, &["a", "b"]), Some(0));
    assert_eq!(cached(&encoder, &["c", "a", "c", "c"]), Some(3));
    assert_eq!(cached(&encoder, &["a", "b", "c"]), Some(3));
}

#[test]
fn a_cache_on_disk_belongs_to_the_model_and_the_options() {
    let folder = tempfile::tempdir().unwrap();
    let stores = || fs::read_dir(folder.path()).unwrap().count();
    let (one, other) = (TinyModel::bert(), TinyModel::bert());
    for (model, pooling, expected) in [
        (&one, "mean", 1),
        (&one, "mean", 1),
        (&one, "cls", 2),
        (&other, "mean", 3),
    ] {
        let config = json!({"pooling": pooling, "cache": {"path": folder.path()}});
        vectors(&loaded(model, config), &["a"], json!({}));
        assert_eq!(stores(), expected, "{pooling}");
    }
}
