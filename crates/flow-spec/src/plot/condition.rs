//! A condition in plain words: `tags.lang = de or text ~ ^q:`.

use serde_json::Value;

/// The query in a line.
pub(super) fn say(query: &Value) -> String {
    all(query, " and ")
}

/// How tightly a part holds together: parts of another join go into brackets.
fn all(query: &Value, with: &str) -> String {
    let conditions = query.as_object().into_iter().flatten();
    let parts: Vec<String> = conditions
        .flat_map(|(key, value)| match key.as_str() {
            "$and" => joined(value, " and "),
            "$or" => joined(value, " or "),
            "$not" => vec![format!("not ({})", say(value))],
            field => comparisons(field, value),
        })
        .collect();
    parts.join(with)
}

fn joined(list: &Value, with: &str) -> Vec<String> {
    let parts: Vec<String> = list.as_array().into_iter().flatten().map(say).collect();
    let said = parts.join(with);
    if parts.len() > 1 && with == " or " {
        vec![format!("({said})")]
    } else {
        vec![said]
    }
}

fn comparisons(field: &str, compare: &Value) -> Vec<String> {
    let field = field.replace("__", ".");
    let compare = compare.as_object().into_iter().flatten();
    compare
        .map(|(operator, value)| comparison(&field, operator, value))
        .collect()
}

fn comparison(field: &str, operator: &str, value: &Value) -> String {
    let sign = match operator {
        "$exists" if *value == Value::Bool(false) => return format!("no {field}"),
        "$exists" => return format!("has {field}"),
        "$size" => return format!("{} {field}", plain(value)),
        "$eq" => "=",
        "$neq" => "≠",
        "$gt" => ">",
        "$gte" => "≥",
        "$lt" => "<",
        "$lte" => "≤",
        "$in" => "in",
        "$nin" => "not in",
        "$regex" => "~",
        other => other,
    };
    format!("{field} {sign} {}", plain(value))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
