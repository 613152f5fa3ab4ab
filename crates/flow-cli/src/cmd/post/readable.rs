//! A document as people read it: a line for each field, with long arrays cut short.

use serde_json::{Map, Value};

/// Values of an array that are shown.
const VALUES_SHOWN: usize = 5;

/// A document, each field on a line of its own.
pub(super) fn readable(document: &Value) -> String {
    let Value::Object(fields) = document else {
        return format!("{document}\n");
    };
    let width = fields.keys().map(String::len).max().unwrap_or(0);
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| place(name));
    let line = |(name, value)| format!("{name:width$}  {}\n", shown(value));
    fields.into_iter().map(line).collect()
}

/// What a document is comes before what was made of it; otherwise the order stays.
fn place(name: &str) -> u8 {
    match name {
        "id" => 0,
        "text" => 1,
        _ => 2,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => match shape(value) {
            Some(shape) => array(&shape, value),
            None if is_documents(items) => count(items.len(), "document"),
            None => value.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

fn is_documents(items: &[Value]) -> bool {
    let has_id = |fields: &Map<String, Value>| fields.contains_key("id");
    !items.is_empty()
        && items
            .iter()
            .all(|item| item.as_object().is_some_and(has_id))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// How long an array of numbers is in each of its dimensions; none if it is not one.
fn shape(value: &Value) -> Option<Vec<usize>> {
    match value {
        Value::Number(_) => Some(Vec::new()),
        Value::Array(items) => {
            let mut shape = vec![items.len()];
            shape.extend(items.first().and_then(self::shape)?);
            Some(shape)
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Object(_) => None,
    }
}

fn array(shape: &[usize], value: &Value) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let values: Vec<String> = values(value)
        .take(VALUES_SHOWN)
        .map(Value::to_string)
        .collect();
    let all = shape.iter().product::<usize>() <= VALUES_SHOWN;
    let rest = if all { "" } else { ", …" };
    format!("{} numbers: {}{rest}", sizes.join("×"), values.join(", "))
}

/// The numbers of an array, however deep they lie.
fn values(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter().flat_map(values)),
        other => Box::new(std::iter::once(other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: &Value, wanted: &str) {
        assert_eq!(readable(document), wanted);
    }

    #[test]
    fn each_field_has_a_line() {
        check(
            &json!({"tags": {"page": 3}, "id": "7", "text": "hello\u{a0}world"}),
            "id    7\ntext  hello\u{a0}world\ntags  {\"page\":3}\n",
        );
    }

    #[test]
    fn long_arrays_are_cut_short() {
        check(
            &json!({"embedding": [0.5, 1.0]}),
            "embedding  2 numbers: 0.5, 1.0\n",
        );
        let long: Vec<u32> = (0..384).collect();
        check(
            &json!({"embedding": long}),
            "embedding  384 numbers: 0, 1, 2, 3, 4, …\n",
        );
        let image = json!({"tensor": [[1, 2, 3], [4, 5, 6]]});
        check(&image, "tensor  2×3 numbers: 1, 2, 3, 4, 5, …\n");
    }

    #[test]
    fn documents_inside_are_counted() {
        check(
            &json!({"chunks": [{"id": "a"}, {"id": "b"}]}),
            "chunks  2 documents\n",
        );
        check(&json!({"list": ["a", {}]}), "list  [\"a\",{}]\n");
    }
}
