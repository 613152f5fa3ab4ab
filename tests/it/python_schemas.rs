//! What discovery and the OpenAPI document say about the classes of a Python executor's documents and parameters.

use flow_core::{Deadline, from_struct};
use flow_tests::{DocArrayVersion, TestFlow, client, interpreter, post, python_script, request};
use http::Method;
use serde_json::{Map, Value, json};

use crate::http_apis::client::send;
use crate::python_executors::with_docarray;

/// Its methods have classes of docarray 0.40 and of pydantic.
const EXAMPLE: &str = "docarray_v2";

/// The schema without its examples: the one of an id is random in each process.
fn without_examples(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "example");
            let fields = fields.map(|(name, value)| (name.clone(), without_examples(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(without_examples).collect(),
        other => other.clone(),
    }
}

/// What the flow says about its endpoints.
async fn described(flow: &TestFlow) -> Map<String, Value> {
    let client = client(flow).await;
    let offered = client.endpoints(Deadline::NEVER).await.unwrap();
    from_struct(&offered.schemas.unwrap())
}

#[tokio::test]
async fn classes_are_described_as_on_jinas_runtime() {
    let Some((flow, _packages)) = with_docarray(DocArrayVersion::V2, EXAMPLE) else {
        return;
    };
    let ours = described(&flow).await;
    let python = interpreter(DocArrayVersion::V2).unwrap();
    let variables = [
        ("FLOW_PYTHON", python.to_str().unwrap()),
        ("FLOW_PYTHON_RUNTIME", "jina"),
    ];
    let config = python_script(EXAMPLE).join("config.yml");
    let stock = TestFlow::up_in(
        &format!(
            "executors: [{{name: encoder, uses: '{}'}}]",
            config.display()
        ),
        &variables,
    );
    let stock = described(&stock).await;
    for endpoint in ["/encode", "/find", "/named", "/one"] {
        let mut ours = without_examples(&ours[endpoint]);
        ours.as_object_mut().unwrap().remove("any_format");
        assert_eq!(ours, without_examples(&stock[endpoint]), "{endpoint}");
    }
    // A method without classes takes the documents of either version here, and those of the second there.
    assert_eq!(ours["/any"]["input"]["name"], "FlowDoc");
}

#[tokio::test]
async fn the_openapi_document_has_the_classes_and_requests_are_what_it_says() {
    let Some((flow, _packages)) = with_docarray(DocArrayVersion::V2, EXAMPLE) else {
        return;
    };
    let document = send(&flow, (Method::GET, "/openapi.json"), &[], "").await;
    let document = document.json();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Found"]["required"], json!(["names"]));
    assert_eq!(schemas["Found"]["description"], "What a search found.");
    let price = &schemas["Part"]["properties"]["price"];
    assert_eq!(price["default"].as_f64(), Some(0.0));
    // The class of an annotation that is a text, with an array of documents.
    let parts = &schemas["Assembly"]["properties"]["parts"];
    assert_eq!(parts["items"], json!({"$ref": "#/components/schemas/Part"}));
    let settings = &schemas["Settings"]["properties"]["top_k"];
    assert_eq!(settings["type"], "integer");
    let post = &document["paths"]["/find"]["post"];
    let taken = &post["requestBody"]["content"]["application/json"]["schema"];
    let made = &post["responses"]["200"]["content"]["application/json"]["schema"];
    let named = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    assert_eq!(taken["properties"]["data"]["anyOf"][1], named("Text"));
    assert_eq!(taken["properties"]["parameters"], named("Settings"));
    assert_eq!(made["properties"]["data"]["items"], named("Found"));

    let body = json!({"data": [{"text": "a"}], "parameters": {"top_k": 3}}).to_string();
    let json = ("content-type", "application/json".to_owned());
    let reply = send(&flow, (Method::POST, "/find"), &[json], body).await;
    let found = &reply.json()["data"][0];
    assert_eq!(found["names"], json!(["a", "a", "a"]));
    assert_eq!(found["first"]["name"], "a");
}

#[tokio::test]
async fn parameters_that_a_class_does_not_have_are_refused() {
    let Some((flow, _packages)) = with_docarray(DocArrayVersion::V2, EXAMPLE) else {
        return;
    };
    let misspelt = request("/find", &["a"], &json!({"topk": 3}));
    let said = post(&flow, vec![misspelt]).await.remove(0);
    let failure = "`/find` accepts no parameter `topk`; did you mean `top_k`?";
    assert_eq!(said.failure.as_deref(), Some(failure));
    // A method that is for no class of parameters takes any.
    let other = request("/encode", &["a"], &json!({"topk": 3}));
    assert_eq!(post(&flow, vec![other]).await.remove(0).failure, None);
}
