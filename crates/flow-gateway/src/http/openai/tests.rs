//! Requests → texts and parameters, vectors → JSON.

use super::super::json_request::parse;
use super::super::model_call::ModelWork;
use super::*;

fn translate(body: &Value) -> Result<EmbedRequest, ApiError> {
    let body = serde_json::to_vec(body).unwrap();
    let mut request = parse::<EmbeddingsRequest>(&body, FIELDS)?;
    request.refuse_what_is_not_there()?;
    let texts = request.input()?.texts("input")?;
    Ok(request.translate(texts))
}

#[track_caller]
fn check_refused(body: &Value, field: Option<&str>, part: &str) {
    let error = translate(body).unwrap_err();
    assert_eq!(error.field, field, "{body}: {error:?}");
    assert!(error.message.contains(part), "{body}: {error:?}");
}

#[test]
fn a_request_becomes_texts_and_parameters_of_the_encoder() {
    let plain = translate(&json!({"input": "a", "model": "m", "user": "u"})).unwrap();
    assert_eq!(plain.texts, ["a"]);
    assert!(plain.parameters.is_empty() && plain.dimensions.is_none());
    let jina = json!({
        "input": [{"text": "a"}, "b"], "model": "m", "normalized": false, "truncate": false,
        "embedding_type": "float", "dimensions": 64, "late_chunking": false,
    });
    let jina = translate(&jina).unwrap();
    assert_eq!(jina.texts, ["a", "b"]);
    assert_eq!(Value::Object(jina.parameters), json!({"normalize": false}));
    assert_eq!(jina.truncation.truncate, Some(false));
    assert_eq!(jina.dimensions, Some((64, "dimensions")));
}

#[test]
fn invalid_fields_are_named() {
    check_refused(&json!({"model": "m"}), Some("input"), "missing");
    check_refused(&json!({"input": 1}), Some("input"), "a list of texts");
    check_refused(&json!({"input": [[1, 2]]}), Some("input"), "token ids");
    let format = json!({"input": "a", "encoding_format": "hex"});
    check_refused(&format, Some("encoding_format"), "`hex`");
    check_refused(&json!({"input": "a", "dimension": 1}), None, "`dimensions`");
    check_refused(
        &json!({"input": "a", "dimensions": -1}),
        Some("dimensions"),
        "-1",
    );
    let late = json!({"input": "a", "late_chunking": true});
    check_refused(&late, Some("late_chunking"), "trained");
}

#[test]
fn a_task_chooses_the_prompt_that_the_model_has_for_it() {
    let choose_of = |info, task| {
        let model = ServedModel {
            id: "m".to_owned(),
            executor: "encoder".to_owned(),
            endpoint: "/encode".to_owned(),
            info,
            version: flow_core::DocArrayVersion::default(),
        };
        let mut wanted = EmbedRequest::default();
        choose_prompt(&mut wanted, &model, task).map(|()| Value::Object(wanted.parameters))
    };
    let choose = |prompts: &[&str], task| {
        let info = flow_core::ModelInfo {
            prompts: prompts.iter().map(|&it| it.to_owned()).collect(),
            ..flow_core::ModelInfo::default()
        };
        choose_of(Some(info), task)
    };
    let both = ["query", "passage"];
    let chosen = |name| Ok(json!({"prompt_name": name}));
    assert_eq!(choose(&both, "retrieval.query"), chosen("query"));
    assert_eq!(choose(&both, "retrieval.passage"), chosen("passage"));
    assert_eq!(
        choose(&["text-matching"], "text-matching"),
        chosen("text-matching")
    );
    assert_eq!(choose(&["query"], "retrieval.passage"), Ok(json!({})));
    for (prompts, task) in [(&both[..], "text-matching"), (&[], "retrieval.query")] {
        assert_eq!(choose(prompts, task).unwrap_err().field, Some("task"));
    }
    // Nothing is known of the prompts of an executor that does not report its model.
    let unknown = choose_of(None, "text-matching");
    assert_eq!(unknown.unwrap_err().field, Some("task"));
}

fn reply(format: VectorFormat, tokens: Option<u64>) -> Value {
    let reply = EmbeddingsReply {
        model: "m".to_owned(),
        format,
        embeddings: Embeddings {
            vectors: vec![vec![1.0, -0.5]],
            work: ModelWork {
                usage: tokens.map(|tokens| flow_core::Usage {
                    tokens,
                    cached_texts: None,
                }),
                ..ModelWork::default()
            },
        },
    };
    serde_json::to_value(&reply).unwrap()
}

#[test]
fn vectors_become_a_list_with_usage() {
    let expected = json!({
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [1.0, -0.5]}],
        "model": "m",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    });
    assert_eq!(reply(VectorFormat::Float, Some(3)), expected);
    let base64 = reply(VectorFormat::Base64, None);
    assert_eq!(base64["data"][0]["embedding"], "AACAPwAAAL8=");
    assert_eq!(base64.get("usage"), None);
}

#[test]
fn the_encoding_format_comes_before_jina_ais_name_for_it() {
    let both = json!({"encoding_format": "base64", "embedding_type": "float"});
    let both: EmbeddingsRequest = serde_json::from_value(both).unwrap();
    assert_eq!(both.format(), VectorFormat::Base64);
    assert_eq!(EmbeddingsRequest::default().format(), VectorFormat::Float);
}
