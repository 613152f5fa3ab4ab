//! Replies for people to read: a line for each field of a document, with long arrays truncated, a few lines for each nested
//! document, and the results of executors.

use serde_json::{Map, Value};

use super::nested::{count, documents, listed};
use crate::escape::{escape, escape_lines};

/// Number of values of an array that are shown.
const VALUES_SHOWN: usize = 5;

/// A document, with each field on a line of its own. Lines of nested documents have at most `columns` columns.
pub(super) fn readable(document: &Value, columns: usize) -> String {
    let Value::Object(fields) = document else {
        return json(document) + "\n";
    };
    let width = width(fields);
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| position(name));
    let lines = |(name, value): (&String, &Value)| {
        let nested = documents(value).map(|documents| listed(&documents, columns));
        let nested = nested.unwrap_or_default();
        format!("{:width$}  {}\n{nested}", escape(name), shown(value))
    };
    fields.into_iter().map(lines).collect()
}

/// The results of each executor, below its name.
pub(super) fn readable_results(results: &Map<String, Value>) -> String {
    let blocks: Vec<String> = results.iter().map(returned).collect();
    blocks.join("\n")
}

fn returned((executor, result): (&String, &Value)) -> String {
    let Value::Object(fields) = result else {
        return format!("result of {}  {}\n", escape(executor), shown(result));
    };
    let width = width(fields);
    let lines = fields
        .iter()
        .map(|(name, value)| format!("  {:width$}  {}\n", escape(name), shown(value)));
    let lines = lines.collect::<String>();
    format!("result of {}\n{lines}", escape(executor))
}

fn width(fields: &Map<String, Value>) -> usize {
    fields
        .keys()
        .map(|name| escape(name).chars().count())
        .max()
        .unwrap_or(0)
}

/// The position of a field: id and text first, nested documents last.
fn position(name: &str) -> u8 {
    match name {
        "id" => 0,
        "text" => 1,
        "chunks" => 3,
        "matches" => 4,
        _ => 2,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => escape_lines(text).into_owned(),
        Value::Array(_) => match (shape(value), documents(value)) {
            (Some(shape), _) => array(&shape, value),
            (None, Some(documents)) => count(documents.len(), "document"),
            (None, None) => json(value),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => json(value),
    }
}

fn json(value: &Value) -> String {
    escape(&value.to_string()).into_owned()
}

/// The sizes of an array of numbers in each dimension. `None` if the value is not one.
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

/// The numbers of an array, in all dimensions.
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
        assert_eq!(readable(document, 80), wanted);
    }

    #[test]
    fn each_field_has_a_line() {
        check(
            &json!({"tags": {"page": 3}, "id": "7", "text": "hello\u{a0}world"}),
            "id    7\ntext  hello\u{a0}world\ntags  {\"page\":3}\n",
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        check(
            &json!({"id": "\u{1b}[2J", "text": "one\ntwo\u{7}", "tags": {"\u{9b}k": "\u{1b}c"}}),
            "id    \\x1b[2J\ntext  one\ntwo\\x07\ntags  {\"\\x9bk\":\"\\u001bc\"}\n",
        );
        let results = json!({"index\u{1b}c": {"a\rb": 1}});
        assert_eq!(
            readable_results(results.as_object().unwrap()),
            "result of index\\x1bc\n  a\\x0db  1\n"
        );
    }

    #[test]
    fn long_arrays_are_truncated() {
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
    fn nested_documents_come_last_and_are_listed() {
        check(
            &json!({"matches": [{"id": "b", "text": "found"}], "tags": {}, "chunks": [{"id": "a", "text": "part"}]}),
            "tags     {}\n\
             chunks   1 document\n  part\n  a\n\
             matches  1 document\n  found\n  b\n",
        );
        check(&json!({"list": ["a", {}]}), "list  [\"a\",{}]\n");
    }

    #[test]
    fn results_are_below_the_name_of_their_executor() {
        let results = json!({"index/rep-0": {"count": 3, "dimensions": null}, "own": 5});
        assert_eq!(
            readable_results(results.as_object().unwrap()),
            "result of index/rep-0\n  count       3\n  dimensions  null\n\nresult of own  5\n"
        );
    }
}
