//! The main job: `flow up flows/encode.yml`, and stock clients get vectors.

use flow_core::{Deadline, Document, DocumentArray};
use flow_kernels::{CpuPrecision, InstructionSet, Kernels};
use flow_proto::Envelope;
use flow_tests::{
    DocArrayVersion, Program, TestFlow, client, flow_command, flow_file, python, texts,
};
use serde_json::Value;

/// The reference that the encoder's own tests use, so that the two cannot differ.
fn reference(file: &str) -> String {
    let folder = flow_file("../crates/flow-models/tests/fidelity");
    folder.join(file).to_str().unwrap().to_owned()
}

fn check(version: DocArrayVersion) {
    let flow = TestFlow::file("encode.yml");
    flow.expect("documents without a text get no vector");
    let arguments = [
        flow.port().to_string(),
        reference("texts.jsonl"),
        reference("vectors.f32"),
    ];
    let Some(got) = python(version, "encode.py", &arguments) else {
        return;
    };
    let encoded = &got["encoded"];
    assert_eq!(encoded["texts"], true, "{got}");
    assert_eq!(encoded["shape"][1], 384);
    assert!(encoded["shape"][0].as_u64().unwrap() >= 60);
    assert_eq!(encoded["dtype"], "float32");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&encoded["cosine"]) >= 0.999_999, "{encoded}");
    assert!(number(&encoded["difference"]) <= 1e-5, "{encoded}");
    for (name, dtype, len) in [
        ("f16", "float16", 384),
        ("int8", "int8", 384),
        ("uint8", "uint8", 384),
        ("binary", "int8", 48),
        ("ubinary", "uint8", 48),
    ] {
        let expected = serde_json::json!({"dtype": dtype, "shape": [8, len], "is_right": true});
        assert_eq!(got["types"][name], expected, "{name}");
    }
    assert_eq!(got["unary"], 384);
    assert_eq!(got["without_text"], serde_json::json!([false, true]));
}

#[test]
fn a_stock_client_of_docarray_v1_gets_the_vectors_of_sentence_transformers() {
    check(DocArrayVersion::V1);
}

#[test]
fn a_stock_client_of_docarray_v2_gets_the_vectors_of_sentence_transformers() {
    check(DocArrayVersion::V2);
}

#[tokio::test]
async fn a_document_without_text_passes_unchanged_beside_one_with() {
    let flow = TestFlow::file("encode.yml");
    flow.expect("documents without a text get no vector");
    let mut with_tags = Document::new();
    with_tags.set_tags(serde_json::json!({"page": 3}).as_object().unwrap());
    let sent = with_tags.encode();
    let documents: DocumentArray = [with_tags, Document::from_text("a text")]
        .into_iter()
        .collect();
    let request = Envelope {
        data: Some(documents.encode()),
        ..texts("/encode", &[])
    };
    let reply = client(&flow)
        .await
        .single(request, Deadline::NEVER)
        .await
        .unwrap();
    let back = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    assert_eq!(back[0].encode(), sent);
    assert_eq!(back[1].embedding().unwrap().shape(), [384]);
}

/// The vector of one text, computed with these instructions at most, as the environment asks for.
async fn vector_by(set: InstructionSet) -> Vec<f32> {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: encoder, uses: sentence-encoder, env: {{FLOW_CPU_BACKEND: {set}}}}}]"
    ));
    let said = flow.program().line("encoder@");
    let used = Kernels::select(CpuPrecision::F32, Some(set))
        .unwrap()
        .instruction_set();
    for fact in [format!("back_end {used}"), "precision f32".to_owned()] {
        assert!(said.contains(&fact), "no `{fact}` in `{said}`");
    }
    let request = texts("/encode", &["Which instructions were these?"]);
    let client = client(&flow).await;
    let reply = client.single(request, Deadline::NEVER).await.unwrap();
    let back = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    back[0].embedding().unwrap().to_f32().unwrap()
}

#[tokio::test]
async fn every_back_end_says_its_name_at_the_start_and_gives_the_same_vectors() {
    let mut sets = InstructionSet::available();
    let first = vector_by(sets.next().unwrap()).await;
    for set in sets {
        for (got, wanted) in vector_by(set).await.iter().zip(&first) {
            assert!((got - wanted).abs() < 1e-6, "{set}: {got}, wanted {wanted}");
        }
    }
}

/// A flow with one option of the encoder's set to what cannot be.
fn check_refused(option: &str, code_wanted: i32, wanted: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yml");
    let encoder = format!("{{name: encoder, uses: sentence-encoder, uses_with: {{{option}}}}}");
    std::fs::write(&file, format!("jtype: Flow\nexecutors: [{encoder}]")).unwrap();
    let mut command = flow_command();
    command.arg("up").arg(&file).args(["--port", "0"]);
    let (code, up) = Program::run(command);
    assert_eq!(code, Some(code_wanted), "{}", up.said());
    for part in wanted {
        assert!(up.stderr().contains(part), "no `{part}` in {}", up.said());
    }
}

#[test]
fn a_model_that_is_not_there_fails_the_start_and_is_named() {
    check_refused(
        "model: ./no/such/model",
        1,
        &["`encoder` ended with exit code", "./no/such/model"],
    );
}

#[test]
fn an_option_that_the_encoder_does_not_have_is_refused_with_what_was_meant() {
    let wanted = [
        "executors.encoder.uses_with.divice",
        "did you mean `device`?",
    ];
    check_refused("divice: cpu", 2, &wanted);
}
