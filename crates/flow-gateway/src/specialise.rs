//! What one node sees of a request's parameters, as bytes: decoded only where it is not what all see.

use bytes::Bytes;
use flow_core::parameters::{are_trivial, concern_one_node, decode, specialised};
use prost::Message;

/// The parameters as node `name` gets them. Bytes that are none go on to the executor, which says so.
pub(crate) fn specialise(parameters: Option<&Bytes>, name: &str) -> Option<Bytes> {
    let parameters = parameters?;
    if are_trivial(parameters) {
        return Some(parameters.clone());
    }
    match decode(parameters) {
        Ok(all) if concern_one_node(&all, name) => {
            Some(specialised(all, name).encode_to_vec().into())
        }
        _ => Some(parameters.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bytes(json: &Value) -> Bytes {
        flow_core::parameters::from_json(json.as_object().unwrap())
    }

    #[test]
    fn what_concerns_nobody_alone_is_passed_on_as_it_came() {
        for sent in [
            json!({}),
            json!({"a": 1}),
            json!({"other": {"top_k": 5}, "__results__": {}}),
        ] {
            let sent = bytes(&sent);
            assert_eq!(specialise(Some(&sent), "enc"), Some(sent));
        }
        let bad = Bytes::from_static(b"\xff");
        assert_eq!(specialise(Some(&bad), "enc"), Some(bad));
        assert_eq!(specialise(None, "enc"), None);
    }

    #[test]
    fn what_concerns_a_node_is_put_in_its_place() {
        let sent = bytes(&json!({"enc__top_k": 5, "__results__": {}}));
        let seen = flow_core::parameters::to_json(specialise(Some(&sent), "enc").as_ref());
        assert_eq!(Value::Object(seen), json!({"top_k": 5, "__results__": {}}));
    }
}
