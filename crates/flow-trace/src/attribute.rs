//! Values of attributes.

use opentelemetry::{Array, Value};

/// The value of an attribute of a span.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Texts.
    Texts(Vec<String>),
    /// Numbers.
    Floats(Vec<f64>),
}

impl Attribute {
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Integer(number) => number.into(),
            Self::Float(number) => number.into(),
            Self::Bool(value) => value.into(),
            Self::Texts(texts) => {
                let texts = texts.into_iter().map(Into::into);
                Value::Array(Array::String(texts.collect()))
            }
            Self::Floats(numbers) => Value::Array(Array::F64(numbers)),
        }
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

/// Numbers that are too large become the largest.
impl From<usize> for Attribute {
    fn from(number: usize) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Attribute {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
