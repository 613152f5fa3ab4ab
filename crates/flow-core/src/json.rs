//! Values of JSON that clients send.
//!
//! The visitor of [`Value`] reads an object whose first name is one that `serde_json` keeps for itself as JSON within a text.
//! Such JSON would escape the limits on values and on depth. To this visitor it is an object like any other.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value of JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Json(pub Value);

/// Reads a text as JSON.
///
/// # Errors
///
/// If it is not JSON.
pub fn from_slice(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(text).map(|Json(value)| value)
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor).map(Self)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Json(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Json(value))) = object.next_entry()? {
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are() {
        let text =
            r#"{"a": [null, true, -1, 18446744073709551615, 0.5, "b", [], {}], "c": 1, "c": 2}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(from_slice(text.as_bytes()).unwrap(), expected);
        assert!(from_slice(b"[1e999]").is_err());
        assert!(from_slice(b"{} 1").is_err());
    }

    #[test]
    fn json_within_a_text_stays_a_text() {
        for name in [
            "$serde_json::private::RawValue",
            "\\u0024serde_json::private::RawValue",
        ] {
            let text = format!(r#"{{"a": {{"{name}": "[1, 2]"}}}}"#);
            let value = from_slice(text.as_bytes()).unwrap();
            assert_eq!(value["a"]["$serde_json::private::RawValue"], "[1, 2]");
        }
    }
}
