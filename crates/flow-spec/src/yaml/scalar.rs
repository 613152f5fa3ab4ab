//! What the text of a scalar is: YAML 1.2's core schema, in which `on`, `off`, `yes` and `no` are texts.

use serde_json::{Number, Value};

/// A scalar as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes, so that it may be a number, `true`, `null` …
    pub(crate) plain: bool,
}

/// What a scalar is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Resolved<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(&'a str),
}

impl Scalar {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            plain: true,
        }
    }

    pub(crate) fn quoted(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            plain: false,
        }
    }

    pub(crate) fn resolve(&self) -> Resolved<'_> {
        if !self.plain {
            return Resolved::Text(&self.text);
        }
        match self.text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
            "true" | "True" | "TRUE" => Resolved::Bool(true),
            "false" | "False" | "FALSE" => Resolved::Bool(false),
            text => number(text).unwrap_or(Resolved::Text(text)),
        }
    }

    pub(crate) fn described(&self) -> String {
        match self.resolve() {
            Resolved::Null => "empty".to_owned(),
            Resolved::Text(text) => format!("the text `{text}`"),
            Resolved::Bool(_) | Resolved::Integer(_) | Resolved::Float(_) => {
                format!("`{}`", self.text)
            }
        }
    }

    /// None for a number without end, which JSON cannot write.
    pub(crate) fn to_json(&self) -> Option<Value> {
        Some(match self.resolve() {
            Resolved::Null => Value::Null,
            Resolved::Bool(value) => Value::Bool(value),
            Resolved::Integer(value) => Value::from(value),
            Resolved::Float(value) => Value::Number(Number::from_f64(value)?),
            Resolved::Text(text) => Value::from(text),
        })
    }
}

fn number(text: &str) -> Option<Resolved<'_>> {
    integer(text)
        .map(Resolved::Integer)
        .or_else(|| float(text).map(Resolved::Float))
}

fn integer(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return unsigned(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return unsigned(digits, 8);
    }
    text.parse().ok()
}

/// Without a sign, which Rust would accept after the prefix.
fn unsigned(digits: &str, radix: u32) -> Option<i64> {
    let bare = digits.chars().all(|digit| digit.is_digit(radix));
    bare.then(|| i64::from_str_radix(digits, radix).ok())
        .flatten()
}

fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Some(f64::NAN),
        _ => {}
    }
    // Rust also reads `inf`, `nan` and `infinity`, which are texts in YAML.
    let has_digit = unsigned.contains(|c: char| c.is_ascii_digit());
    let is_number = unsigned
        .chars()
        .all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    (has_digit && is_number)
        .then(|| text.parse().ok())
        .flatten()
}
