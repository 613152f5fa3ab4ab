use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::DocumentArray;
use serde_json::{Value, json};

use super::*;
use crate::sdk::{DocsMatrix, Fit, Parameters};

fn own() -> Batching {
    Batching {
        size: NonZeroUsize::new(32).unwrap(),
        ..Batching::default()
    }
}

fn endpoints() -> Endpoints<()> {
    let matrix = |(): &mut (), _: DocsMatrix, _: &Parameters| Ok(DocumentArray::new());
    Endpoints::<()>::new()
        .on("/index", |(), _, _| Ok(()))
        .on_batch("/encode", |(), _, _| Ok(()))
        .on_batch("/plain", |(), _, _| Ok(()))
        .on_matrix("/join", matrix)
        .default(|(), _, _| Ok(()))
        .batching("/encode", own())
}

fn table(requests: &[(&str, &str)], batching: &Value) -> Result<EndpointTable, BadBinding> {
    let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    let overrides = EndpointOverrides {
        requests: Some(&requests.iter().map(owned).collect()),
        batching: BatchingOverride::all(batching.as_object().unwrap()).unwrap(),
    };
    EndpointTable::new(&endpoints(), &overrides)
}

#[test]
fn an_endpoint_without_a_method_of_its_own_gets_the_default() {
    let table = table(&[], &json!({})).unwrap();
    assert_eq!(table.find("/index").unwrap().method, MethodIdx(0));
    assert_eq!(table.find("/other").unwrap().method, MethodIdx(4));
}

#[test]
fn the_flow_file_may_bind_further_endpoints() {
    let table = table(&[("/other", "index")], &json!({})).unwrap();
    assert_eq!(table.find("/other").unwrap().method, MethodIdx(0));
}

#[test]
fn a_method_that_is_not_there_is_named_with_those_that_are() {
    let check = |requests: &[(&str, &str)], batching: Value, expected: &str| {
        let error = table(requests, &batching).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    check(
        &[("/other", "indx")],
        json!({}),
        "`uses_requests` binds `/other` to method `indx`, expected one of default, encode, index, join, plain",
    );
    check(
        &[],
        json!({"encod": {}}),
        "`uses_dynamic_batching` names `encod`, expected one of default, encode, index, join, plain",
    );
    check(
        &[],
        json!({"/index": {"metric": "custom"}}),
        "the batching of `/index` counts the executor's own weights, but the executor has none",
    );
}

/// The rule of an endpoint, as size, milliseconds and fit; `None` if requests are not batched.
#[track_caller]
fn check_rule(batching: &Value, endpoint: &str, expected: Option<(usize, u64, Fit)>) {
    let requests = [("/twin", "encode")];
    let table = table(&requests, batching).unwrap();
    let rule = expected.map_or(BatchRule::Alone, |(size, wait_ms, fit)| {
        BatchRule::Together(Batching {
            size: NonZeroUsize::new(size).unwrap(),
            wait_max: Duration::from_millis(wait_ms),
            fit,
            ..Batching::default()
        })
    });
    assert_eq!(table.find(endpoint).unwrap().rule, rule);
}

#[test]
fn the_rule_of_an_endpoint_is_its_own_then_its_methods_then_the_executors() {
    use Fit::{Exact, Requests};
    check_rule(&json!({}), "/index", None);
    check_rule(&json!({}), "/plain", Some((256, 0, Requests)));
    check_rule(&json!({}), "/encode", Some((32, 0, Requests)));
    check_rule(&json!({}), "/twin", Some((32, 0, Requests)));
    check_rule(&json!({"/index": {}}), "/index", Some((4, 10_000, Exact)));
    check_rule(&json!({"plain": {}}), "/plain", Some((4, 10_000, Exact)));
    check_rule(
        &json!({"encode": {"timeout": 5}}),
        "/twin",
        Some((32, 5, Requests)),
    );
    let both = json!({
        "encode": {"preferred_batch_size": 8},
        "/twin": {"preferred_batch_size": 9, "flush_all": false},
    });
    check_rule(&both, "/encode", Some((8, 0, Requests)));
    check_rule(&both, "/twin", Some((9, 0, Exact)));
    let off = json!({"/encode": {"use_dynamic_batching": false}});
    check_rule(&off, "/encode", Some((256, 0, Requests)));
}

#[test]
fn an_endpoint_of_the_default_method_may_have_a_rule_of_its_own() {
    let rule = json!({"/other": {"preferred_batch_size": 2, "timeout": 1}});
    check_rule(&rule, "/other", Some((2, 1, Fit::Exact)));
    check_rule(&rule, "/another", None);
}

#[test]
fn joins_are_never_batched() {
    check_rule(&json!({"join": {}}), "/join", None);
}

#[test]
fn endpoints_accept_what_their_method_accepts() {
    let own = endpoints().accepts("/index", ["ids"]);
    let requests = [("/put".to_owned(), "index".to_owned())].into();
    let overrides = EndpointOverrides {
        requests: Some(&requests),
        ..EndpointOverrides::default()
    };
    let table = EndpointTable::new(&own, &overrides).unwrap();
    let accepts = |endpoint: &str| table.accepts(table.find(endpoint).unwrap().method);
    for endpoint in ["/index", "/put"] {
        assert!(matches!(accepts(endpoint), Accepts::Only(it) if it.contains("ids")));
    }
    assert!(matches!(accepts("/encode"), Accepts::Anything));
}

#[test]
fn endpoints_are_described_as_their_method_is() {
    let described = MethodSchema {
        is_for_one_document: true,
        ..MethodSchema::default()
    };
    let own = endpoints().on("/own", |(), _, _| Ok(()));
    let own = own.described(described.clone());
    let requests = [("/put".to_owned(), "own".to_owned())].into();
    let overrides = EndpointOverrides {
        requests: Some(&requests),
        ..EndpointOverrides::default()
    };
    let table = EndpointTable::new(&own, &overrides).unwrap();
    let schema = |endpoint: &str| table.schema(table.find(endpoint).unwrap().method);
    assert_eq!(schema("/own"), described);
    assert_eq!(schema("/put"), described);
    assert_eq!(schema("/index"), MethodSchema::default());
}

#[test]
fn declared_parameters_of_an_endpoint_that_is_not_bound_are_an_error() {
    let error = EndpointTable::new(
        &endpoints().accepts("/search", ["top_k"]),
        &EndpointOverrides::default(),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "the executor's code declares the parameters of `/search`, but binds no method to it"
    );
}
