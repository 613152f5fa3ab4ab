use flow_core::Code;
use flow_net::{ByteBudget, Limits};
use serde_json::json;

use super::*;

fn known(endpoint: Option<&str>, is_v1: bool, version: Option<DocArrayVersion>) -> Known {
    Known {
        call: Call {
            endpoint: endpoint.map(str::to_owned),
            is_v1,
        },
        version,
        documents_max: 3,
        id: "from-header".to_owned(),
    }
}

fn memory() -> ParseMemory {
    ParseMemory::new(&Limits::default(), None, 0)
}

fn read(body: &Value) -> Result<Parsed, String> {
    read_text(body.to_string())
}

fn read_text(body: impl Into<Bytes>) -> Result<Parsed, String> {
    let known = known(None, true, None);
    parse(&body.into(), known, &mut memory()).map_err(|it| it.to_string())
}

#[track_caller]
fn check_header(body: &Value, expected: [&str; 3]) {
    let header = read(body).unwrap().envelope.header.unwrap();
    let target = header.target_executor.unwrap_or_default();
    let endpoint = header.exec_endpoint.unwrap_or_default();
    assert_eq!([&header.request_id, &endpoint, &target], expected, "{body}");
}

#[test]
fn names_are_in_camel_case_or_snake_case_at_the_top_or_in_the_header() {
    check_header(&json!({}), ["from-header", "/", ""]);
    check_header(
        &json!({"execEndpoint": "/a", "targetExecutor": "b"}),
        ["from-header", "/a", "b"],
    );
    check_header(
        &json!({"exec_endpoint": "/a", "target_executor": null, "header": {"request_id": "c"}}),
        ["c", "/a", ""],
    );
    let header = json!({"requestId": "c", "execEndpoint": "/b", "targetExecutor": "d"});
    check_header(
        &json!({"exec_endpoint": "/a", "header": header}),
        ["c", "/a", "d"],
    );
}

#[track_caller]
fn check_documents(data: &Value, expected: usize) {
    let data = read(&json!({"data": data})).unwrap().envelope.data;
    let documents = data.map(|it| DocumentArray::decode(&it).unwrap());
    assert_eq!(documents.map_or(0, |it| it.len()), expected);
}

#[test]
fn documents_are_a_list_or_one_or_a_list_under_docs() {
    check_documents(&json!(null), 0);
    check_documents(&json!([]), 0);
    check_documents(&json!([{"text": "a"}, {"text": "b"}]), 2);
    check_documents(&json!({"text": "a"}), 1);
    check_documents(&json!({"docs": [{"text": "a"}]}), 1);
    check_documents(&json!({"docs": {"text": "a"}}), 1);
    check_documents(&json!({"docs": null}), 0);
    check_documents(&json!({"docs": [], "other": 1}), 1);
    let twice = read_text(r#"{"data": {"docs": [], "docs": [{}, {}]}}"#).unwrap();
    let documents = DocumentArray::decode(&twice.envelope.data.unwrap()).unwrap();
    assert_eq!(documents.len(), 2);
}

#[track_caller]
fn check_version(known: Known, document: &Value, (version, is_v1): (DocArrayVersion, bool)) {
    let body = json!({"data": [document]}).to_string().into();
    let parsed = parse(&body, known, &mut memory()).unwrap();
    let documents = DocumentArray::decode(&parsed.envelope.data.unwrap()).unwrap();
    assert_eq!(
        (documents.version(), parsed.is_v1),
        (version, is_v1),
        "{document}"
    );
}

#[test]
fn the_version_comes_from_the_executors_or_the_document_or_the_route() {
    use DocArrayVersion::{V1, V2};
    let of_either = json!({"text": "a"});
    let of_v1 = json!({"text": "a", "granularity": null, "adjacency": null});
    let of_v2 = json!({"title": "a"});
    let route = |is_v1| known(Some("/encode"), is_v1, None);
    check_version(route(true), &of_either, (V1, true));
    check_version(route(false), &of_either, (V2, false));
    check_version(route(false), &of_v1, (V1, true));
    check_version(route(true), &of_v2, (V2, false));
    check_version(known(None, true, Some(V2)), &of_either, (V2, false));
    check_version(known(None, false, Some(V1)), &of_either, (V1, true));
}

#[test]
fn tags_keep_their_numbers() {
    let parsed = read(&json!({"data": [{"tags": {"a": 1}}]})).unwrap();
    let documents = DocumentArray::decode(&parsed.envelope.data.unwrap()).unwrap();
    let document = documents.iter().next().unwrap().to_json().unwrap();
    assert_eq!(document["tags"], json!({"a": 1}));
}

#[test]
fn bodies_that_are_not_requests_are_reported_with_the_reason() {
    let check = |body: Value, expected: &str| {
        assert_eq!(read(&body).unwrap_err(), expected);
    };
    check(json!([]), "the body must be a JSON object");
    check(json!({"header": 5}), "`header` must be a JSON object");
    check(
        json!({"parameters": 5}),
        "`parameters` must be a JSON object",
    );
    check(json!({"execEndpoint": 5}), "`execEndpoint` must be a text");
    check(
        json!({"data": 5}),
        "`data` is neither a document nor a list of documents",
    );
    check(
        json!({"data": [{"text": "a"}, 5]}),
        "`data[1]`: a document is a JSON object, not a number",
    );
    for bad in [&b"{"[..], b"{} 1", b"{\"other\": \"\xff\"}"] {
        let text = read_text(Bytes::copy_from_slice(bad)).unwrap_err();
        assert!(text.starts_with("the body is not valid JSON: "), "{text}");
    }
    let text = read_text(r#"{"data": [{"weight": 1e999}]}"#).unwrap_err();
    assert!(text.starts_with("`data[0]`: not valid JSON: "), "{text}");
}

#[test]
fn no_document_is_read_after_the_limit() {
    let body = r#"{"data": [{}, {}, {}, 4, 5], "requestId": "a"}"#;
    let envelope = read_text(body).unwrap().envelope;
    let status = envelope.header.unwrap().status.unwrap();
    assert_eq!(
        status.description,
        "the request has more than 3 documents, the limit; send them in several requests"
    );
    assert_eq!(envelope.data, None);
}

#[test]
fn an_error_does_not_repeat_a_long_text() {
    let name = "x".repeat(10_000);
    let text = read(&json!({"data": [{"granularity": 0, name: {"a": 1}}]})).unwrap_err();
    assert!(text.len() <= 1000, "{}", text.len());
}

#[test]
fn json_within_a_text_is_not_read() {
    let name = "$serde_json::private::RawValue";
    let body = json!({"data": [{"tags": {"a": {name: "[1]"}}}]});
    let envelope = read(&body).unwrap().envelope;
    let documents = DocumentArray::decode(&envelope.data.unwrap()).unwrap();
    let document = documents[0].to_json().unwrap();
    assert_eq!(document["tags"]["a"][name], "[1]");
}

#[test]
fn the_last_field_of_a_name_counts_and_unknown_ones_are_ignored() {
    let body =
        r#"{"data": [{}], "requestId": "a", "other": [1, {}], "data": [{}, {}], "requestId": "b"}"#;
    let envelope = read_text(body).unwrap().envelope;
    assert_eq!(envelope.header.unwrap().request_id, "b");
    let documents = DocumentArray::decode(&envelope.data.unwrap()).unwrap();
    assert_eq!(documents.len(), 2);
}

#[test]
fn an_empty_body_and_null_are_requests_without_documents() {
    for body in ["", "null", " null ", "{}"] {
        assert_eq!(read_text(body).unwrap().envelope.data, None, "{body:?}");
    }
}

#[test]
fn the_values_of_one_document_at_a_time_count_in_the_budget() {
    let budget = ByteBudget::new(160 << 10);
    let large = json!({"embedding": vec![0; 300]});
    let read = |documents: Value| {
        let mut memory = ParseMemory::new(&Limits::default(), Some(&budget), 0);
        let body = json!({ "data": documents }).to_string().into();
        let read = parse(&body, known(None, true, None), &mut memory).map(|_| ());
        drop(memory);
        assert_eq!(budget.held(), 0);
        read
    };
    assert_eq!(read(json!([large, large, large])), Ok(()));
    let failure = read(json!([{"embedding": vec![0; 900]}])).unwrap_err();
    assert_eq!(failure.code(), Code::TooLarge);
}
