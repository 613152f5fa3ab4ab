use flow_proto::docarray::v2::{DocProto, NodeProto, node_proto};
use flow_proto::docarray::{DocumentArrayProto, DocumentProto, document_proto::Content};
use prost::Message;
use serde_json::json;

use super::*;

fn v1(proto: &DocumentProto) -> Document {
    Document::decode(DocArrayVersion::V1, proto.encode_to_vec().into()).unwrap()
}

fn sample() -> DocumentProto {
    DocumentProto {
        id: "a".into(),
        content: Some(Content::Text("hello".into())),
        weight: 0.5,
        chunks: vec![DocumentProto {
            id: "c".into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// `documents`, encoded as the `data` field of a request.
fn data(documents: &[Bytes]) -> Bytes {
    let mut array = BytesMut::new();
    for document in documents {
        wire::put(&mut array, 1, document);
    }
    let mut out = BytesMut::new();
    wire::put(&mut out, 1, &array);
    out.freeze()
}

fn v2_raw(fields: &[(&str, &str)]) -> Bytes {
    let node = |text: &str| NodeProto {
        content: Some(node_proto::Content::Text(text.into())),
        docarray_type: None,
    };
    let data = fields
        .iter()
        .map(|(name, text)| ((*name).to_owned(), node(text)))
        .collect();
    DocProto { data }.encode_to_vec().into()
}

#[test]
fn an_untouched_document_keeps_its_bytes() {
    let raw: Bytes = sample().encode_to_vec().into();
    assert_eq!(
        Document::decode(DocArrayVersion::V1, raw.clone())
            .unwrap()
            .encode(),
        raw
    );
}

#[test]
fn an_unknown_field_survives_an_edit() {
    let mut raw = BytesMut::from(sample().encode_to_vec().as_slice());
    wire::put(&mut raw, 77, b"future");
    let mut document = Document::decode(DocArrayVersion::V1, raw.freeze()).unwrap();
    document.set_embedding(&Tensor::vector(&[1.0]));
    let encoded = document.encode();
    let fields = Fields::of(&encoded).map(|field| field.unwrap());
    assert!(
        fields
            .into_iter()
            .any(|field| field.number == 77 && field.content == b"future")
    );
}

#[test]
fn an_edit_changes_its_field_and_no_other() {
    let mut document = v1(&sample());
    document.set_embedding(&Tensor::vector(&[1.0, 2.0]));
    let mut proto = DocumentProto::decode(document.encode()).unwrap();
    assert!(proto.embedding.take().is_some());
    assert_eq!(proto, sample());
}

#[test]
fn the_last_value_that_was_set_is_read_and_encoded() {
    let mut document = v1(&sample());
    document.set_text("one");
    document.set_text("two");
    assert_eq!(document.text(), "two");
    assert_eq!(
        v1(&DocumentProto::decode(document.encode()).unwrap()).text(),
        "two"
    );
}

#[test]
fn a_text_replaces_a_blob() {
    let blob = DocumentProto {
        content: Some(Content::Blob("b".into())),
        ..sample()
    };
    let mut document = v1(&blob);
    document.set_text("t");
    assert_eq!(document.blob(), None);
    let content = DocumentProto::decode(document.encode()).unwrap().content;
    assert_eq!(content, Some(Content::Text("t".into())));
}

#[test]
fn chunks_are_changed_in_place() {
    let mut document = v1(&sample());
    document.chunks_mut().unwrap()[0].set_text("part");
    document
        .chunks_mut()
        .unwrap()
        .push(Document::from_text("new"));
    let chunks = DocumentProto::decode(document.encode()).unwrap().chunks;
    assert_eq!(chunks.len(), 2);
    assert_eq!(chunks[0].id, "c");
    assert_eq!(chunks[0].content, Some(Content::Text("part".into())));
}

#[test]
fn reading_chunks_changes_nothing() {
    let mut document = v1(&sample());
    assert_eq!(document.chunks_mut().unwrap().len(), 1);
    assert!(document.matches_mut().unwrap().is_empty());
    assert_eq!(DocumentProto::decode(document.encode()).unwrap(), sample());
}

#[test]
fn versions_are_recognised_by_their_first_field() {
    let first: Bytes = sample().encode_to_vec().into();
    let second = v2_raw(&[("id", "a"), ("text", "hello")]);
    assert_eq!(
        DocumentArray::decode(&data(&[first])).unwrap().version(),
        DocArrayVersion::V1
    );
    assert_eq!(
        DocumentArray::decode(&data(std::slice::from_ref(&second)))
            .unwrap()
            .version(),
        DocArrayVersion::V2
    );
    let empty_first = DocumentArray::decode(&data(&[Bytes::new(), second])).unwrap();
    assert_eq!(empty_first.version(), DocArrayVersion::V2);
}

#[test]
fn an_edit_does_not_change_the_version_that_the_first_field_shows() {
    // The id is a key and a value, but a text comes before it; an edit moves the text to the end.
    let mut raw = BytesMut::new();
    wire::put(&mut raw, 4, b"a text");
    wire::put(&mut raw, 1, b"\n\x03key\x12\x00");
    let mut document = Document::decode(DocArrayVersion::V1, raw.freeze()).unwrap();
    document.set_text("another");
    let encoded = document.encode();
    assert_eq!(DocArrayVersion::of(&encoded), Some(DocArrayVersion::V1));
    let again = Document::decode(DocArrayVersion::V1, encoded).unwrap();
    assert_eq!(again.id(), "\n\x03key\x12\x00");
    assert_eq!(again.text(), "another");
}

#[test]
fn an_id_that_begins_as_an_entry_does_is_an_id() {
    for id in ["\n", "\nid", "\n\x02id\x08\x01"] {
        let mut document = Document::new();
        document.set_id(id);
        let version = DocArrayVersion::of(&document.encode());
        assert_eq!(version, Some(DocArrayVersion::V1), "{id:?}");
    }
}

#[test]
fn documents_of_the_second_version_are_edited_by_name() {
    let raw = v2_raw(&[("id", "a"), ("text", "hello"), ("own", "kept")]);
    let mut document = Document::decode(DocArrayVersion::V2, raw).unwrap();
    assert_eq!(
        (document.id().as_str(), document.text().as_str()),
        ("a", "hello")
    );
    document.set_embedding(&Tensor::vector(&[1.0]));
    document.set_text("changed");
    let again = Document::decode(DocArrayVersion::V2, document.encode()).unwrap();
    assert_eq!(again.text(), "changed");
    assert_eq!(again.string("own").as_deref(), Some("kept"));
    assert_eq!(again.embedding().unwrap().to_f32().unwrap(), [1.0]);
    let node = DocProto::decode(document.encode())
        .unwrap()
        .data
        .remove("embedding")
        .unwrap();
    assert_eq!(
        node.docarray_type,
        Some(node_proto::DocarrayType::Type("ndarray".into()))
    );
}

#[test]
fn chunks_of_the_second_version_are_changed_in_place() {
    let mut document = Document::of_version(DocArrayVersion::V2);
    document
        .chunks_mut()
        .unwrap()
        .push(Document::of_version(DocArrayVersion::V2));
    let mut again = Document::decode(DocArrayVersion::V2, document.encode()).unwrap();
    again.chunks_mut().unwrap()[0].set_text("part");
    let mut again = Document::decode(DocArrayVersion::V2, again.encode()).unwrap();
    assert_eq!(again.chunks_mut().unwrap()[0].text(), "part");
}

#[test]
fn an_array_survives_decoding_and_encoding() {
    let array = DocumentArrayProto {
        docs: vec![sample(), sample()],
    };
    let data = data(
        &array
            .docs
            .iter()
            .map(|d| d.encode_to_vec().into())
            .collect::<Vec<_>>(),
    );
    assert_eq!(DocumentArray::decode(&data).unwrap().encode(), data);
}

#[test]
fn no_data_is_an_empty_array() {
    assert!(DocumentArray::decode(&Bytes::new()).unwrap().is_empty());
}

#[test]
fn an_error_names_the_invalid_bytes() {
    let check = |data: Bytes, expected: &str| {
        assert_eq!(
            DocumentArray::decode(&data).unwrap_err().to_string(),
            expected
        );
    };
    check(
        Bytes::from_static(b"\xff\xff"),
        "the request's data is not a valid protobuf message",
    );
    check(
        data(&[Bytes::from_static(b"\x0a\x7f")]),
        "document 0 is not a valid protobuf message",
    );
    let text = data(&[Bytes::from_static(b"\x22\x01\xff")]);
    check(text, "field `text` of a document is not valid UTF-8");
    let mut pickle = BytesMut::new();
    wire::put(&mut pickle, 2, b"\x80");
    let expected =
        "the request carries `docs_bytes`, a Python pickle that is never read; send `docs` instead";
    check(pickle.freeze(), expected);
}

#[test]
fn json_round_trips_in_both_versions() {
    let value = json!({
        "id": "a",
        "text": "hello",
        "tags": {"k": 1, "deep": {"list": [1.5, true, null]}},
        "embedding": [0.25, -1.0],
        "chunks": [{"id": "c", "text": "part"}],
    });
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let document = Document::from_json(version, &value).unwrap();
        assert_eq!(document.to_json().unwrap(), value, "{version:?}");
        assert_eq!(document.tags()["k"], 1);
    }
}

#[test]
fn fields_of_any_name_leave_the_version_recognisable() {
    for name in ["", "\n", "\u{12}", "a"] {
        let value = json!({name: {"": [1, null]}, "id": "a"});
        let document = Document::from_json(DocArrayVersion::V2, &value).unwrap();
        let array = DocumentArray::from_iter([document]);
        let decoded = DocumentArray::decode(&array.encode()).unwrap();
        assert_eq!(decoded[0].to_json().unwrap(), value, "{name:?}");
    }
}

#[test]
fn invalid_json_is_an_error_with_its_reason() {
    let check = |value: Value, expected: &str| {
        let error = Document::from_json(DocArrayVersion::V1, &value).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(json!("x"), "a document is a JSON object, not a text");
    check(json!({"text": 5}), "`text` must be a text, not a number");
    check(json!({"txt": "a"}), "a document has no field `txt`");
    let expected = "`embedding` must be a list of numbers, or of lists of equal length";
    check(json!({"embedding": [[1], [2, 3]]}), expected);
}

#[test]
fn a_text_that_is_no_document_is_an_error_with_its_reason() {
    let check = |text: &str, expected: &str| {
        let error = Document::from_json_text(DocArrayVersion::V1, text).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check("[]", "a document is a JSON object, not a list");
    check(" 5", "a document is a JSON object, not a number");
    check("{", "not valid JSON: EOF");
    check("{} {}", "not valid JSON: trailing characters");
    check(
        r#"{"weight": 1e999}"#,
        "not valid JSON: number out of range",
    );
    check(r#"{"text": 5}"#, "`text` must be a text, not a number");
    let expected = "invalid type: integer `5`, expected a list of documents";
    check(r#"{"chunks": 5}"#, expected);
    let expected = "invalid type: null, expected a document (a JSON object)";
    check(r#"{"chunks": [null]}"#, expected);
    let nested = r#"{"chunks": [{"matches": [{"txt": 1}]}]}"#;
    check(nested, "a document has no field `txt`");
    let deep = r#"{"chunks":["#.repeat(100_000);
    check(&deep, "not valid JSON: recursion limit exceeded");
}

#[test]
fn lists_of_numbers_are_arrays_of_their_shape() {
    let check = |json: &str, expected: Option<(&[u32], &[f32])>| {
        for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
            let text = format!(r#"{{"embedding": {json}}}"#);
            let read = Document::from_json_text(version, &text);
            let found = read.ok().and_then(|it| it.embedding());
            let found = found.map(|it| (it.shape().to_vec(), it.to_f32().unwrap()));
            let expected = expected.map(|(shape, values)| (shape.to_vec(), values.to_vec()));
            assert_eq!(found, expected, "{json}");
        }
    };
    check("[1, -2, 0.5]", Some((&[3], &[1.0, -2.0, 0.5])));
    check(
        "[[1, 2], [3, 4], [5, 6]]",
        Some((&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
    );
    check("[[[1]], [[2]]]", Some((&[2, 1, 1], &[1.0, 2.0])));
    check("7", Some((&[], &[7.0])));
    check("[]", Some((&[0], &[])));
    check("[[], []]", Some((&[2, 0], &[])));
    check("null", None);
    for uneven in [
        "[1, [2]]",
        "[[1], 2]",
        "[[1], [2, 3]]",
        "[[1, 2], [3]]",
        "[[], [1]]",
        "[[1], []]",
        "[[[1]], [2]]",
        "[[], [[]]]",
        "[null]",
        "[1, null]",
        "[\"1\"]",
        "[true]",
        "[{}]",
        "\"1\"",
        "{}",
        "false",
    ] {
        check(uneven, None);
    }
}

#[test]
fn an_id_that_looks_like_a_field_of_the_second_version_leaves_the_version_recognisable() {
    let text = r#"{"id": "\n\u0001a", "text": "b"}"#;
    let document = Document::from_json_text(DocArrayVersion::V1, text).unwrap();
    let array = DocumentArray::from_iter([document]);
    let decoded = DocumentArray::decode(&array.encode()).unwrap();
    assert_eq!(
        decoded[0].to_json().unwrap(),
        json!({"id": "\n\u{1}a", "text": "b"})
    );
}

#[test]
fn of_fields_with_the_same_name_the_last_one_counts() {
    let text = r#"{"id": "a", "id": "b", "text": "c", "text": "d", "embedding": [1], "embedding": [2, 3],
        "chunks": [{}, {}], "chunks": [{"id": "e"}], "tags": {"f": 1}, "tags": {"g": 2}, "weight": null}"#;
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let document = Document::from_json_text(version, text).unwrap();
        let array = DocumentArray::from_iter([document]);
        let decoded = DocumentArray::decode(&array.encode()).unwrap();
        let mut json = decoded[0].to_json().unwrap();
        json.as_object_mut().unwrap().remove("weight");
        let expected = json!({"id": "b", "text": "d", "embedding": [2.0, 3.0], "chunks": [{"id": "e"}], "tags": {"g": 2}});
        assert_eq!(json, expected, "{version:?}");
    }
}

#[test]
fn a_number_that_is_no_32_bit_float_is_an_error() {
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let error = Document::from_json(version, &json!({"embedding": [1, 1e39]})).unwrap_err();
        let expected = "`embedding` has a number that is too large for a 32-bit float";
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn floats_are_written_as_short_as_possible() {
    let document =
        Document::from_json(DocArrayVersion::V1, &json!({"id": "a", "embedding": [0.1]}));
    assert_eq!(
        document.unwrap().to_json().unwrap().to_string(),
        r#"{"id":"a","embedding":[0.1]}"#
    );
}

#[test]
fn an_edited_document_of_the_second_version_keeps_its_version() {
    // An entry `chunks` without a value, a field that is not known, and one that is no entry although it has the number of one.
    let document = b"\x0a\x08\x0a\x06chunks\x18\x01\x0a\x02\x08\x08";
    let len = u8::try_from(document.len()).unwrap();
    let message = [&[0x0a, len + 2, 0x0a, len], &document[..]].concat();
    let mut documents = DocumentArray::decode(&message.into()).unwrap();
    assert_eq!(documents[0].version(), DocArrayVersion::V2);
    documents[0].set_text("x");
    assert!(documents[0].chunks_mut().unwrap().is_empty());
    let again = DocumentArray::decode(&documents.encode()).unwrap();
    assert_eq!(
        (again[0].version(), again[0].text().as_str()),
        (DocArrayVersion::V2, "x")
    );
}
