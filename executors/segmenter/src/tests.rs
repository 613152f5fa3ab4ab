use flow_executor::testing;
use serde_json::{Value, json};

use super::*;

/// Texts of the chunks of one document of this version of DocArray.
fn chunks(with: &Value, doc: Document) -> Vec<Document> {
    let segmenter = testing::load::<Segmenter>(with).unwrap();
    let mut docs = segmenter
        .call("/segment", [doc].into_iter().collect())
        .unwrap();
    std::mem::take(docs[0].chunks_mut().unwrap())
}

fn doc(version: DocArrayVersion) -> Document {
    let mut doc = Document::of_version(version);
    doc.set_id("d");
    doc.set_text("Öne. Two.");
    doc
}

#[test]
fn chunks_have_their_parent_and_position_in_both_docarray_versions() {
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let chunks = chunks(&json!({}), doc(version));
        let second = &chunks[1];
        assert_eq!(second.version(), version);
        assert_eq!(second.text(), "Two.");
        assert_eq!(second.id(), "d-1");
        assert_eq!(second.parent_id(), "d");
        assert_eq!(second.location(), [5.0, 9.0]);
        assert!((second.offset() - 1.0).abs() < f32::EPSILON);
    }
}

#[test]
fn cutting_again_gives_the_same_chunks_and_no_more() {
    let once = chunks(&json!({}), doc(DocArrayVersion::V1));
    let mut cut = doc(DocArrayVersion::V1);
    *cut.chunks_mut().unwrap() = once.clone();
    assert_eq!(chunks(&json!({}), cut), once);
}

#[test]
fn chunks_get_their_document_s_tags_unless_that_is_turned_off() {
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let mut tagged = doc(version);
        tagged.set_tags(json!({"title": "t"}).as_object().unwrap());
        let of_chunk = |with: &Value| chunks(with, tagged.clone())[1].tags();
        assert_eq!(of_chunk(&json!({}))["title"], "t");
        assert!(of_chunk(&json!({"copy_tags": false})).is_empty());
    }
}

#[test]
fn a_document_without_a_text_passes_unchanged() {
    let empty = Document::new();
    let segmenter = testing::load::<Segmenter>(&json!({})).unwrap();
    let docs = segmenter.call("/index", [empty.clone()].into_iter().collect());
    assert_eq!(&*docs.unwrap(), [empty]);
}

#[test]
fn queries_are_not_cut() {
    let segmenter = testing::load::<Segmenter>(&json!({})).unwrap();
    let docs = segmenter.call("/search", [doc(DocArrayVersion::V1)].into_iter().collect());
    assert!(!docs.unwrap()[0].has_chunks());
}

#[test]
fn a_request_may_say_how_it_is_cut() {
    let segmenter = testing::load::<Segmenter>(&json!({})).unwrap();
    let call = |parameters: Value| {
        let parameters = parameters.as_object().unwrap().clone();
        let docs = [doc(DocArrayVersion::V1)].into_iter().collect();
        segmenter.call_with("/segment", docs, parameters)
    };
    let mut docs = call(json!({"by": "words", "max_words": 2})).unwrap();
    assert_eq!(docs[0].chunks_mut().unwrap()[0].text(), "Öne. Two.");
    let error = call(json!({"by": "paragraphs"})).unwrap_err();
    assert_eq!(error.code(), flow_core::Code::BadRequest);
    assert!(error.message().contains("`by`"), "{error}");
    let error = call(json!({"max_word": 2})).unwrap_err();
    assert_eq!(
        error.message(),
        "`/segment` accepts no parameter `max_word`; did you mean `max_words`?"
    );
}

#[test]
fn unknown_options_are_an_error() {
    assert!(testing::load::<Segmenter>(&json!({"length": 5})).is_err());
    assert!(testing::load::<Segmenter>(&json!({"by": "words", "overlap": 128})).is_err());
}

#[test]
fn options_that_contradict_each_other_are_found_without_loading_it() {
    let with = json!({"by": "words", "max_words": 4, "overlap": 4});
    let found = flow_executor::check_options::<Segmenter>(with.as_object().unwrap());
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["`overlap` (4) must be less than `max_words` (4)"]);
}

/// What a request to cut a document is refused with.
fn refusal(with: &Value, doc: Document) -> String {
    let segmenter = testing::load::<Segmenter>(with).unwrap();
    let refused = segmenter.call("/segment", [doc].into_iter().collect());
    let error = refused.unwrap_err();
    assert_eq!(error.code(), flow_core::Code::BadRequest);
    error.message().to_owned()
}

#[test]
fn ids_and_tags_that_chunks_would_copy_too_often_are_refused() {
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        // 25,000 chunks with 200 KB each are 5 GB of tags, or 10 GB of ids.
        let text = "A. ".repeat(25_000);
        let mut long_id = Document::of_version(version);
        long_id.set_id(&"i".repeat(200_000));
        long_id.set_text(&text);
        let mut long_tags = doc(version);
        long_tags.set_text(&text);
        let tags = json!({"title": "t".repeat(200_000)});
        long_tags.set_tags(tags.as_object().unwrap());
        for doc in [long_id, long_tags] {
            let message = refusal(&json!({}), doc);
            assert!(
                message.starts_with("the chunks of this call would have more than 7"),
                "{message}"
            );
        }
    }
}

#[test]
fn the_documents_of_a_call_have_one_limit_together() {
    let mut tagged = doc(DocArrayVersion::V1);
    tagged.set_text("A. ".repeat(1000));
    tagged.set_tags(json!({"title": "t".repeat(40_000)}).as_object().unwrap());
    let segmenter = testing::load::<Segmenter>(&json!({})).unwrap();
    let call = |docs: usize| {
        let docs = vec![tagged.clone(); docs];
        segmenter.call("/segment", docs.into_iter().collect())
    };
    assert!(call(1).is_ok());
    assert!(call(2).is_err());
}

#[test]
fn a_text_that_is_repeated_too_often_is_refused() {
    let mut long = doc(DocArrayVersion::V1);
    long.set_text("word ".repeat(400_000));
    let message = refusal(
        &json!({"by": "words", "max_words": 1000, "overlap": 999}),
        long,
    );
    assert!(message.contains("more than 16 times"), "{message}");
}

#[test]
fn ordinary_texts_are_cut_however_long_they_are() {
    // Two megabytes of short sentences, with an id and tags as usual.
    let mut long = doc(DocArrayVersion::V1);
    long.set_id("0123456789abcdef0123456789abcdef");
    long.set_text("Well, who was it then? ".repeat(90_000));
    long.set_tags(json!({"title": "A dialogue"}).as_object().unwrap());
    assert_eq!(chunks(&json!({}), long).len(), 90_000);
}
