//! JSON of single values: parameters, arrays, texts and bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::super::format::BadDocument;
use crate::tensor::len_of;
use crate::{DataType, Tensor};

/// Largest integer that a double represents exactly; numbers of a protobuf `Struct` are doubles.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// JSON from a protobuf `Struct`, the encoding of parameters.
#[must_use]
pub fn from_struct(map: &Struct) -> Map<String, Value> {
    match value_of(&WrittenStruct(map)) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What is written as JSON, as a value.
pub(super) fn value_of(written: &impl Serialize) -> Value {
    // Nothing that is written here fails: it has no maps with other keys than texts.
    serde_json::to_value(written).unwrap_or_default()
}

/// A protobuf `Struct` from JSON.
#[must_use]
pub fn to_struct(map: &Map<String, Value>) -> Struct {
    Struct {
        fields: map
            .iter()
            .map(|(key, value)| (key.clone(), to_value(value)))
            .collect(),
    }
}

/// A protobuf `Struct` that is written as JSON.
pub(super) struct WrittenStruct<'s>(pub(super) &'s Struct);

impl Serialize for WrittenStruct<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.fields.iter();
        serializer.collect_map(fields.map(|(key, value)| (key, WrittenValue(value))))
    }
}

/// A value of a protobuf `Struct` that is written as JSON.
struct WrittenValue<'v>(&'v prost_types::Value);

impl Serialize for WrittenValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.kind {
            None | Some(Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(Kind::NumberValue(number)) => write_number(*number, serializer),
            Some(Kind::StringValue(text)) => serializer.serialize_str(text),
            Some(Kind::BoolValue(flag)) => serializer.serialize_bool(*flag),
            Some(Kind::StructValue(map)) => WrittenStruct(map).serialize(serializer),
            Some(Kind::ListValue(list)) => {
                serializer.collect_seq(list.values.iter().map(WrittenValue))
            }
        }
    }
}

/// Writes a number; an integer without a decimal point.
fn write_number<S: Serializer>(number: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < EXACT_MAX {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "an integer in range, as tested above"
        )]
        return serializer.serialize_i64(number as i64);
    }
    serializer.serialize_f64(number)
}

fn to_value(value: &Value) -> prost_types::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(to_value).collect(),
        }),
        Value::Object(map) => Kind::StructValue(to_struct(map)),
    };
    prost_types::Value { kind: Some(kind) }
}

/// Longer arrays of bytes are no vectors, and a list takes 34 times their memory.
const VECTOR_LEN_MAX: u32 = 1 << 16;

/// An array that is written as nested lists, one level per dimension.
pub(super) struct WrittenTensor(pub(super) Tensor);

impl Serialize for WrittenTensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(tensor) = self;
        if let Some(values) = tensor.to_f32() {
            let number = match tensor.data_type().as_str() {
                DataType::F16 => half_float,
                _ => shortest,
            };
            let nested = Nested {
                values: &values,
                shape: tensor.shape(),
                number,
            };
            return nested.serialize(serializer);
        }
        // A vector of small numbers. Bytes with more dimensions are images, which are shorter as they are.
        if let [len] = tensor.shape()
            && *len <= VECTOR_LEN_MAX
            && let Some(values) = tensor.to_i16()
        {
            return values.serialize(serializer);
        }
        // Values of other types are not interpreted: type, shape and bytes are written.
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("dtype", tensor.data_type().as_str())?;
        out.serialize_entry("shape", tensor.shape())?;
        out.serialize_entry("buffer", &BASE64.encode(tensor.buffer()))?;
        out.end()
    }
}

/// Values of an array that are written as lists.
struct Nested<'t> {
    values: &'t [f32],
    shape: &'t [u32],
    number: fn(f32) -> f64,
}

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.shape {
            [] | [_] => serializer.collect_seq(self.values.iter().copied().map(self.number)),
            [_, inner @ ..] => {
                let parts = self.values.chunks(len_of(inner).max(1));
                serializer.collect_seq(parts.map(|values| Self {
                    values,
                    shape: inner,
                    number: self.number,
                }))
            }
        }
    }
}

/// The float nearest to the shortest decimal that parses to the same 32-bit float. It is written with these digits.
pub(super) fn shortest(value: f32) -> f64 {
    let mut digits = zmij::Buffer::new();
    digits.format(value).parse().unwrap_or(f64::NAN)
}

/// A decimal that parses to the same half-precision float, with four digits or, if they do not suffice, five, which always do.
fn half_float(value: f32) -> f64 {
    let exact = half::f16::from_f32(value);
    let short = with_digits(value, 4);
    match half::f16::from_f64(short) == exact {
        true => short,
        false => with_digits(value, 5),
    }
}

/// The value rounded to this many significant digits. Both numbers of the division are whole, so the result is the float nearest to
/// the decimal, which is written with these digits.
fn with_digits(value: f32, digits: i32) -> f64 {
    let value = f64::from(value);
    if value == 0.0 {
        return value;
    }
    #[allow(
        clippy::cast_possible_truncation,
        reason = "an exponent of half-precision floats is from -8 to 4"
    )]
    let exponent = value.abs().log10().floor() as i32;
    let power = 10_f64.powi((digits - 1 - exponent).abs());
    match digits > exponent {
        true => (value * power).round() / power,
        false => (value / power).round() * power,
    }
}

/// A number as a 32-bit float, unless it would become infinite, which JSON cannot write.
pub(super) fn to_f32(name: &str, number: f64) -> Result<f32, BadDocument> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "numbers of documents are 32-bit floats"
    )]
    let narrow = number as f32;
    match narrow.is_finite() {
        true => Ok(narrow),
        false => Err(bad(format!(
            "`{name}` has a number that is too large for a 32-bit float"
        ))),
    }
}

pub(super) fn text(name: &str, value: Value) -> Result<String, BadDocument> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(bad(format!(
            "`{name}` must be a text, not {}",
            kind_of(&other)
        ))),
    }
}

pub(super) fn blob(name: &str, value: Value) -> Result<Vec<u8>, BadDocument> {
    BASE64
        .decode(text(name, value)?)
        .map_err(|error| bad(format!("`{name}` is not base64: {error}")))
}

pub(super) fn object<'a>(
    name: &str,
    value: &'a Value,
) -> Result<&'a Map<String, Value>, BadDocument> {
    value.as_object().ok_or_else(|| {
        bad(format!(
            "`{name}` must be an object, not {}",
            kind_of(value)
        ))
    })
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(super) fn bad(message: impl Into<String>) -> BadDocument {
    BadDocument::Json(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_floats_are_written_with_the_digits_that_give_them_again() {
        for bits in 0..0x7c00 {
            let value = half::f16::from_bits(bits);
            let written = Value::from(half_float(value.to_f32())).to_string();
            let read: f64 = written.parse().unwrap();
            assert_eq!(half::f16::from_f64(read), value, "{written}");
        }
        let tenth = half_float(half::f16::from_f32(-0.1).to_f32());
        assert_eq!(Value::from(tenth).to_string(), "-0.09998");
        assert_eq!(Value::from(half_float(f32::NAN)), Value::Null);
    }

    #[test]
    fn floats_are_written_with_the_shortest_decimal() {
        for (value, expected) in [
            (0.1, "0.1"),
            (-1.0, "-1.0"),
            (16_777_216.0, "16777216.0"),
            (f32::MIN_POSITIVE, "1.1754944e-38"),
            (f32::MAX, "3.4028235e+38"),
            (f32::NAN, "null"),
            (f32::INFINITY, "null"),
        ] {
            assert_eq!(Value::from(shortest(value)).to_string(), expected);
        }
    }

    #[test]
    fn vectors_of_bytes_are_lists_and_images_are_not() {
        let bytes = |shape: &[u32]| {
            value_of(&WrittenTensor(Tensor::from_parts(
                shape.to_vec(),
                DataType::I8.into(),
                vec![1, 255].into(),
            )))
        };
        assert_eq!(bytes(&[2]), serde_json::json!([1, -1]));
        assert_eq!(bytes(&[1, 2])["shape"], serde_json::json!([1, 2]));
    }
}
