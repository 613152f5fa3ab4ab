use std::path::Path;

use flow_core::{EmbeddingType, Tensor};
use flow_executor::testing::{self, Loaded, Setup};
use flow_executor::{DocArrayVersion, Failure, Workers};

use super::*;

fn load(workspace: Option<&Path>, with: &Value) -> Result<Loaded, LoadError> {
    testing::load_as::<VectorIndex>(Setup {
        with: with.as_object().unwrap().clone(),
        workspace: workspace.map(Path::to_owned),
        ..Setup::default()
    })
}

fn doc_of(version: DocArrayVersion, id: &str, vector: &[f32]) -> Document {
    let mut doc = Document::of_version(version);
    doc.set_id(id);
    doc.set_text(format!("text of {id}"));
    doc.set_tags(json!({"from": id}).as_object().unwrap());
    doc.set_embedding(&Tensor::vector(vector));
    doc
}

fn doc(id: &str, vector: &[f32]) -> Document {
    doc_of(DocArrayVersion::V1, id, vector)
}

fn call(index: &Loaded, endpoint: &str, docs: &[Document]) -> Result<DocumentArray, Failure> {
    index.call(endpoint, docs.iter().cloned().collect())
}

/// Matches of one query.
fn matches(index: &Loaded, query: Document) -> Vec<Document> {
    let mut found = call(index, "/search", &[query]).unwrap();
    std::mem::take(found[0].matches_mut().unwrap())
}

fn ids(docs: &[Document]) -> Vec<String> {
    docs.iter().map(Document::id).collect()
}

fn count(index: &Loaded) -> Value {
    let status = index.results("/status", DocumentArray::new(), Map::new());
    status.unwrap()["count"].clone()
}

#[test]
fn matches_come_back_with_what_was_indexed_and_their_score_in_either_docarray_version() {
    for (stored, asked) in [
        (DocArrayVersion::V1, DocArrayVersion::V1),
        (DocArrayVersion::V2, DocArrayVersion::V2),
        (DocArrayVersion::V1, DocArrayVersion::V2),
        (DocArrayVersion::V2, DocArrayVersion::V1),
    ] {
        let index = load(None, &json!({})).unwrap();
        let docs = [
            doc_of(stored, "near", &[1.0, 0.0]),
            doc_of(stored, "far", &[-1.0, 0.0]),
        ];
        let back = call(&index, "/index", &docs).unwrap();
        assert_eq!(&*back, docs, "documents pass as they are");
        let found = matches(&index, doc_of(asked, "q", &[2.0, 0.0]));
        assert_eq!(ids(&found), ["near", "far"]);
        assert_eq!(found[0].version(), asked);
        assert_eq!(found[0].text(), "text of near");
        assert_eq!(found[0].tags()["from"], "near");
        assert_eq!(found[0].embedding().map(|it| it.len()), None);
        assert_eq!(found[0].score(SCORE), Some(1.0));
        assert_eq!(found[1].score(SCORE), Some(-1.0));
    }
}

#[test]
fn vectors_of_every_type_are_indexed_and_searched() {
    vectors_of_every_type(16);
}

#[test]
fn vectors_of_bits_need_not_fill_their_bytes() {
    vectors_of_every_type(12);
}

fn vectors_of_every_type(dimensions: usize) {
    let index = load(None, &json!({ "dimensions": dimensions })).unwrap();
    let types = [
        EmbeddingType::F32,
        EmbeddingType::F16,
        EmbeddingType::Int8,
        EmbeddingType::Uint8,
        EmbeddingType::Binary,
        EmbeddingType::Ubinary,
    ];
    let vector: Vec<f32> = (0..dimensions)
        .map(|it| [0.25, -0.25, -0.25][it % 3])
        .collect();
    let typed = |id: &str, of: EmbeddingType| {
        let mut typed = doc(id, &[]);
        typed.set_embedding(&of.encode(&vector));
        typed
    };
    for of in types {
        call(&index, "/index", &[typed(&format!("{of:?}"), of)]).unwrap();
    }
    for of in types {
        let found = matches(&index, typed("q", of));
        assert_eq!(found.len(), types.len());
        for one in found {
            let score = one.score(SCORE).unwrap();
            assert!(score > 0.9999, "{of:?} finds {} with {score}", one.id());
        }
    }
}

#[test]
fn a_document_in_parts_is_found_by_its_parts_and_deleted_whole() {
    let index = load(None, &json!({})).unwrap();
    let mut whole = doc("d", &[1.0, 0.0]);
    for (place, vector) in [[0.0, 1.0], [0.5, 0.5]].iter().enumerate() {
        let mut chunk = doc(&format!("d-{place}"), vector);
        chunk.set_parent_id("d");
        whole.chunks_mut().unwrap().push(chunk);
    }
    call(&index, "/index", &[whole.clone(), doc("e", &[1.0, 0.1])]).unwrap();
    let found = matches(&index, doc("q", &[0.0, 1.0]));
    assert_eq!(ids(&found), ["d-0", "d-1", "e"]);
    assert_eq!(found[0].parent_id(), "d");
    assert_eq!(found[0].adjacency(), 1);
    call(
        &index,
        "/delete",
        &[Document::decode(DocArrayVersion::V1, whole.encode()).unwrap()],
    )
    .unwrap();
    assert_eq!(ids(&matches(&index, doc("q", &[0.0, 1.0]))), ["e"]);
    let ids = json!({"ids": ["e"]}).as_object().unwrap().clone();
    index
        .call_with("/delete", DocumentArray::new(), ids)
        .unwrap();
    assert_eq!(count(&index), 0);
}

#[test]
fn a_request_says_how_many_matches_it_wants() {
    let index = load(None, &json!({"top_k": 2})).unwrap();
    let docs: Vec<Document> = (0..5u8)
        .map(|it| doc(&it.to_string(), &[1.0, f32::from(it)]))
        .collect();
    call(&index, "/index", &docs).unwrap();
    assert_eq!(matches(&index, doc("q", &[1.0, 0.0])).len(), 2);
    for name in ["top_k", "limit"] {
        let parameters = json!({name: 4}).as_object().unwrap().clone();
        let queries = [doc("q", &[1.0, 0.0])].into_iter().collect();
        let mut found = index.call_with("/search", queries, parameters).unwrap();
        assert_eq!(found[0].matches_mut().unwrap().len(), 4);
    }
}

#[test]
fn a_misspelt_parameter_is_refused() {
    let index = load(None, &json!({})).unwrap();
    for (endpoint, name, hint) in [
        ("/search", "topk", "did you mean `top_k`?"),
        ("/delete", "id", "did you mean `ids`?"),
        ("/status", "verbose", "it accepts none"),
    ] {
        let parameters = json!({name: 4}).as_object().unwrap().clone();
        let said = index.call_with(endpoint, DocumentArray::new(), parameters);
        let expected = format!("`{endpoint}` accepts no parameter `{name}`; {hint}");
        check_refused(said, &expected);
    }
}

#[track_caller]
fn check_refused(outcome: Result<DocumentArray, Failure>, part: &str) {
    let failure = outcome.unwrap_err();
    assert_eq!(failure.code(), flow_core::Code::BadRequest);
    assert!(failure.message().contains(part), "{failure}");
}

#[test]
fn an_invalid_document_is_refused_and_changes_nothing() {
    let index = load(None, &json!({})).unwrap();
    call(&index, "/index", &[doc("a", &[1.0, 0.0])]).unwrap();
    let short = [doc("b", &[0.5, 0.5]), doc("c", &[1.0])];
    let expected = "document `c` has 1 values, but the index has vectors of 2";
    check_refused(call(&index, "/index", &short), expected);
    check_refused(
        call(&index, "/index", &[doc("n", &[f32::NAN, 0.0])]),
        "not all of it is finite",
    );
    check_refused(call(&index, "/search", &[doc("q", &[1.0])]), "has 1 values");
    check_refused(
        call(&index, "/search", &[Document::from_text("q")]),
        "an encoder has to come before the index",
    );
    assert_eq!(count(&index), 1);
}

#[test]
fn acknowledged_documents_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let with = json!({});
    let index = load(Some(folder.path()), &with).unwrap();
    let docs = ["a", "b", "c"].map(|id| doc(id, &[1.0, 0.5]));
    call(&index, "/index", &docs).unwrap();
    call(&index, "/delete", &docs[1..2]).unwrap();
    let error = load(Some(folder.path()), &with).err().unwrap().to_string();
    assert!(error.contains("another process keeps its index"), "{error}");
    drop(index);
    let index = reloaded(folder.path(), &with);
    assert_eq!(index.facts()["entries"], "2");
    let found = matches(&index, doc("q", &[1.0, 0.5]));
    assert_eq!(ids(&found), ["a", "c"]);
    assert_eq!(found[0].text(), "text of a");
}

/// The thread of the index before ends by itself, and leaves the folder then.
fn reloaded(folder: &Path, with: &Value) -> Loaded {
    loop {
        match load(Some(folder), with) {
            Ok(index) => return index,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("another process keeps its index"), "{text}");
                std::thread::yield_now();
            }
        }
    }
}

fn direction(number: u16) -> [f32; 2] {
    let angle = f32::from(number) * 0.002;
    [angle.cos(), angle.sin()]
}

/// Documents named by their numbers, each a little further round.
fn around(documents: u16) -> Vec<Document> {
    let all = 0..documents;
    all.map(|it| doc(&it.to_string(), &direction(it))).collect()
}

fn log_bytes(index: &Loaded) -> u64 {
    let status = index.results("/status", DocumentArray::new(), Map::new());
    status.unwrap()["log_bytes"].as_u64().unwrap()
}

#[test]
fn a_log_with_mostly_deleted_documents_is_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let with = json!({"sync": false});
    let index = load(Some(folder.path()), &with).unwrap();
    let docs = around(1200);
    call(&index, "/index", &docs).unwrap();
    let before = log_bytes(&index);
    call(&index, "/delete", &docs[..1100]).unwrap();
    assert!(log_bytes(&index) * 5 < before);
    let kept = ids(&matches(&index, doc("q", &direction(1199))));
    assert_eq!(kept[..2], ["1199", "1198"]);
    drop(index);
    let index = reloaded(folder.path(), &with);
    assert_eq!(count(&index), 100);
    assert_eq!(ids(&matches(&index, doc("q", &direction(1199)))), kept);
}

#[test]
fn one_thread_keeps_an_index() {
    let two = testing::load_as::<VectorIndex>(Setup {
        workers: Workers::Number(2.try_into().unwrap()),
        ..Setup::default()
    });
    let error = two.err().unwrap().to_string();
    assert!(error.contains("it works on one thread only"), "{error}");
}

#[test]
fn documents_that_are_indexed_again_do_not_grow_the_log_without_limit() {
    let folder = tempfile::tempdir().unwrap();
    let index = load(Some(folder.path()), &json!({"sync": false})).unwrap();
    let docs = around(600);
    call(&index, "/index", &docs).unwrap();
    let once = log_bytes(&index);
    for _ in 0..9 {
        call(&index, "/index", &docs).unwrap();
    }
    assert!(log_bytes(&index) <= 4 * once);
    assert_eq!(count(&index), 600);
    let wanted = matches(&index, doc("q", &direction(599)));
    assert_eq!(ids(&wanted)[..2], ["599", "598"]);
}

#[test]
fn more_matches_than_there_are_documents_is_all_of_them() {
    let index = load(None, &json!({"top_k": u32::MAX})).unwrap();
    call(&index, "/index", &around(600)).unwrap();
    assert_eq!(matches(&index, doc("q", &direction(0))).len(), 600);
}

#[test]
fn an_array_that_has_a_shape_and_no_bytes_is_refused() {
    let index = load(None, &json!({})).unwrap();
    let mut bomb = doc("bomb", &[]);
    let huge = Tensor::from_parts(vec![64 << 20], "<f4".into(), bytes::Bytes::new());
    bomb.set_embedding(&huge);
    for endpoint in ["/index", "/search"] {
        let failure = call(&index, endpoint, std::slice::from_ref(&bomb)).unwrap_err();
        let expected = "has the shape of 67108864 values, and 0 bytes of them";
        assert!(failure.message().contains(expected), "{failure}");
    }
}

#[test]
fn an_infinite_score_is_refused_and_no_search_fails_because_of_it() {
    // `scores["own"].value` of DocArray v1 is NaN.
    const SCORES: &[u8] = b"\x92\x01\x0c\x0a\x03own\x12\x05\x0d\x00\x00\xc0\x7f";
    let index = load(None, &json!({})).unwrap();
    let raw = [&doc("bad", &[1.0, 0.0]).encode()[..], SCORES].concat();
    let mut bad = Document::decode(DocArrayVersion::V1, raw.into()).unwrap();
    let failure = call(&index, "/index", &[bad.clone()]).unwrap_err();
    assert!(failure.message().contains("not finite"), "{failure}");
    // A log of an earlier version may have such a document.
    bad.set_score(SCORE, 1.0, "q");
    assert_eq!((bad.score(SCORE), bad.score("own")), (Some(1.0), None));
}

#[test]
fn matches_of_one_call_are_limited() {
    let index = load(None, &json!({})).unwrap();
    let docs: Vec<Document> = (0..2000)
        .map(|id| doc(&id.to_string(), &[1.0, 0.0]))
        .collect();
    call(&index, "/index", &docs).unwrap();
    let parameters = |top_k: usize| {
        let parameters = json!({ "top_k": top_k });
        parameters.as_object().unwrap().clone()
    };
    let queries: DocumentArray = docs[..600].iter().cloned().collect();
    let failure = index.call_with("/search", queries.clone(), parameters(2000));
    let failure = failure.unwrap_err();
    assert!(
        failure.message().contains("at most 1000000 matches"),
        "{failure}"
    );
    let failure = index.call_with("/search", queries, parameters(100_001));
    let failure = failure.unwrap_err();
    assert!(failure.message().contains("100000 or less"), "{failure}");
}

#[test]
fn the_first_caller_does_not_choose_the_dimensions_where_an_option_does() {
    let index = load(None, &json!({"dimensions": 2})).unwrap();
    let failure = call(&index, "/index", &[doc("a", &[1.0])]).unwrap_err();
    assert!(failure.message().contains("vectors of 2"), "{failure}");
    call(&index, "/index", &[doc("a", &[1.0, 0.0])]).unwrap();
}

#[test]
fn the_parts_of_one_document_are_deleted_in_linear_time() {
    let index = load(None, &json!({})).unwrap();
    let parts: Vec<Document> = (0..50_000)
        .map(|place| {
            let mut part = doc(&format!("d-{place}"), &[1.0, 0.0]);
            part.set_parent_id("d");
            part
        })
        .collect();
    call(&index, "/index", &parts).unwrap();
    let started = std::time::Instant::now();
    // The same id many times is the same document.
    let ids = vec![doc("d", &[1.0]); 1000];
    call(&index, "/delete", &ids).unwrap();
    assert_eq!(count(&index), json!(0));
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn a_log_that_cannot_be_written_anew_fails_no_request_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let index = load(Some(folder.path()), &json!({})).unwrap();
    let docs: Vec<Document> = (0..3000)
        .map(|it| doc(&it.to_string(), &[1.0, 0.0]))
        .collect();
    call(&index, "/index", &docs).unwrap();
    // A file cannot be written where there is a folder.
    let own = folder.path().join("executor");
    let in_the_way = own.join("index.log.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let before = std::fs::metadata(own.join("index.log")).unwrap().len();
    call(&index, "/delete", &docs[..2000]).unwrap();
    let after = std::fs::metadata(own.join("index.log")).unwrap().len();
    assert!(after > before, "it was not written anew");
    call(&index, "/index", &[doc("last", &[1.0, 0.0])]).unwrap();
    assert_eq!(count(&index), json!(1001));
    drop(index);
    std::fs::remove_dir(&in_the_way).unwrap();
    let index = reloaded(folder.path(), &json!({}));
    assert_eq!(count(&index), json!(1001));
    let renewed = std::fs::metadata(own.join("index.log")).unwrap().len();
    assert!(renewed < before, "it is written anew at the next start");
}

/// Documents with vectors of 70 values, from a fixed seed.
fn random_docs(ids: std::ops::Range<usize>) -> Vec<Document> {
    let mut state = u32::try_from(ids.start).unwrap();
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0
    };
    let docs = ids.map(|id| {
        doc(
            &id.to_string(),
            &std::array::from_fn::<_, 70, _>(|_| next()),
        )
    });
    docs.collect()
}

/// The ids and scores of the matches of some queries.
fn found(index: &Loaded) -> Vec<Vec<(String, f32)>> {
    let of = |found: Document| (found.id(), found.score(SCORE).unwrap());
    let queries = random_docs(90_000..90_020).into_iter();
    queries
        .map(|query| matches(index, query).into_iter().map(of).collect())
        .collect()
}

fn assert_close(actual: &[Vec<(String, f32)>], expected: &[Vec<(String, f32)>]) {
    for (actual, expected) in actual.iter().flatten().zip(expected.iter().flatten()) {
        assert_eq!(actual.0, expected.0);
        assert!(
            (actual.1 - expected.1).abs() < 1e-6,
            "{actual:?}, {expected:?}"
        );
    }
}

#[test]
fn quantized_vectors_have_the_matches_and_scores_of_floats_also_after_compaction_and_restarts() {
    let steps = |index: &Loaded| {
        call(index, "/index", &random_docs(0..3000)).unwrap();
        let first = found(index);
        // More than half are gone, so the log is rewritten, and vectors begin elsewhere.
        call(index, "/index", &random_docs(100..2900)).unwrap();
        call(index, "/delete", &random_docs(0..2500)).unwrap();
        call(index, "/index", &random_docs(5000..5100)).unwrap();
        (first, found(index))
    };
    let expected = steps(&load(None, &json!({})).unwrap());
    for quantization in ["int8", "binary"] {
        // All entries are candidates.
        let with = json!({"quantization": quantization, "oversampling": 300});
        let folder = tempfile::tempdir().unwrap();
        for workspace in [None, Some(folder.path())] {
            let index = load(workspace, &with).unwrap();
            let (first, second) = steps(&index);
            assert_close(&first, &expected.0);
            assert_close(&second, &expected.1);
        }
        let index = reloaded(folder.path(), &with);
        assert_close(&found(&index), &expected.1);
        drop(index);
        // The log does not depend on the options.
        let index = reloaded(folder.path(), &json!({}));
        assert_close(&found(&index), &expected.1);
    }
}

#[test]
fn candidates_are_the_nearest_by_their_codes() {
    for quantization in ["int8", "binary"] {
        let with = json!({"quantization": quantization, "oversampling": 1, "top_k": 1});
        let index = load(None, &with).unwrap();
        let docs = random_docs(0..500);
        call(&index, "/index", &docs).unwrap();
        for doc in docs {
            assert_eq!(ids(&matches(&index, doc.clone())), [doc.id()]);
        }
    }
}

#[test]
fn options_of_quantization_are_checked() {
    for (with, expected) in [
        (
            json!({"oversampling": 0}),
            "`oversampling` must be between 1 and 1000",
        ),
        (
            json!({"oversampling": 1001}),
            "`oversampling` must be between 1 and 1000",
        ),
        (json!({"quantization": "int4"}), "int4"),
    ] {
        let error = load(None, &with).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
