use flow_core::DocArrayVersion;

use super::*;

fn entry(id: &str, parent: &str, value: f32) -> IndexEntry {
    IndexEntry {
        id: id.to_owned(),
        parent: parent.to_owned(),
        vector: vec![value],
        version: DocArrayVersion::V1,
        document: bytes::Bytes::new(),
    }
}

#[test]
fn of_entries_with_the_same_id_the_last_stays() {
    let all = vec![
        entry("a", "", 1.0),
        entry("b", "", 2.0),
        entry("a", "", 3.0),
    ];
    let kept = last_of_each(all);
    let kept: Vec<_> = kept
        .iter()
        .map(|it| (it.id.as_str(), it.vector[0]))
        .collect();
    assert_eq!(kept, [("b", 2.0), ("a", 3.0)]);
}

#[test]
fn an_id_that_postgresql_cannot_keep_is_refused_by_name() {
    let check =
        |id: &str, parent: &str| check_id(&entry(id, parent, 1.0)).map_err(|it| it.to_string());
    check(&"x".repeat(ID_LEN_MAX), "").unwrap();
    let error = check("a\0b", "").unwrap_err();
    assert_eq!(
        error,
        r#"the id that begins with "a\0b" has a NUL character, which PostgreSQL cannot keep"#
    );
    let error = check("a", &"é".repeat(ID_LEN_MAX)).unwrap_err();
    assert!(error.contains("has 4000 bytes"), "{error}");
}

fn problem(with: &Value) -> String {
    let bad = flow_executor::check_options::<PgvectorIndex>(with.as_object().unwrap());
    let bad: Vec<String> = bad.iter().map(ToString::to_string).collect();
    bad.join("\n")
}

#[test]
fn invalid_options_are_named() {
    assert_eq!(problem(&json!({})), "");
    let hnsw =
        json!({"url": "postgres://a@b/c", "index": "hnsw", "dimensions": 2000, "table": "a.b"});
    assert_eq!(problem(&hnsw), "");
    for (with, expected) in [
        (json!({"metric": "dot"}), "`cosine`, `ip` or `l2`"),
        (json!({"index": "ivfflat"}), "is `ivfflat`"),
        (
            json!({"table": "a b"}),
            "`a b` is not a valid name of a table",
        ),
        (json!({"dimensions": 0}), "takes 1 to 16000"),
        (json!({"dimensions": 16_001}), "takes 1 to 16000"),
        (
            json!({"dimensions": 2001, "index": "hnsw"}),
            "takes 1 to 2000",
        ),
        (json!({"top_k": 100_001}), "`top_k` must be 0 to 100000"),
        (json!({"m": 1}), "`m` must be 2 to 100"),
        (json!({"m": 50}), "at least twice `m`"),
        (json!({"ef_search": 1001}), "`ef_search` must be 1 to 1000"),
        (json!({"statement_timeout": "soon"}), "a time such as `30s`"),
        (json!({"statement_timeout": "0s"}), "at least 1ms"),
        (
            json!({"url": "mysql://a:hunter2@b/c"}),
            "must begin with `postgres://`",
        ),
        (json!({"exact_below": 5}), "`exact_below` is not an option"),
    ] {
        let found = problem(&with);
        assert!(found.contains(expected), "{found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}
