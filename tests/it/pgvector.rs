//! Tests `pgvector-index` with a real server: it answers like `vector-index`, and it survives failures of the database.

mod calls;
mod failures;

use flow_core::{DocArrayVersion, Document, EmbeddingType};
use flow_tests::{Postgres, TestFlow, flow_file};
use serde_json::{Value, json};

use self::calls::{Numbers, call, count, document, found, index, matches, status};

/// Number of values in each vector of these tests.
const DIMENSIONS: usize = 12;

/// A flow with one index in memory and one in the database. Documents go through both, and queries go to one of them.
fn both(postgres: &Postgres, with: &str) -> TestFlow {
    TestFlow::up(&format!(
        "executors:
- {{name: memory, uses: vector-index, workspace: data}}
- {{name: database, uses: pgvector-index, uses_with: {{url: '{}'{with}}}}}",
        postgres.url()
    ))
}

/// Asserts that both indexes find the same documents with the same scores.
async fn compare(flow: &TestFlow, queries: &[Document], parameters: &Value) {
    for query in queries {
        let memory = found(flow, "memory", query, parameters).await;
        let database = found(flow, "database", query, parameters).await;
        let ids = |found: &[Document]| -> Vec<String> { found.iter().map(Document::id).collect() };
        assert_eq!(ids(&memory), ids(&database), "{}", query.id());
        for (one, other) in memory.iter().zip(&database) {
            let score = |it: &Document| it.score("cosine").unwrap();
            assert!(
                (score(one) - score(other)).abs() < 1e-5,
                "{one:?} {other:?}"
            );
            let same_score = |it: &Document| {
                let mut it = it.clone();
                it.set_score("cosine", 1.0, &query.id());
                it.encode()
            };
            assert_eq!(same_score(one), same_score(other));
        }
    }
}

#[tokio::test]
async fn an_index_in_postgresql_answers_as_one_in_memory() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = both(&postgres, ", dimensions: 12");
    let mut numbers = Numbers::default();
    let mut some = |prefix: &str, count: usize| -> Vec<Document> {
        let ids = (0..count).map(|it| format!("{prefix}{it}"));
        let documents = ids.map(|id| document(&id, &numbers.vector(DIMENSIONS)));
        documents.collect()
    };
    let queries = some("query", 5);
    compare(&flow, &queries, &Value::Null).await;

    let mut docs = some("a", 300);
    // Two documents with the same vector, one with a zero vector, one with parts, and one in the other version of DocArray.
    let twin = docs[7].embedding().unwrap();
    docs[250].set_embedding(&twin);
    docs.push(document("zeros", &[0.0; DIMENSIONS]));
    let mut parts = document("parts", &[1.0; DIMENSIONS]);
    for mut part in some("parts-", 3) {
        part.set_parent_id("parts");
        parts.chunks_mut().unwrap().push(part);
    }
    docs.push(parts.clone());
    index(&flow, &docs).await;
    let mut other = Document::of_version(DocArrayVersion::V2);
    other.set_id("v2");
    other.set_text("text of the other version");
    other.set_tags(json!({"page": 2}).as_object().unwrap());
    other.set_embedding(&queries[0].embedding().unwrap());
    index(&flow, &[other]).await;
    let queries = [
        &queries[..],
        &docs[7..8],
        &[document("zeros", &[0.0; DIMENSIONS])],
    ]
    .concat();
    compare(&flow, &queries, &Value::Null).await;
    compare(&flow, &queries, &json!({"top_k": 400})).await;
    compare(&flow, &queries, &json!({"limit": 3})).await;
    compare(&flow, &queries, &json!({"top_k": 0})).await;
    assert_eq!(count(&flow, "database").await, 305);
    assert_eq!(status(&flow, "database").await["dimensions"], DIMENSIONS);

    // Replace documents: with fewer parts, twice in one request, and with vectors of another type.
    let mut fewer = document("parts", &[1.0; DIMENSIONS]);
    let mut part = some("parts-", 1).remove(0);
    part.set_parent_id("parts");
    fewer.chunks_mut().unwrap().push(part);
    let mut changed = some("a", 20);
    changed.extend(some("a", 2));
    let half = EmbeddingType::F16.encode(&[0.5; DIMENSIONS]);
    changed[3].set_embedding(&half);
    changed.push(fewer);
    index(&flow, &changed).await;
    compare(&flow, &queries, &json!({"top_k": 400})).await;
    assert_eq!(count(&flow, "database").await, 303);

    // Delete documents: by a document with all its parts, and by the parameter `ids`.
    let reply = call(&flow, "/delete", &[parts, docs[9].clone()], &Value::Null).await;
    assert_eq!(reply.failure, None);
    let ids = json!({"ids": ["a10", "a11", "unknown"]});
    assert_eq!(call(&flow, "/delete", &[], &ids).await.failure, None);
    compare(&flow, &queries, &json!({"top_k": 400})).await;
    assert_eq!(count(&flow, "database").await, count(&flow, "memory").await);
    assert_eq!(count(&flow, "database").await, 299);
}

/// Endpoint, documents and parameters of requests that no index takes, and a part of the failure.
fn bad_requests() -> Vec<(&'static str, Vec<Document>, Value, &'static str)> {
    let good = document("good", &[1.0, 0.0]);
    let none = Document::from_text("without");
    let mut nameless = document("", &[1.0, 0.0]);
    nameless.set_id("");
    vec![
        (
            "/index",
            vec![good.clone(), document("bad", &[1.0])],
            json!({}),
            "has 1 values, but the index has vectors of 2",
        ),
        (
            "/index",
            vec![document("bad", &[1.0, f32::NAN])],
            json!({}),
            "not all of it is finite",
        ),
        ("/index", vec![nameless], json!({}), "a document has no id"),
        (
            "/search",
            vec![document("bad", &[1.0])],
            json!({}),
            "has 1 values, but the index has vectors of 2",
        ),
        (
            "/search",
            vec![document("bad", &[f32::INFINITY, 0.0])],
            json!({}),
            "not all of it is finite",
        ),
        (
            "/search",
            vec![none],
            json!({}),
            "an encoder has to come before the index",
        ),
        (
            "/search",
            vec![good.clone()],
            json!({"top_k": 100_001}),
            "`top_k` or `limit` must be 100000 or less",
        ),
        (
            "/search",
            vec![good.clone()],
            json!({"top_k": "ten"}),
            "parameter `top_k` is invalid",
        ),
        (
            "/search",
            vec![good.clone()],
            json!({"topk": 1}),
            "did you mean `top_k`?",
        ),
        (
            "/delete",
            vec![],
            json!({"ids": "first"}),
            "parameter `ids` is invalid",
        ),
    ]
}

#[tokio::test]
async fn both_refuse_the_same_with_the_same_words() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = both(&postgres, "");
    index(&flow, &[document("first", &[1.0, 0.0])]).await;
    for (endpoint, docs, parameters, expected) in bad_requests() {
        let memory = calls::failure(&flow, ("memory", endpoint), &docs, &parameters).await;
        let database = calls::failure(&flow, ("database", endpoint), &docs, &parameters).await;
        assert!(memory.contains(expected), "{memory}");
        assert_eq!(memory.replace("`memory`", "`database`"), database);
    }
    // A bad document fails only its own request.
    assert_eq!(count(&flow, "database").await, 1);
    let bad = [document("a\0b", &[1.0, 0.0])];
    let refused = calls::failure(&flow, ("database", "/index"), &bad, &json!({})).await;
    assert!(refused.contains("has a NUL character"), "{refused}");
}

/// A flow with one index in the database, with these options.
fn alone(postgres: &Postgres, with: &str) -> TestFlow {
    alone_as(postgres, with, "")
}

fn alone_as(postgres: &Postgres, with: &str, more: &str) -> TestFlow {
    TestFlow::up(&format!(
        "executors:
- {{name: database, uses: pgvector-index, uses_with: {{url: '{}'{with}}}{more}}}",
        postgres.url()
    ))
}

#[tokio::test]
async fn other_metrics_order_by_the_inner_product_and_by_the_distance() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = TestFlow::up(&format!(
        "with: {{env: {{PGVECTOR_URL: '{}'}}}}
executors:
- {{name: ip, uses: pgvector-index, uses_with: {{metric: ip}}}}
- {{name: l2, uses: pgvector-index, uses_with: {{metric: l2}}}}",
        postgres.url()
    ));
    let mut numbers = Numbers::default();
    let vectors: Vec<Vec<f32>> = (0..50).map(|_| numbers.vector(DIMENSIONS)).collect();
    let docs = vectors.iter().enumerate();
    let docs: Vec<Document> = docs
        .map(|(id, vector)| document(&id.to_string(), vector))
        .collect();
    index(&flow, &docs).await;
    let query = numbers.vector(DIMENSIONS);
    let pairs = |vector: &[f32]| -> Vec<(f32, f32)> {
        vector.iter().copied().zip(query.iter().copied()).collect()
    };
    let product = |vector: &[f32]| pairs(vector).iter().map(|(a, b)| a * b).sum::<f32>();
    let distance = |vector: &[f32]| {
        pairs(vector)
            .iter()
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f32>()
            .sqrt()
    };
    let mut by_product: Vec<(usize, f32)> =
        vectors.iter().map(|it| product(it)).enumerate().collect();
    by_product.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut by_distance: Vec<(usize, f32)> =
        vectors.iter().map(|it| distance(it)).enumerate().collect();
    by_distance.sort_by(|one, other| one.1.total_cmp(&other.1));
    for (name, expected) in [("ip", by_product), ("l2", by_distance)] {
        let found = found(&flow, name, &document("q", &query), &Value::Null).await;
        assert_eq!(found.len(), 10);
        for (found, (id, score)) in found.iter().zip(expected) {
            assert_eq!(found.id(), id.to_string(), "{name}");
            assert!(
                (found.score(name).unwrap() - score).abs() < 1e-4,
                "{name}: {found:?}"
            );
        }
    }
}

#[tokio::test]
async fn replicas_workers_and_other_flows_share_a_table_and_shards_have_their_own() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = alone_as(&postgres, ", table: shared", ", replicas: 2, workers: 2");
    let requests = (0..20).map(|it| document(&it.to_string(), &[1.0, 0.5]));
    let requests: Vec<Vec<Document>> = requests.map(|it| vec![it]).collect();
    // The same documents are sent twice, so that two replicas may write the same one at the same time.
    let requests = [requests.clone(), requests].concat();
    for reply in calls::post_all(&flow, "/index", &requests).await {
        assert_eq!(reply.failure, None);
    }
    for _ in 0..4 {
        assert_eq!(count(&flow, "database").await, 20);
    }
    let other = alone(&postgres, ", table: shared");
    assert_eq!(count(&other, "database").await, 20);
    // By default, the table is named after the executor.
    let unnamed = alone_as(&postgres, "", ", replicas: 2");
    index(&unnamed, &[document("a", &[1.0, 0.5])]).await;
    assert_eq!(
        postgres.sql("SELECT count(*) FROM flow_database").trim(),
        "1"
    );
    for _ in 0..4 {
        assert_eq!(count(&unnamed, "database").await, 1);
    }
    let shards = alone_as(
        &postgres,
        "",
        ", shards: 2, polling: {/index: ANY, /search: ALL}",
    );
    for reply in calls::post_all(&shards, "/index", &requests[..20]).await {
        assert_eq!(reply.failure, None);
    }
    let sizes = |shard: u8| postgres.sql(&format!("SELECT count(*) FROM flow_database_{shard}"));
    assert_eq!((sizes(0).trim(), sizes(1).trim()), ("10", "10"));
    let query = document("q", &[1.0, 0.5]);
    let found = found(&shards, "database", &query, &json!({"top_k": 20})).await;
    assert_eq!(found.len(), 20);
}

#[tokio::test]
async fn a_search_in_the_graph_finds_nearly_all_of_what_is_near() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = TestFlow::up(&format!(
        "executors:
- {{name: exact, uses: pgvector-index, uses_with: {{url: '{url}', table: vectors}}}}
- {{name: graph, uses: pgvector-index, uses_with: {{url: '{url}', table: graph, index: hnsw}}}}",
        url = postgres.url()
    ));
    let mut numbers = Numbers::default();
    let docs: Vec<Document> = (0..4000)
        .map(|id| document(&id.to_string(), &numbers.vector(64)))
        .collect();
    index(&flow, &docs).await;
    let mut same = 0;
    for query in docs.iter().step_by(80) {
        let wanted = found(&flow, "exact", query, &Value::Null).await;
        let seen = found(&flow, "graph", query, &Value::Null).await;
        assert_eq!(
            seen[0].id(),
            wanted[0].id(),
            "a vector is nearest to itself"
        );
        let wanted: Vec<String> = wanted.iter().map(Document::id).collect();
        same += seen.iter().filter(|it| wanted.contains(&it.id())).count();
    }
    assert!(same >= 450, "{same} of 500");
    let scans = "SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = 'graph_hnsw'";
    flow_tests::eventually("the graph was used", || postgres.sql(scans).trim() == "t");
    // A search for more matches than the graph can return compares all entries.
    let all = found(&flow, "graph", &docs[0], &json!({"top_k": 4000})).await;
    assert_eq!(all.len(), 4000);

    // An executor with `index: hnsw` builds the graph if the table has none.
    let later = alone(&postgres, ", table: vectors, index: hnsw");
    let found = found(&later, "database", &docs[5], &Value::Null).await;
    assert_eq!(found[0].id(), "5");
    let made = "SELECT count(*) FROM pg_class WHERE relname = 'vectors_hnsw'";
    assert_eq!(postgres.sql(made).trim(), "1");
}

#[tokio::test]
async fn the_flow_of_the_gallery_searches_in_postgresql() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let text = std::fs::read_to_string(flow_file("pgvector.yml")).unwrap();
    let (_, text) = text.split_once("jtype: Flow\n").unwrap();
    let written = "postgres://flow@127.0.0.1/flow";
    assert!(text.contains(written));
    // The password comes from the environment, as the file says.
    let password = format!(":{}@", Postgres::PASSWORD);
    let url = postgres.url().replace(&password, "@");
    let flow = TestFlow::up_in(
        &text.replace(written, &url),
        &[("PGPASSWORD", Postgres::PASSWORD)],
    );
    let about = [
        "The cat sleeps on the sofa. It dreams of mice.",
        "Interest rates were raised by the central bank. Markets fell.",
    ];
    let said = flow_tests::post(&flow, vec![flow_tests::texts("/index", &about)]).await;
    assert_eq!(said[0].failure, None);
    let query = flow_tests::texts("/search", &["monetary policy became tighter"]);
    let found = matches(&flow, query).await;
    assert_eq!(
        found[0].text().trim(),
        "Interest rates were raised by the central bank."
    );
}

#[tokio::test]
async fn one_large_document_is_a_match_of_only_so_many_queries_in_postgresql() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = TestFlow::up(&format!(
        "executors: [{{name: database, uses: pgvector-index, uses_with: {{url: '{}'}}}}]",
        postgres.url()
    ));
    let mut large = document("large", &[1.0; DIMENSIONS]);
    large.set_text("x".repeat(10 << 20));
    index(&flow, &[large]).await;
    let query = |id: usize| document(&id.to_string(), &[1.0; DIMENSIONS]);
    let many: Vec<Document> = (0..60).map(query).collect();
    let reply = call(&flow, "/search", &many, &Value::Null).await;
    let failure = reply.failure.expect("the matches have 600 MB");
    assert!(failure.contains("more than 268435456 bytes"), "{failure}");
    let found = found(&flow, "database", &query(0), &Value::Null).await;
    assert_eq!(found.len(), 1, "the executor works on");
}
