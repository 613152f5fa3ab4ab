//! Reads JSON into any type, as `serde_json` does, but reports problems as data, with their path and without terms of
//! Rust.

use std::fmt;

use flow_core::{closest, has_password, is_secret_name};
use serde::de::value::{MapAccessDeserializer, SeqDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value};

/// Reads a value of any kind.
pub(crate) fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, ReadError> {
    T::deserialize(ValueReader(value))
}

/// Reads an object.
pub(super) fn read<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, ReadError> {
    T::deserialize(ValueReader(Value::Object(object)))
}

/// Why a value could not be read.
#[derive(Debug)]
pub(crate) struct ReadError {
    /// Keys from the outermost object to the value that is wrong.
    pub(super) path: Vec<String>,
    pub(super) problem: Problem,
}

/// What is wrong with a value.
#[derive(Debug)]
pub(super) enum Problem {
    /// An object has a key that its type does not know.
    Unknown {
        name: String,
        known: &'static [&'static str],
    },
    /// An object lacks a key.
    Missing { name: &'static str },
    /// Two keys of an object mean the same.
    Twice { name: &'static str },
    /// Anything else.
    Value {
        message: String,
        remedy: Option<String>,
    },
}

impl ReadError {
    /// The key in the outermost object.
    pub(super) fn key(&self) -> Option<&str> {
        self.path.first().map(String::as_str)
    }

    pub(super) fn is_unknown_option(&self) -> bool {
        self.path.len() == 1 && matches!(self.problem, Problem::Unknown { .. })
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self.problem, Problem::Missing { .. })
    }

    fn value(message: String) -> Self {
        Self::new(Problem::Value {
            message,
            remedy: None,
        })
    }

    fn new(problem: Problem) -> Self {
        Self {
            path: Vec::new(),
            problem,
        }
    }

    fn under(mut self, key: &str) -> Self {
        self.path.insert(0, key.to_owned());
        let may_be_secret = match &self.problem {
            Problem::Value { message, .. } => is_secret_name(key) || has_password(message),
            Problem::Unknown { .. } | Problem::Missing { .. } | Problem::Twice { .. } => false,
        };
        if may_be_secret {
            self.problem = Problem::Value {
                message: "has a wrong value, which is not shown because it may be a secret"
                    .to_owned(),
                remedy: None,
            };
        }
        self
    }
}

impl std::error::Error for ReadError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}` ", self.path.join("."))?;
        }
        match &self.problem {
            Problem::Unknown { name, known } => {
                write!(
                    f,
                    "has the unknown key `{name}`; known are {}",
                    either(known)
                )
            }
            Problem::Missing { name } => write!(f, "lacks the key `{name}`"),
            Problem::Twice { name } => write!(f, "has the key `{name}` twice"),
            Problem::Value { message, .. } => write!(f, "{message}"),
        }
    }
}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::value(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let wanted = wanted(&expected.to_string());
        Self::value(format!("must be {wanted}, is {}", described(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(len: usize, expected: &dyn Expected) -> Self {
        let wanted = wanted(&expected.to_string());
        Self::value(format!("must be {wanted}, has length {len}"))
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        let meant = closest(found, known.iter().copied());
        Self::new(Problem::Value {
            message: format!("must be {}, is `{found}`", either(known)),
            remedy: meant.map(|meant| format!("did you mean `{meant}`?")),
        })
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        let name = name.to_owned();
        Self::new(Problem::Unknown { name, known })
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(Problem::Missing { name })
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new(Problem::Twice { name })
    }
}

/// What serde expected, in the terms of a flow file.
fn wanted(expected: &str) -> String {
    if let Some(number) = expected.strip_prefix("a nonzero ") {
        return match number.starts_with('u') {
            true => "a whole number of at least 1",
            false => "a whole number other than 0",
        }
        .to_owned();
    }
    match expected {
        "a boolean" => "`true` or `false`",
        "a string" | "a borrowed string" => "a text",
        "a character" => "a text of one letter",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "u128" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "a mapping",
        other if other.starts_with("struct ") => "a mapping",
        other => other,
    }
    .to_owned()
}

fn described(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("`{value}`"),
        Unexpected::Signed(value) => format!("`{value}`"),
        Unexpected::Float(value) => format!("`{value:?}`"),
        Unexpected::Str(text) => format!("the text `{text}`"),
        Unexpected::Unit | Unexpected::Option => "empty".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        other => other.to_string(),
    }
}

/// "`a`, `b` or `c`".
fn either(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Unexpected::Unsigned(value),
            (None, Some(value)) => Unexpected::Signed(value),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

/// Reads a JSON value.
struct ValueReader(Value);

impl<'de> IntoDeserializer<'de, ReadError> for ValueReader {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ValueReader {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => read_number(&number, visitor),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(ValueReader));
                let read = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(read)
            }
            Value::Object(object) => {
                let mut entries = ObjectReader::new(object);
                let read = visitor.visit_map(&mut entries);
                read.map_err(|error| entries.with_key(error))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::String(text) => visitor.visit_enum(text.into_deserializer()),
            Value::Object(object) => MapAccessDeserializer::new(ObjectReader::new(object))
                .deserialize_enum(name, variants, visitor),
            other => {
                let found = described(unexpected(&other));
                let message = format!("must be {}, is {found}", either(variants));
                Err(ReadError::value(message))
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

fn read_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, ReadError> {
    match (number.as_u64(), number.as_i64()) {
        (Some(value), _) => visitor.visit_u64(value),
        (None, Some(value)) => visitor.visit_i64(value),
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Reads the entries of an object, and remembers the current one.
struct ObjectReader {
    rest: serde_json::map::IntoIter,
    key: String,
    value: Value,
}

impl ObjectReader {
    fn new(object: Map<String, Value>) -> Self {
        Self {
            rest: object.into_iter(),
            key: String::new(),
            value: Value::Null,
        }
    }

    /// Adds the current key to an error about a duplicate key, which serde reports without it.
    fn with_key(&self, error: ReadError) -> ReadError {
        match error.problem {
            Problem::Twice { .. } if error.path.is_empty() => error.under(&self.key),
            _ => error,
        }
    }
}

impl<'de> MapAccess<'de> for ObjectReader {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        (self.key, self.value) = (key.clone(), value);
        let read = seed.deserialize(key.into_deserializer());
        read.map(Some)
            .map_err(|error: ReadError| error.under(&self.key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let value = std::mem::take(&mut self.value);
        let read = seed.deserialize(ValueReader(value));
        read.map_err(|error| error.under(&self.key))
    }
}
