//! `--parameters`: JSON objects and `key:value` pairs become one mapping.

use serde_json::{Map, Value};

/// One mapping from all of them; later ones win.
pub(super) fn parameters(given: &[String]) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for text in given {
        if text.trim_start().starts_with('{') {
            let map: Map<String, Value> = serde_json::from_str(text)
                .map_err(|error| format!("`--parameters {text}` is not JSON: {error}"))?;
            all.extend(map);
        } else {
            let (key, value) = pair(text)?;
            all.insert(key, value);
        }
    }
    Ok(all)
}

fn pair(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text
        .split_once(':')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| format!("`--parameters {text}` is neither JSON nor `key:value`"))?;
    // What is no number, truth value or list is a text; `a:b` needs no quotes.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(given: &[&str], wanted: Value) {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        assert_eq!(parameters(&given).map(Value::Object), Ok(wanted));
    }

    fn check_error(given: &str, wanted: &str) {
        let error = parameters(&[given.to_owned()]).unwrap_err();
        assert!(error.starts_with(wanted), "{error}");
    }

    #[test]
    fn parameters_are_json_or_pairs_and_later_ones_win() {
        check(&[], json!({}));
        check(
            &["top_k:5", "enc__device:cuda:1"],
            json!({"top_k": 5, "enc__device": "cuda:1"}),
        );
        check(
            &[r#"{"a": {"b": [1]}}"#, "on:true"],
            json!({"a": {"b": [1]}, "on": true}),
        );
        check(&[r#"{"a": 1}"#, "a:"], json!({"a": ""}));
    }

    #[test]
    fn what_is_neither_is_named() {
        check_error(
            "top_k",
            "`--parameters top_k` is neither JSON nor `key:value`",
        );
        check_error(":5", "`--parameters :5` is neither JSON nor `key:value`");
        check_error("{", "`--parameters {` is not JSON: ");
    }
}
