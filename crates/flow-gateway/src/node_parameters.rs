//! The parameters that one node gets, as bytes: decoded only if they differ from what all nodes get.

use bytes::Bytes;
use flow_core::parameters::{are_trivial, concern_one_node, decode, specialised};
use prost::Message;

/// The parameters as node `name` gets them. Invalid bytes are forwarded to the executor, which reports them.
pub(crate) fn node_parameters(parameters: Option<&Bytes>, name: &str) -> Option<Bytes> {
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
    fn parameters_for_all_nodes_are_forwarded_unchanged() {
        for sent in [
            json!({}),
            json!({"a": 1}),
            json!({"other": {"top_k": 5}, "__results__": {}}),
        ] {
            let sent = bytes(&sent);
            assert_eq!(node_parameters(Some(&sent), "enc"), Some(sent));
        }
        let bad = Bytes::from_static(b"\xff");
        assert_eq!(node_parameters(Some(&bad), "enc"), Some(bad));
        assert_eq!(node_parameters(None, "enc"), None);
    }

    #[test]
    fn parameters_for_one_node_replace_the_common_ones() {
        let sent = bytes(&json!({"enc__top_k": 5, "__results__": {}}));
        let seen =
            flow_core::parameters::to_json(node_parameters(Some(&sent), "enc").as_ref()).unwrap();
        assert_eq!(Value::Object(seen), json!({"top_k": 5, "__results__": {}}));
    }
}
