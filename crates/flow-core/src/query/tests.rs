use serde_json::{Value, json};

use super::*;
use crate::DocArrayVersion;

/// A document with fields of every kind. The expected results are those of DocArray.
fn document(version: DocArrayVersion) -> Document {
    let json = json!({
        "id": "a",
        "text": "hello",
        "tags": {
            "a": 1, "b": {"c": [1, 2, {"d": "x"}]}, "t": true, "n": null, "s": "txt", "z": 0, "e": ""
        },
        "chunks": [{"id": "c", "text": "c1"}],
        "embedding": [0.5, 1.5, 2.5],
        "weight": 1.5,
    });
    Document::from_json(version, &json).unwrap()
}

#[track_caller]
fn check_version(version: DocArrayVersion, query: &Value, expected: bool) {
    let found = Query::parse(query).unwrap().matches(&document(version));
    assert_eq!(found, expected, "{query} of {version:?}");
}

/// The same in both versions.
#[track_caller]
fn check(query: &Value, expected: bool) {
    check_version(DocArrayVersion::V1, query, expected);
    check_version(DocArrayVersion::V2, query, expected);
}

#[test]
fn values_are_equal_as_in_python() {
    check(&json!({"tags__a": {"$eq": 1}}), true);
    check(&json!({"tags__a": {"$eq": 1.0}}), true);
    check(&json!({"tags__a": {"$eq": "1"}}), false);
    check(&json!({"tags__a": {"$eq": true}}), true);
    check(&json!({"tags__t": {"$eq": 1}}), true);
    check(&json!({"tags__a": {"$neq": 2}}), true);
    check(&json!({"tags__b__c": {"$eq": [1, 2, {"d": "x"}]}}), true);
    check(&json!({"tags__b__c": {"$eq": [1, 2]}}), false);
    check(&json!({"tags__n": {"$eq": null}}), true);
    check(&json!({"id": {"$eq": "a"}}), true);
    check(&json!({"text": {"$eq": "hello"}}), true);
    check(&json!({"weight": {"$eq": 1.5}}), true);
}

#[test]
fn numbers_and_texts_have_an_order() {
    check(&json!({"tags__a": {"$gt": 0}}), true);
    check(&json!({"tags__a": {"$gt": 1}}), false);
    check(&json!({"tags__a": {"$gte": 1}}), true);
    check(&json!({"tags__a": {"$lt": 1}}), false);
    check(&json!({"tags__a": {"$lte": 1}}), true);
    check(&json!({"tags__s": {"$gt": "aaa"}}), true);
    check(&json!({"tags__t": {"$gt": 0}}), true);
    check(&json!({"weight": {"$gt": 1}}), true);
}

#[test]
fn values_that_cannot_be_compared_do_not_match() {
    check(&json!({"tags__s": {"$gt": 1}}), false);
    check(&json!({"tags__a": {"$regex": "1"}}), false);
    check(&json!({"tags__a": {"$size": 1}}), false);
    check(&json!({"tags__s__x": {"$eq": 1}}), false);
    check(&json!({"tags__b__c__9": {"$eq": "x"}}), false);
    check(&json!({"chunks__3__text": {"$eq": "c1"}}), false);
}

#[test]
fn membership_works_in_lists_texts_and_maps() {
    check(&json!({"tags__a": {"$in": [1, 2]}}), true);
    check(&json!({"tags__a": {"$in": [true]}}), true);
    check(&json!({"tags__a": {"$in": [2]}}), false);
    check(&json!({"tags__a": {"$nin": [2]}}), true);
    check(&json!({"tags__s": {"$in": "a txt b"}}), true);
    check(&json!({"tags__s": {"$in": "{tags}"}}), false);
}

#[test]
fn regular_expressions_match_anywhere_in_a_text() {
    check(&json!({"tags__s": {"$regex": "^t.t$"}}), true);
    check(&json!({"text": {"$regex": "ell"}}), true);
    check(&json!({"text": {"$regex": "^ell"}}), false);
    check(&json!({"text": {"$regex": r"^\w+$"}}), true);
}

#[test]
fn texts_lists_maps_arrays_and_documents_have_sizes() {
    check(&json!({"text": {"$size": 5}}), true);
    check(&json!({"tags__b__c": {"$size": 3}}), true);
    check(&json!({"tags": {"$size": 7}}), true);
    check(&json!({"chunks": {"$size": 1}}), true);
    check(&json!({"embedding": {"$size": 3}}), true);
}

#[test]
fn paths_lead_into_maps_lists_and_documents() {
    check(&json!({"tags__b__c__2__d": {"$eq": "x"}}), true);
    check(&json!({"tags__b__c__-1__d": {"$eq": "x"}}), true);
    check(&json!({"tags__b__c__1": {"$eq": 2}}), true);
    check(&json!({"chunks__0__text": {"$eq": "c1"}}), true);
    check(&json!({"embedding__1": {"$gt": 1}}), true);
}

#[test]
fn operands_may_be_fields() {
    check(&json!({"tags__s": {"$eq": "{ tags__s }"}}), true);
    check(&json!({"text": {"$eq": "{tags__s}"}}), false);
    check(&json!({"weight": {"$gt": "{tags__a}"}}), true);
    check(&json!({"tags__a": {"$in": "{tags__b__c}"}}), true);
}

#[test]
fn a_field_exists_if_it_is_not_empty() {
    check(&json!({"text": {"$exists": true}}), true);
    check(&json!({"blob": {"$exists": true}}), false);
    check(&json!({"uri": {"$exists": false}}), true);
    check(&json!({"embedding": {"$exists": true}}), true);
    check(&json!({"tensor": {"$exists": false}}), true);
    check(&json!({"tags__z": {"$exists": true}}), true);
    check(&json!({"tags__e": {"$exists": true}}), true);
    check(&json!({"tags__x": {"$exists": true}}), false);
}

#[test]
fn missing_fields_have_defaults_in_the_first_version_only() {
    let differs = |query: Value| {
        check_version(DocArrayVersion::V1, &query, true);
        check_version(DocArrayVersion::V2, &query, false);
    };
    differs(json!({"tags__x": {"$neq": 1}}));
    differs(json!({"tags__x": {"$nin": [1]}}));
    differs(json!({"tags__x": {"$eq": null}}));
    differs(json!({"uri": {"$eq": ""}}));
    differs(json!({"granularity": {"$eq": 0}}));
    differs(json!({"tags__n": {"$exists": false}}));
}

#[test]
fn conditions_side_by_side_must_all_be_true() {
    check(&json!({}), true);
    check(&json!({"tags__a": {"$gte": 1, "$lt": 1}}), false);
    check(&json!({"tags__a": {"$gte": 1, "$lt": 2}}), true);
    check(
        &json!({"tags__a": {"$eq": 1}, "text": {"$eq": "no"}}),
        false,
    );
    check(
        &json!([{"text": {"$eq": "hello"}}, {"tags__a": {"$eq": 2}}]),
        false,
    );
    // DocArray takes `tags__a` as another alternative here.
    check(
        &json!({"$or": [{"text": {"$eq": "no"}}], "tags__a": {"$eq": 1}}),
        false,
    );
}

#[test]
fn conditions_are_combined() {
    let (yes, no) = (
        json!({"tags__a": {"$eq": 1}}),
        json!({"tags__a": {"$eq": 2}}),
    );
    check(&json!({"$and": [yes, no]}), false);
    check(
        &json!({"$and": {"tags__a": {"$eq": 1}, "text": {"$size": 5}}}),
        true,
    );
    check(&json!({"$and": {}}), true);
    check(&json!({"$or": [yes, no]}), true);
    check(
        &json!({"$or": {"tags__a": {"$eq": 2}, "text": {"$size": 5}}}),
        true,
    );
    check(&json!({"$or": []}), false);
    check(&json!({"$not": yes}), false);
    check(&json!({"$not": [yes, no]}), true);
    check(&json!({"tags__a": {"$not": {"$eq": 1}}}), false);
    check(&json!({"tags__a": {"$or": [{"$eq": 1}, {"$gt": 5}]}}), true);
}

#[test]
fn the_size_of_bytes_is_their_number() {
    let document =
        Document::from_json(DocArrayVersion::V1, &json!({"id": "a", "blob": "AAAA"})).unwrap();
    assert!(
        Query::parse(&json!({"blob": {"$size": 3}}))
            .unwrap()
            .matches(&document)
    );
}

#[test]
fn a_query_serialises_as_its_json() {
    let json = json!({"$or": [{"text": {"$eq": "x"}}, {"tags__a__b": {"$gt": "{weight}"}}]});
    let query: Query = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&query).unwrap(), json);
    assert_eq!(query.fields(), ["text", "tags", "weight"]);
    let error = serde_json::from_value::<Query>(json!({"text": 1})).unwrap_err();
    assert!(error.to_string().starts_with("`text`: expected operators"));
}

#[track_caller]
fn check_bad(query: &Value, expected: &str) {
    assert_eq!(Query::parse(query).unwrap_err().to_string(), expected);
}

#[test]
fn an_error_has_its_position_and_a_suggestion() {
    check_bad(
        &json!(1),
        "expected conditions, a map or a list of maps, found `1`",
    );
    check_bad(
        &json!("x"),
        "expected conditions, a map or a list of maps, found `\"x\"`",
    );
    check_bad(
        &json!({"text": "hello"}),
        "`text`: expected operators, such as `{$eq: …}`, found `\"hello\"`",
    );
    check_bad(
        &json!({"text": {}}),
        "`text`: expected operators, such as `{$eq: …}`, found `{}`",
    );
    check_bad(
        &json!({"$or": [{"a": {"$eq": 1}}, {"tags__a": {"$et": 1}}]}),
        "`$or[1].tags__a.$et`: `$et` is not an operator; did you mean `$eq`?",
    );
    check_bad(
        &json!({"tags__a": {"$ne": 1}}),
        "`tags__a.$ne`: `$ne` is not an operator; did you mean `$neq`?",
    );
    check_bad(
        &json!({"tags__a": {"exists": true}}),
        "`tags__a.exists`: `exists` is not an operator; did you mean `$exists`?",
    );
    check_bad(
        &json!({"$ands": []}),
        "`$ands`: `$ands` is not an operator; did you mean `$and`?",
    );
    check_bad(
        &json!({"$eq": 1}),
        "`$eq`: `$eq` compares a field: write `field: {$eq: …}`",
    );
    check_bad(
        &json!({"tags.a": {"$eq": 1}}),
        "`tags.a`: `tags.a` is not a field; did you mean `tags__a`?",
    );
    check_bad(
        &json!({"tags__": {"$eq": 1}}),
        "`tags__`: `tags__` is not a path: write names joined by `__`, such as `tags__lang`",
    );
}

#[test]
fn an_error_says_which_operand_was_expected() {
    let check = |operators: Value, expected: &str| {
        let error = Query::parse(&json!({ "f": operators })).unwrap_err();
        assert_eq!(error.message, expected);
    };
    check(
        json!({"$gt": null}),
        "expected a number or a text, found `null`",
    );
    check(json!({"$in": 1}), "expected a list, found `1`");
    check(
        json!({"$size": -1}),
        "expected a whole number from 0, found `-1`",
    );
    check(
        json!({"$exists": 1}),
        "expected `true` or `false`, found `1`",
    );
    check(
        json!({"$regex": 1}),
        "expected a regular expression, found `1`",
    );
    check(
        json!({"$regex": "(a"}),
        "`(a` is not a valid regular expression: unclosed group",
    );
    check(
        json!({"$eq": "{oops"}),
        "`{oops` begins like another field, which is written `{tags__title}`",
    );
}

#[test]
fn the_nesting_of_conditions_is_limited() {
    let nest = |depth: usize| {
        (0..depth).fold(
            json!({"a": {"$eq": 1}}),
            |inner, _| json!({ "$not": inner }),
        )
    };
    assert!(Query::parse(&nest(62)).is_ok());
    let error = Query::parse(&nest(63)).unwrap_err();
    assert_eq!(error.message, "more than 64 conditions inside each other");
}
