//! What one node sees of a request's parameters.
//!
//! `enc__top_k: 5` and `enc: {top_k: 5}` set `top_k` for the node `enc` alone and win over a plain
//! `top_k`; the first form is hidden from the others. Executors do the same with their own names, but a
//! stock executor does not know under which name a flow runs it.

use bytes::Bytes;
use flow_core::parameters::{RESULTS, are_trivial, decode};
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

const SEPARATOR: &str = "__";

/// The parameters as node `name` gets them. Bytes that are none go on to the executor, which says so.
pub(crate) fn specialise(parameters: Option<&Bytes>, name: &str) -> Option<Bytes> {
    let parameters = parameters?;
    if are_trivial(parameters) {
        return Some(parameters.clone());
    }
    match decode(parameters) {
        Ok(all) if concern_one_node(&all, name) => Some(seen_by(&all, name).encode_to_vec().into()),
        _ => Some(parameters.clone()),
    }
}

fn concern_one_node(parameters: &Struct, name: &str) -> bool {
    let concerns = |key: &String| key != RESULTS && (key == name || key.contains(SEPARATOR));
    parameters.fields.keys().any(concerns)
}

fn seen_by(parameters: &Struct, name: &str) -> Struct {
    let mut seen = Struct::default();
    let mut own = Struct::default();
    for (key, value) in &parameters.fields {
        match key.split_once(SEPARATOR) {
            Some((node, key)) if node == name => put(&mut own, key, value),
            Some((node, _)) if !node.is_empty() => {}
            _ => match &value.kind {
                Some(Kind::StructValue(map)) if key == name => {
                    map.fields
                        .iter()
                        .for_each(|(key, value)| put(&mut own, key, value));
                }
                _ => put(&mut seen, key, value),
            },
        }
    }
    seen.fields.extend(own.fields);
    seen
}

fn put(into: &mut Struct, key: &str, value: &Value) {
    into.fields.insert(key.to_owned(), value.clone());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[track_caller]
    fn check(sent: &Json, seen_by_enc: &Json) {
        let sent = flow_core::parameters::from_json(sent.as_object().unwrap());
        let seen = flow_core::parameters::to_json(specialise(Some(&sent), "enc").as_ref());
        assert_eq!(&Json::Object(seen), seen_by_enc);
    }

    #[test]
    fn a_node_sees_its_own_parameters_and_the_common_ones() {
        check(&json!({"a": 1}), &json!({"a": 1}));
        check(&json!({"enc__top_k": 5}), &json!({"top_k": 5}));
        check(&json!({"top_k": 1, "enc__top_k": 5}), &json!({"top_k": 5}));
        check(
            &json!({"enc": {"top_k": 5}, "top_k": 1}),
            &json!({"top_k": 5}),
        );
        check(&json!({"other__top_k": 5}), &json!({}));
        check(
            &json!({"other": {"top_k": 5}}),
            &json!({"other": {"top_k": 5}}),
        );
    }

    #[test]
    fn the_place_for_results_is_passed_on() {
        check(&json!({"__results__": {}}), &json!({"__results__": {}}));
        check(
            &json!({"__results__": {}, "enc__a": 1}),
            &json!({"__results__": {}, "a": 1}),
        );
    }
}
