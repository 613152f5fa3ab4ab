//! A request's parameters as they travel: the bytes of a protobuf `Struct`.
//!
//! Nearly every request of a stock client carries the same ones, an empty place for results. They are
//! recognised by their bytes, so nobody decodes them.

use bytes::Bytes;
use prost::Message;
use prost_types::Struct;
use serde_json::{Map, Value};

use crate::document::{BadDocument, from_struct, to_struct};

/// Where executors put what they return besides documents; not a parameter.
pub const RESULTS: &str = "__results__";

/// `{"__results__": {}}`, which stock clients send where the user gives no parameters.
const NONE: &[u8] = b"\x0a\x11\x0a\x0b__results__\x12\x02\x2a\x00";

/// Whether there is nothing in the parameters that anybody has to read.
#[must_use]
pub fn are_trivial(parameters: &Bytes) -> bool {
    parameters.is_empty() || parameters == NONE
}

/// Decodes parameters.
///
/// # Errors
///
/// If the bytes are no `Struct`.
pub fn decode(parameters: &Bytes) -> Result<Struct, BadDocument> {
    Struct::decode(parameters.clone()).map_err(|_| BadDocument::Malformed {
        what: "the request's `parameters`".to_owned(),
    })
}

/// Parameters as JSON; none where the bytes are no `Struct`.
#[must_use]
pub fn to_json(parameters: Option<&Bytes>) -> Map<String, Value> {
    let parameters = parameters.and_then(|bytes| decode(bytes).ok());
    parameters.map(from_struct).unwrap_or_default()
}

/// Encodes parameters.
#[must_use]
pub fn from_json(parameters: &Map<String, Value>) -> Bytes {
    to_struct(parameters).encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes(json: &Value) -> Bytes {
        from_json(json.as_object().unwrap())
    }

    #[test]
    fn an_empty_place_for_results_is_nothing_to_read() {
        assert!(are_trivial(&bytes(&json!({"__results__": {}}))));
        assert!(are_trivial(&bytes(&json!({}))));
        assert!(!are_trivial(&bytes(&json!({"__results__": {"a": 1}}))));
        assert!(!are_trivial(&bytes(&json!({"top_k": 5}))));
    }

    #[test]
    fn what_is_no_struct_is_told() {
        let error = decode(&Bytes::from_static(b"\xff"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the request's `parameters` is not a valid protobuf message"
        );
    }
}
