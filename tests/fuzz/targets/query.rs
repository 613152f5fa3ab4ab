//! Any `when` is a query or an error, and a query has a result for any document.
#![no_main]

use flow_core::query::Query;
use flow_core::{Document, DocArrayVersion};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|text: &str| {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let Ok(query) = Query::parse(&value) else {
        return;
    };
    for (version, document) in [
        (DocArrayVersion::V1, json!({"id": "a", "text": "b", "weight": 1, "tags": {"k": {"d": [1, "x"]}, "n": 2}})),
        (DocArrayVersion::V2, json!({"id": "a", "text": "b", "number": 1, "flag": true, "words": ["x"]})),
    ] {
        let document = Document::from_json(version, &document).expect("it is one");
        let answer = query.matches(&document);
        assert_eq!(query.matches(&document), answer);
    }
    let again = serde_json::to_value(&query).expect("a query is always JSON");
    assert_eq!(Query::parse(&again).expect("its own JSON"), query);
});
