//! Evaluates a query on one document.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::condition::{Compare, Operand, Order, Path, Test};
use crate::{DocArrayVersion, Document};

/// The fields of a document that the query uses.
struct UsedFields<'d> {
    document: &'d Document,
    fields: Map<String, Value>,
}

pub(super) fn matches(test: &Test, fields: &[String], document: &Document) -> bool {
    let fields = document.fields(fields);
    let seen = UsedFields { document, fields };
    seen.fulfils(test)
}

impl UsedFields<'_> {
    fn fulfils(&self, test: &Test) -> bool {
        match test {
            Test::All(tests) => tests.iter().all(|test| self.fulfils(test)),
            Test::Any(tests) => tests.iter().any(|test| self.fulfils(test)),
            Test::Not(test) => !self.fulfils(test),
            Test::Field(path, compare) => self.compares(path, compare),
        }
    }

    fn compares(&self, path: &Path, compare: &Compare) -> bool {
        if let Compare::Exists(wanted) = compare {
            return self.exists(path) == *wanted;
        }
        let Some(value) = self.value(path) else {
            return false;
        };
        match compare {
            Compare::Equal(operand) => self.is_equal(&value, operand),
            Compare::NotEqual(operand) => !self.is_equal(&value, operand),
            Compare::Order(wanted, operand) => self.is_in_order(&value, *wanted, operand),
            Compare::In(operand) => self.is_in(&value, operand),
            Compare::NotIn(operand) => !self.is_in(&value, operand),
            Compare::Regex(regex) => value.as_str().is_some_and(|text| regex.is_match(text)),
            Compare::Size(size) => self.size(path, &value) == Some(*size),
            Compare::Exists(_) => false,
        }
    }

    /// The value at the path. In the first version there always is one.
    fn value(&self, path: &Path) -> Option<Value> {
        let found = self.find(path).cloned();
        match self.document.version() {
            DocArrayVersion::V1 if path.0.len() == 1 => {
                Some(found.unwrap_or_else(|| default(path.field())))
            }
            DocArrayVersion::V1 => Some(found.unwrap_or_default()),
            DocArrayVersion::V2 => found,
        }
    }

    fn find(&self, path: &Path) -> Option<&Value> {
        let first = self.fields.get(path.field());
        path.0[1..]
            .iter()
            .try_fold(first?, |value, step| inside(value, step))
    }

    fn exists(&self, path: &Path) -> bool {
        let found = self.find(path);
        match self.document.version() {
            DocArrayVersion::V1 if path.0.len() == 1 => {
                found.is_some_and(|value| !value.is_null() && *value != default(path.field()))
            }
            DocArrayVersion::V1 => found.is_some_and(|value| !value.is_null()),
            DocArrayVersion::V2 => found.is_some(),
        }
    }

    fn is_equal(&self, value: &Value, operand: &Operand) -> bool {
        self.operand(operand)
            .is_some_and(|operand| equal(value, &operand))
    }

    fn is_in_order(&self, value: &Value, wanted: Order, operand: &Operand) -> bool {
        let Some(ordering) = self
            .operand(operand)
            .and_then(|operand| compare(value, &operand))
        else {
            return false;
        };
        match wanted {
            Order::Greater => ordering.is_gt(),
            Order::GreaterOrEqual => ordering.is_ge(),
            Order::Less => ordering.is_lt(),
            Order::LessOrEqual => ordering.is_le(),
        }
    }

    fn is_in(&self, value: &Value, operand: &Operand) -> bool {
        match (self.operand(operand).as_deref(), value) {
            (Some(Value::Array(items)), _) => items.iter().any(|item| equal(value, item)),
            (Some(Value::String(text)), Value::String(part)) => text.contains(part),
            (Some(Value::Object(map)), Value::String(key)) => map.contains_key(key),
            _ => false,
        }
    }

    fn operand<'a>(&self, operand: &'a Operand) -> Option<std::borrow::Cow<'a, Value>> {
        use std::borrow::Cow;
        match operand {
            Operand::Value(value) => Some(Cow::Borrowed(value)),
            Operand::Field(path) => self.value(path).map(Cow::Owned),
        }
    }

    /// The length of a value; `None` if it has no length.
    fn size(&self, path: &Path, value: &Value) -> Option<u64> {
        let size = match value {
            // Bytes are a longer text in JSON.
            Value::String(_) if path.0 == ["blob"] => self.document.blob()?.len(),
            Value::String(text) => text.chars().count(),
            Value::Array(items) => items.len(),
            Value::Object(map) => return Some(tensor_len(map).unwrap_or(map.len() as u64)),
            _ => return None,
        };
        Some(size as u64)
    }
}

/// The default value of a field in the first version.
fn default(field: &str) -> Value {
    match field {
        "id" | "parent_id" | "text" | "blob" | "uri" | "mime_type" | "modality" => "".into(),
        "granularity" | "adjacency" | "weight" | "offset" => 0.into(),
        "location" | "chunks" | "matches" => Value::Array(Vec::new()),
        "tags" | "scores" | "evaluations" => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

/// The value at a key of a map, or at an index of a list, which counts from the end if it is negative.
fn inside<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(step),
        Value::Array(items) => {
            let place: i64 = step.parse().ok()?;
            let distance = usize::try_from(place.unsigned_abs()).ok()?;
            let place = if place < 0 {
                items.len().checked_sub(distance)?
            } else {
                distance
            };
            items.get(place)
        }
        _ => None,
    }
}

/// Whether the JSON is an array as type, shape and bytes, the form of arrays whose values JSON does not show.
fn tensor_len(map: &Map<String, Value>) -> Option<u64> {
    let is_tensor = map.len() == 3 && map.contains_key("dtype") && map.contains_key("buffer");
    let shape = map.get("shape").filter(|_| is_tensor)?;
    shape.get(0)?.as_u64()
}

/// Equality as in Python: truth values equal the numbers 0 and 1, and integers equal floats.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(key, value)| other.get(key).is_some_and(|other| equal(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => match (number(one), number(other)) {
            (Some(one), Some(other)) => one == other,
            _ => one == other,
        },
    }
}

fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => number(one)?.partial_cmp(&number(other)?),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Number::as_f64(number),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        _ => None,
    }
}
