//! Executors in Python on our own runtime, and the same files on Jina's, which must give the same replies.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_tests::{
    DocArrayVersion, Program, Said, TestFlow, client, flow_command, flow_serve, interpreter,
    measured, post, request, said, texts,
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

/// The executor on our runtime. None: the package is not set up.
fn ours(uses: &str, keys: &str) -> Option<TestFlow> {
    let python = flow_serve()?;
    let python = python.to_str().unwrap();
    let table = folder();
    let path = ("PYTHONPATH", table.to_str().unwrap());
    Some(up_with(uses, keys, &[("FLOW_PYTHON", python), path]))
}

/// The executor on Jina's runtime. None: Jina is not set up.
fn stock(uses: &str, keys: &str) -> Option<TestFlow> {
    let python = interpreter(DocArrayVersion::V1)?;
    let python = python.to_str().unwrap();
    Some(up_with(uses, keys, &[("FLOW_PYTHON", python)]))
}

async fn one(flow: &TestFlow, endpoint: &str, sent: &[&str]) -> Said {
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
fn shared(said: &Said) -> Value {
    let failure = said.failure.as_deref();
    let failure = failure.map(|text| text.trim_start_matches("executor `table`: ").to_owned());
    let results: Vec<&Value> = said.results.values().collect();
    json!([said.texts, failure, said.exception, results])
}

#[tokio::test]
async fn a_method_may_do_what_it_may_do_with_jina_and_has_the_same_effect() {
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
async fn an_executor_is_named_by_its_file_its_class_its_module_or_its_config() {
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
    let most: Vec<Said> = post(&flow, many).await;
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
    let arguments = [&flow.port().to_string(), "/stream", "a"].map(str::to_owned);
    let asked = move || flow_tests::python(DocArrayVersion::V1, "stream.py", &arguments);
    let Some(texts) = tokio::task::spawn_blocking(asked).await.unwrap() else {
        return;
    };
    assert_eq!(texts, json!(["a 0", "a 1", "a 2"]));
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
async fn ten_thousand_calls_leave_no_document_and_no_memory_behind() {
    let Some(flow) = ours("TABLE/executor.py:Table", "") else {
        return;
    };
    let touch = |requests: usize| {
        (0..requests)
            .map(|_| texts("/touch", &["a", "b"]))
            .collect()
    };
    let mut alive = Vec::new();
    for requests in [2_000, 10_000] {
        let said = post(&flow, touch(requests)).await;
        assert!(
            said.iter().all(|said| said.texts == ["a", "b"]),
            "{:?}",
            said[0]
        );
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

/// An executor that uses the real docarray, on our runtime. None: the package or docarray is not set up.
fn with_docarray(version: DocArrayVersion, example: &str) -> Option<(TestFlow, tempfile::TempDir)> {
    let package = flow_serve()?.parent()?.parent()?.join("lib");
    let python = interpreter(version)?;
    let found = std::fs::read_dir(package).unwrap().flatten();
    let mut found = found.map(|it| it.path().join("site-packages/flow_serve"));
    // Of the other environment's packages only ours: they have another NumPy.
    let packages = tempfile::tempdir().unwrap();
    let package = found.find(|it| it.is_dir()).unwrap();
    std::os::unix::fs::symlink(package, packages.path().join("flow_serve")).unwrap();
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
