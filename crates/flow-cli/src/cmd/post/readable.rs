//! A reply as people read it: a line for each field of a document, with long arrays cut short, a few lines
//! for documents inside it, and what executors return besides documents.

use serde_json::{Map, Value};

use super::listed::{count, documents, listed};

/// Values of an array that are shown.
const VALUES_SHOWN: usize = 5;

/// A document, each field on a line of its own. Documents inside it have lines of at most `columns`.
pub(super) fn readable(document: &Value, columns: usize) -> String {
    let Value::Object(fields) = document else {
        return format!("{document}\n");
    };
    let width = width(fields);
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| place(name));
    let lines = |(name, value)| {
        let inside = documents(value).map(|documents| listed(&documents, columns));
        let inside = inside.unwrap_or_default();
        format!("{name:width$}  {}\n{inside}", shown(value))
    };
    fields.into_iter().map(lines).collect()
}

/// What each executor returned, under its name.
pub(super) fn readable_results(results: &Map<String, Value>) -> String {
    let blocks: Vec<String> = results.iter().map(returned).collect();
    blocks.join("\n")
}

fn returned((executor, result): (&String, &Value)) -> String {
    let Value::Object(fields) = result else {
        return format!("result of {executor}  {}\n", shown(result));
    };
    let width = width(fields);
    let lines = fields
        .iter()
        .map(|(name, value)| format!("  {name:width$}  {}\n", shown(value)));
    format!("result of {executor}\n{}", lines.collect::<String>())
}

fn width(fields: &Map<String, Value>) -> usize {
    fields
        .keys()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
}

/// What a document is comes before what was made of it; documents inside it come last.
fn place(name: &str) -> u8 {
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
        Value::String(text) => text.clone(),
        Value::Array(_) => match (shape(value), documents(value)) {
            (Some(shape), _) => array(&shape, value),
            (None, Some(documents)) => count(documents.len(), "document"),
            (None, None) => value.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
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
    fn documents_inside_come_last_and_are_listed() {
        check(
            &json!({"matches": [{"id": "b", "text": "found"}], "tags": {}, "chunks": [{"id": "a", "text": "part"}]}),
            "tags     {}\n\
             chunks   1 document\n  part\n  a\n\
             matches  1 document\n  found\n  b\n",
        );
        check(&json!({"list": ["a", {}]}), "list  [\"a\",{}]\n");
    }

    #[test]
    fn results_stand_under_the_executor_that_returned_them() {
        let results = json!({"index/rep-0": {"count": 3, "dimensions": null}, "own": 5});
        assert_eq!(
            readable_results(results.as_object().unwrap()),
            "result of index/rep-0\n  count       3\n  dimensions  null\n\nresult of own  5\n"
        );
    }
}
