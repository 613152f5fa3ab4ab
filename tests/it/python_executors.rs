//! Executors in Python on our own runtime, and the same files on Jina's, which must give the same replies.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow_core::{DataType, Deadline, Document, DocumentArray, Tensor};
use flow_tests::{
    DocArrayVersion, PlainReply, Program, TestFlow, client, flow_command, flow_serve,
    flow_serve_alone, interpreter, measured, post, request, said, texts,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// What the launcher logs when a process is gone.
const DIED: &str = "process died and is restarted";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python/table")
}

/// A flow with the executor of `python/table`, by this `uses` and with further keys.
fn up_with(uses: &str, keys: &str, variables: &[(&str, &str)]) -> TestFlow {
    let folder = folder();
    let yaml = format!("executors: [{{name: table, uses: '{uses}'{keys}}}]");
    let yaml = yaml.replace("TABLE", folder.to_str().unwrap());
    TestFlow::up_in(&yaml, variables)
}

/// The executor on our runtime; `None` if the package is not set up.
fn ours(uses: &str, keys: &str) -> Option<TestFlow> {
    let python = flow_serve()?;
    let python = python.to_str().unwrap();
    let table = folder();
    let path = ("PYTHONPATH", table.to_str().unwrap());
    Some(up_with(uses, keys, &[("FLOW_PYTHON", python), path]))
}

/// The executor on Jina's runtime; `None` if Jina is not set up.
fn stock(uses: &str, keys: &str) -> Option<TestFlow> {
    let python = interpreter(DocArrayVersion::V1)?;
    let python = python.to_str().unwrap();
    Some(up_with(uses, keys, &[("FLOW_PYTHON", python)]))
}

async fn one(flow: &TestFlow, endpoint: &str, sent: &[&str]) -> PlainReply {
    post(flow, vec![texts(endpoint, sent)]).await.remove(0)
}

/// The requests of the table.
fn table_requests() -> Vec<flow_proto::Envelope> {
    let parameters = json!({"k": 5, "table": {"own": "for it"}, "other__own": "for another"});
    vec![
        texts("/in-place", &["a", "b"]),
        texts("/replace", &["a", "b"]),
        texts("/also", &["a"]),
        request("/results", &["a"], &parameters),
        texts("/number", &["a"]),
        texts("/fail", &["a"]),
        texts("/own-error", &["a"]),
        texts("/async", &["a"]),
        texts("/not-bound", &["a"]),
        texts("/parts", &["a", "b"]),
        texts("/in-place", &["after the failures"]),
        request("/about", &["a"], &json!({})),
    ]
}

/// What a reply says, in the words that both runtimes share: Jina names results after the process and describes an
/// exception without the executor.
fn shared(said: &PlainReply) -> Value {
    let failure = said.failure.as_deref();
    let failure = failure.map(|text| text.trim_start_matches("executor `table`: ").to_owned());
    let results: Vec<&Value> = said.results.values().collect();
    json!([said.texts, failure, said.exception, results])
}

#[tokio::test]
async fn methods_have_the_same_effect_as_with_jina() {
    let Some(flow) = ours("TABLE/config.yml", "") else {
        return;
    };
    flow.expect("Traceback")
        .expect("ValueError")
        .expect("TypeError")
        .expect("Unwell");
    let said = post(&flow, table_requests()).await;
    let said: Vec<Value> = said.iter().map(shared).collect();
    let results = json!({"documents": 1, "k": 5, "own": "for it", "list": [1, {"a": null}]});
    let parts = json!({"documents": ["a", "b"], "matrix": [["a", "b"]], "map": ["gateway"]});
    let about = json!({
        "suffix": "from the config", "name": "named", "context": null,
        "keywords": ["docs", "docs_map", "docs_matrix", "parameters"],
    });
    let not_documents =
        "TypeError('The return type must be DocList / Dict / `None`, but getting 5')";
    let expected = [
        json!([["A", "B"], null, null, []]),
        json!([["2 documents"], null, null, []]),
        json!([["1 documents"], null, null, []]),
        json!([["changed"], null, null, [results]]),
        json!([["a"], not_documents, "TypeError", []]),
        json!([["a"], "ValueError('it is unwell', 7)", "ValueError", []]),
        json!([["a"], "Unwell('its own class')", "Unwell", []]),
        json!([["a after a pause"], null, null, []]),
        json!([["a"], null, null, []]),
        json!([["a", "b"], null, null, [parts]]),
        json!([["AFTER THE FAILURES"], null, null, []]),
        json!([["a"], null, null, [about]]),
    ];
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!(said, expected);
    }

    let Some(flow) = stock("TABLE/config.yml", "") else {
        return;
    };
    flow.expect("Traceback")
        .expect("ValueError")
        .expect("TypeError")
        .expect("Unwell");
    let stock = post(&flow, table_requests()).await;
    let stock: Vec<Value> = stock.iter().map(shared).collect();
    assert_eq!(said, stock);
}

#[tokio::test]
async fn the_default_method_answers_what_no_other_one_does() {
    let Some(flow) = ours("TABLE/executor.py:WithDefault", "") else {
        return;
    };
    assert_eq!(
        one(&flow, "/other", &["a"]).await.texts,
        ["the default method"]
    );
    assert_eq!(one(&flow, "/in-place", &["a"]).await.texts, ["A"]);
}

#[tokio::test]
async fn an_executor_is_given_by_its_file_its_class_its_module_or_its_config() {
    if flow_serve().is_none() {
        return;
    }
    for (uses, keys) in [
        ("TABLE/executor.py:Table", ""),
        ("executor:Table", ""),
        ("TABLE", ""),
        ("TABLE/config.yml", ""),
        ("Table", ", py_modules: ['TABLE/executor.py']"),
    ] {
        let flow = ours(uses, keys).unwrap();
        assert_eq!(one(&flow, "/in-place", &["a"]).await.texts, ["A"], "{uses}");
    }
}

#[tokio::test]
async fn the_flow_file_overrides_options_and_endpoints() {
    let keys = ", uses_with: {suffix: from the flow}, uses_requests: {/mine: in_place, /about: about}, \
                uses_metas: {name: other}";
    let Some(flow) = ours("TABLE/config.yml", keys) else {
        return;
    };
    assert_eq!(one(&flow, "/mine", &["a"]).await.texts, ["A"]);
    let about = one(&flow, "/about", &["a"]).await;
    let about = about.results.values().next().unwrap();
    assert_eq!(
        (&about["suffix"], &about["name"]),
        (&json!("from the flow"), &json!("other"))
    );
}

#[tokio::test]
async fn the_parts_of_a_join_arrive_apart() {
    let Some(python) = flow_serve() else { return };
    let yaml = format!(
        "executors:\n- {{name: a, uses: echo}}\n- {{name: b, uses: echo, needs: gateway}}\n\
         - {{name: table, uses: '{}/config.yml', needs: [a, b], no_reduce: true}}\n",
        folder().display()
    );
    let flow = TestFlow::up_in(&yaml, &[("FLOW_PYTHON", python.to_str().unwrap())]);
    let said = one(&flow, "/parts", &["x", "y"]).await;
    let results = said.results.values().next().unwrap();
    assert_eq!(results["matrix"], json!([["x", "y"], ["x", "y"]]));
    assert_eq!(results["map"], json!(["a", "b"]));
    assert_eq!(results["documents"], json!(["x", "y", "x", "y"]));
}

#[tokio::test]
async fn coroutines_overlap_and_other_methods_do_not() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    // Neither returns before both are in the method.
    let both = post(&flow, vec![texts("/meet", &["a"]), texts("/meet", &["b"])]).await;
    assert_eq!(
        (&both[0].texts[..], &both[1].texts[..]),
        (&["a".to_owned()][..], &["b".to_owned()][..])
    );
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    let many = (0..8).map(|_| texts("/alone", &["a"])).collect();
    let most: Vec<PlainReply> = post(&flow, many).await;
    for said in most {
        let results = said.results.values().next().unwrap();
        assert_eq!(results["most"], json!(1), "{said:?}");
    }
}

#[tokio::test]
async fn requests_share_calls_up_to_the_preferred_size() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    let requests = vec![
        texts("/batch", &["a", "b"]),
        texts("/batch", &["c"]),
        texts("/batch", &["d", "e"]),
    ];
    let said = post(&flow, requests).await;
    let texts: Vec<&str> = said
        .iter()
        .flat_map(|said| &said.texts)
        .map(String::as_str)
        .collect();
    assert_eq!(texts, ["4", "4", "4", "4", "1"]);
}

#[tokio::test]
async fn a_generator_streams_its_documents() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    if let Some(texts) = streamed(&flow, "/stream").await {
        assert_eq!(texts, json!(["a 0", "a 1", "a 2"]));
    }
}

/// What an endpoint streams for a document, through Jina's client; `None` if Jina is not set up.
async fn streamed(flow: &TestFlow, endpoint: &str) -> Option<Value> {
    let arguments = [&flow.port().to_string(), endpoint, "a"].map(str::to_owned);
    let asked = move || flow_tests::python(DocArrayVersion::V1, "stream.py", &arguments);
    tokio::task::spawn_blocking(asked).await.unwrap()
}

#[tokio::test]
async fn an_asynchronous_generator_streams_its_documents() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    if let Some(texts) = streamed(&flow, "/async-stream").await {
        assert_eq!(texts, json!(["a 0", "a 1", "a 2"]));
    }
}

#[tokio::test]
async fn a_custom_metric_of_a_method_decides_which_requests_share_a_call() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    let requests = vec![
        texts("/weigh", &["aaaa"]),
        texts("/weigh", &["bb"]),
        texts("/weigh", &["cccccc"]),
    ];
    let said = post(&flow, requests).await;
    let said: Vec<&str> = said.iter().map(|said| said.texts[0].as_str()).collect();
    assert_eq!(said, ["aaaabb", "aaaabb", "cccccc"]);
}

#[tokio::test]
async fn metrics_of_an_executor_are_among_those_of_its_process() {
    let Some(flow) = ours("TABLE/executor.py:Table", ", monitoring: true") else {
        return;
    };
    flow.expect("Traceback")
        .expect("AttributeError")
        .expect("ValueError");
    let failure = |said: PlainReply| said.failure.unwrap();
    let measured = failure(one(&flow, "/measure", &["a", "b"]).await);
    assert!(measured.contains("no attribute `nothing`"), "{measured}");
    let refused = failure(one(&flow, "/bad-metric", &["a"]).await);
    assert!(refused.contains("`jina_not a name`"), "{refused}");

    let numbers = flow_tests::scrape(&crate::monitoring::of_executor(&flow, "table"));
    let number = |name: &str| numbers.get(&format!("jina_{name}{{runtime_name=\"table/rep-0\"}}"));
    for (name, times) in [
        ("block_seconds", 1),
        ("shouting_seconds", 2),
        ("wait_seconds", 1),
        ("failing_seconds", 1),
        ("count_seconds", 1),
    ] {
        assert_eq!(number(&format!("{name}_count")), times, "{name}");
    }
    for name in ["wait", "count"] {
        // To the end of what it computes: both last 10 ms after they were called.
        let seconds = numbers.seconds(&format!(
            "jina_{name}_seconds_sum{{runtime_name=\"table/rep-0\"}}"
        ));
        assert!(seconds >= 0.009, "{name}: {seconds}");
    }
}

#[tokio::test]
async fn without_monitoring_an_executor_may_measure_and_nothing_happens() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    flow.expect("Traceback").expect("AttributeError");
    let failure = one(&flow, "/measure", &["a"]).await.failure.unwrap();
    assert!(failure.contains("no attribute `nothing`"), "{failure}");
    assert_eq!(one(&flow, "/bad-metric", &["a"]).await.failure, None);
}

#[tokio::test]
async fn an_exception_that_the_flow_file_lists_ends_the_process_after_its_reply() {
    let keys = ", exit_on_exceptions: [Unwell, KeyError]";
    let Some(flow) = ours("TABLE/executor.py:Table", keys) else {
        return;
    };
    flow.expect("Traceback")
        .expect("ValueError")
        .expect("Unwell")
        .expect(DIED)
        .expect("replica cannot be reached")
        .expect("restart");
    let failure = one(&flow, "/fail", &["a"]).await.failure.unwrap();
    assert!(
        failure.contains("ValueError('it is unwell', 7)"),
        "{failure}"
    );
    assert_eq!(one(&flow, "/in-place", &["a"]).await.texts, ["A"]);
    let failure = one(&flow, "/own-error", &["a"]).await.failure.unwrap();
    assert!(failure.contains("Unwell('its own class')"), "{failure}");
    flow.program().line(DIED);
    assert_eq!(one(&flow, "/in-place", &["b"]).await.texts, ["B"]);
}

#[tokio::test]
async fn a_method_that_ends_its_process_harms_its_own_request_only() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    flow.expect("SystemExit")
        .expect("Traceback")
        .expect(DIED)
        .expect("cannot continue")
        .expect("replica cannot be reached")
        .expect("restart");
    let client = client(&flow).await;
    let exited = client.single(texts("/exit", &["a"]), Deadline::NEVER).await;
    let failure = said(&exited.unwrap()).failure.unwrap();
    assert!(failure.contains("SystemExit(3)"), "{failure}");
    flow.program().line(DIED);
    assert_eq!(one(&flow, "/in-place", &["a"]).await.texts, ["A"]);
    let seen = flow.program().lines().len();
    client
        .single(texts("/crash", &["a"]), Deadline::NEVER)
        .await
        .unwrap_err();
    flow.program().line_from(seen, "ready and listening on");
    assert_eq!(one(&flow, "/in-place", &["b"]).await.texts, ["B"]);
}

#[tokio::test]
async fn a_method_that_does_not_return_harms_its_own_request_only() {
    let Some(flow) = ours("TABLE/executor.py:Table", ", workers: 2") else {
        return;
    };
    let client = client(&flow).await;
    let deadline = Deadline::after(Instant::now(), Some(Duration::from_millis(300)));
    let failure = client
        .single(texts("/block", &["a"]), deadline)
        .await
        .unwrap_err();
    assert_eq!(
        failure.code(),
        flow_core::Code::DeadlineExceeded,
        "{failure}"
    );
    assert_eq!(one(&flow, "/in-place", &["a"]).await.texts, ["A"]);
    flow.expect("grace").expect("not closed").expect("kill");
}

#[tokio::test]
async fn a_shape_without_its_bytes_is_refused_before_memory_is_made_for_it() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    flow.expect("Traceback").expect("ValueError");
    let mut document = Document::of_version(flow_core::DocArrayVersion::V1);
    // 4 TiB as floats.
    let shape = vec![1 << 20, 1 << 20];
    let tensor = Tensor::from_parts(shape, DataType::F32.into(), Bytes::new());
    document.set_embedding(&tensor);
    let documents: DocumentArray = [document].into_iter().collect();
    let mut hostile = texts("/norm", &[]);
    hostile.data = Some(documents.encode());
    let said = post(&flow, vec![hostile]).await.remove(0);
    let failure = said.failure.unwrap_or_default();
    assert!(
        failure.contains("an array of shape (1048576, 1048576) has no bytes; expected its values"),
        "{failure}"
    );
    assert_eq!(one(&flow, "/touch", &["a"]).await.texts, ["a"]);
}

#[tokio::test]
async fn ten_thousand_calls_leave_no_document_and_no_memory_behind() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    let touches = || (0..100).map(|_| texts("/touch", &["a", "b"])).collect();
    let mut alive = Vec::new();
    // In rounds of a hundred, so that the queues are as long while it warms up as they are afterwards.
    for rounds in [20, 100] {
        for _ in 0..rounds {
            let said = post(&flow, touches()).await;
            assert!(
                said.iter().all(|said| said.texts == ["a", "b"]),
                "{:?}",
                said[0]
            );
        }
        let said = one(&flow, "/alive", &["a"]).await;
        let results = said.results.values().next().unwrap();
        assert_eq!(results["documents"], json!(0), "{results}");
        alive.push(results["kilobytes"].as_u64().unwrap());
    }
    let grown = alive[1].saturating_sub(alive[0]);
    measured(&format!(
        "a Python executor grew by {grown} kB in 10,000 calls, to {} kB",
        alive[1]
    ));
    assert!(
        grown < 4_096,
        "it grew by {grown} kB in 10,000 calls: {alive:?}"
    );
}

#[tokio::test]
async fn an_executor_is_closed_when_its_flow_ends() {
    let Some(mut flow) = ours("TABLE/config.yml", "") else {
        return;
    };
    flow.program().line("Table: loaded");
    flow.program().signal(Signal::TERM);
    let ended = tokio::task::spawn_blocking(move || {
        let code = flow.program_mut().end().code();
        flow.program().line("Table: closed");
        code
    });
    assert_eq!(ended.await.unwrap(), Some(0));
}

#[test]
fn an_executor_that_cannot_be_loaded_says_why() {
    let Some(python) = flow_serve() else { return };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let check = |code: &str, uses: &str, parts: &[&str]| {
        write("mine.py", code);
        write(
            "flow.yml",
            &format!("jtype: Flow\nexecutors: [{{name: mine, uses: '{uses}'}}]\n"),
        );
        let mut command = flow_command();
        command
            .env("FLOW_PYTHON", &python)
            .arg("up")
            .arg(folder.path().join("flow.yml"));
        let (code, program) = Program::run(command);
        assert_ne!(code, Some(0));
        for part in parts {
            assert!(program.said().contains(part), "{part}: {}", program.said());
        }
    };
    let class = "from jina import Executor\nclass Mine(Executor):\n    pass\n";
    check(
        "import nothing_like_this",
        "mine.py",
        &["No module named 'nothing_like_this'"],
    );
    check(
        "x = 1",
        "mine.py",
        &["has no class that extends `Executor`"],
    );
    check(
        class,
        "mine.py:Other",
        &["has no executor class `Other`; it has `Mine`"],
    );
    check(
        "from jina import Executor\nclass Mine(Executor):\n    def __init__(self, **kwargs):\n        raise RuntimeError('no weights')\n",
        "mine.py",
        &["no weights"],
    );
}

/// An executor that uses the real docarray, on our runtime; `None` if the package or docarray is not set up.
pub(crate) fn with_docarray(
    version: DocArrayVersion,
    example: &str,
) -> Option<(TestFlow, tempfile::TempDir)> {
    // Of the other environment's packages only ours: they have another NumPy.
    let packages = flow_serve_alone()?;
    let python = interpreter(version)?;
    let file = folder().with_file_name(example).join("executor.py");
    let yaml = format!("executors: [{{name: encoder, uses: '{}'}}]", file.display());
    let variables = [
        ("FLOW_PYTHON", python.to_str().unwrap()),
        ("FLOW_PYTHON_RUNTIME", "flow"),
        ("PYTHONPATH", packages.path().to_str().unwrap()),
    ];
    Some((TestFlow::up_in(&yaml, &variables), packages))
}

async fn check_docarray(version: DocArrayVersion, example: &str) {
    let Some((flow, _packages)) = with_docarray(version, example) else {
        return;
    };
    let client = client(&flow).await;
    let reply = client.single(texts("/encode", &["a", "bc"]), Deadline::NEVER);
    let reply = reply.await.unwrap();
    assert_eq!(said(&reply).failure, None);
    let documents = flow_core::DocumentArray::decode(&reply.data.unwrap()).unwrap();
    let vector = |it: &flow_core::Document| it.embedding().unwrap().to_f32().unwrap();
    let vectors: Vec<Vec<f32>> = documents.iter().map(vector).collect();
    assert_eq!(vectors, [[1.0; 3], [2.0; 3]]);
    assert_eq!(documents[1].text(), "bc");
}

#[tokio::test]
async fn methods_get_the_documents_of_docarray_0_21_where_it_is_used() {
    check_docarray(DocArrayVersion::V1, "docarray_v1").await;
}

#[tokio::test]
async fn methods_get_the_documents_of_docarray_0_40_where_it_is_used() {
    check_docarray(DocArrayVersion::V2, "docarray_v2").await;
}
