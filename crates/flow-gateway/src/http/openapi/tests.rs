use flow_core::to_struct;
use flow_proto::jina::EndpointsProto;
use flow_spec::HttpOptions;

use super::*;
use crate::discovery::OfferedEndpoints;

fn offered(schemas: &Value) -> OfferedEndpoints {
    let schemas = schemas.as_object().unwrap();
    OfferedEndpoints::answered(vec![EndpointsProto {
        endpoints: schemas.keys().cloned().collect(),
        schemas: Some(to_struct(schemas)),
        ..EndpointsProto::default()
    }])
}

fn described(options: &HttpOptions, schemas: &Value, models: &[&str], keys: KeysFor) -> Value {
    let offered = offered(schemas);
    let names = |of_kind: &dyn Fn(&str) -> bool| {
        let names = models.iter().filter(|&&it| of_kind(it));
        names.map(|&it| it.to_owned()).collect()
    };
    // A test names a reranker `r`, a classifier `c`, and a model for sparse vectors `s`.
    let models = ModelNames {
        encoders: names(&|it| !["r", "c", "s"].contains(&it)),
        rerankers: names(&|it| it == "r"),
        classifiers: names(&|it| it == "c"),
        sparse_encoders: names(&|it| it == "s"),
    };
    document(&Served::new(options, &offered, models, keys))
}

#[test]
fn each_endpoint_has_a_path_and_its_classes_are_schemas() {
    let model = json!({
        "properties": {"parts": {"items": {"$ref": "#/definitions/Part"}}},
        "definitions": {"Part": {"type": "object"}},
    });
    let class = json!({"name": "MyDoc", "model": model});
    let schemas = json!({
        "/encode": {"input": class, "output": class, "is_generator": false},
        "/write": {"input": class, "output": class, "is_generator": true},
        "_jina_dry_run_": {},
    });
    let document = described(&HttpOptions::default(), &schemas, &[], KeysFor::Nothing);
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Part"], json!({"type": "object"}));
    assert_eq!(
        schemas["MyDoc"]["properties"]["parts"]["items"]["$ref"],
        "#/components/schemas/Part"
    );
    let paths = &document["paths"];
    assert!(paths["/encode"]["post"].is_object());
    assert!(paths["/write"]["get"].is_object() && paths["/write"]["post"].is_null());
    assert!(paths["/post"]["post"].is_object() && paths["/delete"]["delete"].is_object());
    let mut paths = paths.as_object().unwrap().keys();
    assert!(paths.all(|it| it.starts_with('/')));
}

#[test]
fn routes_that_are_left_out_are_not_listed() {
    let options = HttpOptions {
        no_debug_endpoints: true,
        no_crud_endpoints: true,
        title: Some("Search".to_owned()),
        ..HttpOptions::default()
    };
    let document = described(&options, &json!({}), &[], KeysFor::Nothing);
    assert_eq!(document["info"]["title"], "Search");
    let paths = document["paths"].as_object().unwrap().keys();
    let paths: Vec<&String> = paths.filter(|it| !it.starts_with("/v")).collect();
    assert_eq!(paths, ["/health", "/ping", "/"]);
}

#[test]
fn routes_of_models_are_listed_if_there_is_a_model_and_no_endpoint_has_their_name() {
    let post = |endpoints: &Value, models: &[&str], path: &str| {
        let options = HttpOptions::default();
        let document = described(&options, endpoints, models, KeysFor::Nothing);
        let tag = document["paths"][path]["post"]["tags"][0].as_str();
        tag.map(str::to_owned)
    };
    let tei = Some("text-embeddings-inference".to_owned());
    assert_eq!(post(&json!({}), &[], "/embed"), None);
    assert_eq!(post(&json!({}), &["m"], "/embed"), tei);
    let own = json!({"/embed": {}});
    assert_eq!(post(&own, &["alias"], "/embed").as_deref(), Some("Jina"));
    assert_eq!(post(&json!({}), &["m"], "/tokenize"), None);
    assert_eq!(post(&json!({"/to_tokens": {}}), &["m"], "/tokenize"), tei);
    for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        assert_eq!(post(&json!({}), &["m"], path), None);
        assert!(post(&json!({}), &["r"], path).is_some(), "{path}");
    }
    assert_eq!(post(&json!({}), &["r"], "/embed"), None);
    assert_eq!(post(&json!({}), &["m", "r"], "/predict"), None);
    assert_eq!(post(&json!({}), &["c"], "/predict"), tei);
    assert_eq!(post(&json!({}), &["m", "r", "c"], "/embed_sparse"), None);
    assert_eq!(post(&json!({}), &["s"], "/embed_sparse"), tei);
    for model in ["m", "r", "c", "s"] {
        assert_eq!(post(&json!({}), &[model], "/"), tei, "{model}");
    }
}

#[test]
fn operations_name_the_keys_that_they_need() {
    let security = |keys: KeysFor, path: &str| {
        let document = described(&HttpOptions::default(), &json!({}), &["m"], keys);
        let operation = &document["paths"][path]["get"];
        let refusal = operation["responses"]["401"].is_object();
        let own = operation["security"].clone();
        (document["security"].is_array(), own, refusal)
    };
    for path in ["/health", "/info"] {
        let nothing = (false, Value::Null, false);
        assert_eq!(security(KeysFor::Nothing, path), nothing);
        let needed = (true, Value::Null, true);
        assert_eq!(security(KeysFor::Everything, path), needed);
    }
    let open = (true, json!([]), false);
    assert_eq!(security(KeysFor::AllButHealth, "/health"), open);
    let needed = (true, Value::Null, true);
    assert_eq!(security(KeysFor::AllButHealth, "/info"), needed);
}

#[test]
fn the_schema_of_a_body_has_the_fields_that_are_read() {
    let options = HttpOptions::default();
    let offered = json!({"/token_vectors": {}});
    let document = described(&options, &offered, &["m", "r", "c", "s"], KeysFor::Nothing);
    let schemas = &document["components"]["schemas"];
    for (schema, fields) in [
        ("OpenAiEmbeddingsRequest", crate::http::openai::FIELDS),
        ("CohereEmbedRequest", crate::http::cohere::FIELDS),
        ("TeiEmbedRequest", crate::http::tei::EMBED_FIELDS),
        ("TeiSimilarityRequest", crate::http::tei::SIMILARITY_FIELDS),
        ("TeiEmbedAllRequest", crate::http::tei::EMBED_ALL_FIELDS),
        (
            "TeiEmbedSparseRequest",
            crate::http::tei::EMBED_SPARSE_FIELDS,
        ),
        ("TeiPredictRequest", crate::http::tei::PREDICT_FIELDS),
        ("TeiRerankRequest", crate::http::tei::RERANK_FIELDS),
        ("CohereRerankRequest", crate::http::cohere::RERANK_FIELDS),
    ] {
        let described = schemas[schema]["properties"].as_object().unwrap();
        let described: Vec<&String> = described.keys().collect();
        assert_eq!(described, fields, "{schema}");
    }
}
