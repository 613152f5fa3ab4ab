//! The parameters of a request, encoded as a protobuf `Struct`.
//!
//! Nearly every request of a stock client has the same ones, an empty map for results. They are recognised by
//! their bytes, without being decoded.

mod accepted;

use bytes::Bytes;
use prost::Message;
use prost_types::Struct;
use prost_types::value::Kind;
use serde_json::{Map, Value};

use crate::document::{BadDocument, from_struct, to_struct, undecodable};

pub use accepted::{Accepted, Accepts, UnknownParameter, check};

/// The key under which executors return results besides documents; not a parameter.
pub const RESULTS: &str = "__results__";

/// `{"__results__": {}}`, which stock clients send where the user gives no parameters.
const NONE: &[u8] = b"\x0a\x11\x0a\x0b__results__\x12\x02\x2a\x00";

/// Separates a node's name from its own parameter: `enc__top_k`.
const SEPARATOR: &str = "__";

/// Whether the parameters are empty, or contain only an empty map for results.
#[must_use]
pub fn are_trivial(parameters: &Bytes) -> bool {
    parameters.is_empty() || parameters == NONE
}

/// Decodes parameters.
///
/// # Errors
///
/// If the bytes are not a `Struct`.
pub fn decode(parameters: &Bytes) -> Result<Struct, BadDocument> {
    Struct::decode(parameters.clone())
        .map_err(|error| undecodable("the request's `parameters`", error))
}

/// Whether node `name` may get different parameters than other nodes. If not, they are forwarded as they are.
#[must_use]
pub fn concern_one_node(all: &Struct, name: &str) -> bool {
    let concerns = |key: &String| key != RESULTS && (key == name || key.contains(SEPARATOR));
    all.fields.keys().any(concerns)
}

/// The parameters of a request as node `name` gets them.
///
/// `enc__top_k: 5` and `enc: {top_k: 5}` set `top_k` for the node `enc` only, and override a plain `top_k`. Other nodes
/// do not get the first form. Applying this twice changes nothing: the gateway does it with the name in the flow, and
/// an executor with its own name, because a stock gateway does not do it.
#[must_use]
pub fn specialised(all: Struct, name: &str) -> Struct {
    let mut seen = Struct::default();
    let mut own = Struct::default();
    for (key, value) in all.fields {
        match key.split_once(SEPARATOR) {
            Some((node, key)) if node == name => drop(own.fields.insert(key.to_owned(), value)),
            Some((node, _)) if !node.is_empty() => {}
            _ => {
                if let (true, Some(Kind::StructValue(map))) = (key == name, &value.kind) {
                    own.fields.extend(map.fields.clone());
                }
                seen.fields.insert(key, value);
            }
        }
    }
    seen.fields.extend(own.fields);
    seen
}

/// The parameters of a reply as JSON; empty if it has none.
///
/// # Errors
///
/// If the bytes are not a `Struct`.
pub fn to_json(parameters: Option<&Bytes>) -> Result<Map<String, Value>, BadDocument> {
    let decoded = parameters.map(|bytes| Struct::decode(bytes.clone()));
    let decoded = decoded.transpose();
    let decoded = decoded.map_err(|error| undecodable("the reply's `parameters`", error))?;
    Ok(from_struct(&decoded.unwrap_or_default()))
}

/// Encodes parameters.
#[must_use]
pub fn from_json(parameters: &Map<String, Value>) -> Bytes {
    to_struct(parameters).encode_to_vec().into()
}

/// The value of an option is not a mapping.
#[derive(Debug, thiserror::Error)]
pub enum BadOption {
    /// It begins like JSON and is not valid.
    #[error("`{text}` is not JSON")]
    Json {
        /// The value.
        text: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// It is something else.
    #[error("`{0}` is neither JSON nor `key:value`")]
    Neither(String),
}

impl BadOption {
    /// The error without the value, which may contain secrets.
    #[must_use]
    pub fn without_value(&self) -> String {
        match self {
            Self::Json { source, .. } => format!("a value is not JSON: {source}"),
            Self::Neither(_) => "a value is neither JSON nor `key:value`".to_owned(),
        }
    }
}

/// One mapping from the values of a command line option: JSON objects and `key:value` pairs; later ones win.
///
/// # Errors
///
/// If one of them is neither.
pub fn from_options(given: &[String]) -> Result<Map<String, Value>, BadOption> {
    let mut all = Map::new();
    for text in given {
        if text.trim_start().starts_with('{') {
            let map: Map<String, Value> =
                serde_json::from_str(text).map_err(|source| BadOption::Json {
                    text: text.clone(),
                    source,
                })?;
            all.extend(map);
            continue;
        }
        let pair = text.split_once(':').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.ok_or_else(|| BadOption::Neither(text.clone()))?;
        // A value that is not JSON is a text, so texts need no quotes.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        all.insert(key.to_owned(), value);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_parameters_of_a_reply_are_an_error_and_not_an_empty_map() {
        let error = to_json(Some(&Bytes::from_static(b"\x0a\xff"))).unwrap_err();
        assert!(
            error.to_string().contains("the reply's `parameters`"),
            "{error}"
        );
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(to_json(None).unwrap(), Map::new());
    }

    #[test]
    fn invalid_parameters_are_refused_with_a_reason() {
        let error = decode(&Bytes::from_static(b"\x0a\xff")).unwrap_err();
        assert!(error.to_string().contains("`parameters`"), "{error}");
        let cause = std::error::Error::source(&error).expect("the decoder's error is the cause");
        assert!(!cause.to_string().is_empty());
    }

    fn bytes(json: &Value) -> Bytes {
        from_json(json.as_object().unwrap())
    }

    #[track_caller]
    fn check(sent: &Value, seen_by_enc: &Value) {
        let seen = specialised(to_struct(sent.as_object().unwrap()), "enc");
        assert_eq!(&Value::Object(from_struct(&seen)), seen_by_enc);
        assert_eq!(specialised(seen.clone(), "enc"), seen, "applied twice");
    }

    #[test]
    fn a_node_gets_its_own_parameters_and_the_common_ones() {
        check(&json!({"a": 1}), &json!({"a": 1}));
        check(&json!({"enc__top_k": 5}), &json!({"top_k": 5}));
        check(&json!({"top_k": 1, "enc__top_k": 5}), &json!({"top_k": 5}));
        check(
            &json!({"enc": {"top_k": 5}, "top_k": 1}),
            &json!({"enc": {"top_k": 5}, "top_k": 5}),
        );
        check(&json!({"other__top_k": 5}), &json!({}));
        check(
            &json!({"other": {"top_k": 5}}),
            &json!({"other": {"top_k": 5}}),
        );
        check(&json!({"__private": 5}), &json!({"__private": 5}));
        check(
            &json!({"__results__": {}, "enc__a": 1}),
            &json!({"__results__": {}, "a": 1}),
        );
    }

    #[track_caller]
    fn check_options(given: &[&str], wanted: &Value) {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        assert_eq!(&Value::Object(from_options(&given).unwrap()), wanted);
    }

    #[test]
    fn option_values_are_json_or_pairs_and_later_ones_win() {
        check_options(&[], &json!({}));
        check_options(
            &["top_k:5", "device:cuda:1", "a:"],
            &json!({"top_k": 5, "device": "cuda:1", "a": ""}),
        );
        check_options(
            &[r#"{"a": {"b": [1]}, "c": 1}"#, "c:true"],
            &json!({"a": {"b": [1]}, "c": true}),
        );
    }

    #[test]
    fn an_error_shows_the_invalid_option_value() {
        let error = |given: &str| from_options(&[given.to_owned()]).unwrap_err().to_string();
        assert_eq!(error("top_k"), "`top_k` is neither JSON nor `key:value`");
        assert_eq!(error(":5"), "`:5` is neither JSON nor `key:value`");
        assert_eq!(error("{"), "`{` is not JSON");
    }

    #[test]
    fn an_error_about_secrets_does_not_show_them() {
        for given in [
            r#"{"password": hunter2}"#,
            "{hunter2",
            "hunter2",
            r#"{"a": "hunter2" "hunter2"}"#,
        ] {
            let error = from_options(&[given.to_owned()]).unwrap_err();
            assert!(!error.without_value().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn an_empty_map_for_results_is_trivial() {
        assert!(are_trivial(&bytes(&json!({"__results__": {}}))));
        assert!(are_trivial(&bytes(&json!({}))));
        assert!(!are_trivial(&bytes(&json!({"__results__": {"a": 1}}))));
        assert!(!are_trivial(&bytes(&json!({"top_k": 5}))));
    }

    #[test]
    fn bytes_that_are_not_a_struct_are_an_error() {
        let error = decode(&Bytes::from_static(b"\xff"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the request's `parameters` is not a valid protobuf message"
        );
    }
}
