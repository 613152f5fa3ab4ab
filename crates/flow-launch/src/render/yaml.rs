//! Values as YAML that every parser reads in the same way, including parsers of YAML 1.1.
//!
//! Text is plain only where no parser reads it as anything else (`on`, `1_000` and `12:30` are not text to some of them).
//! Otherwise it is in double quotes, as in JSON, or below a `|`.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

/// Words that some parsers do not read as text.
const NOT_TEXT: &[&str] = &["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// What is rendered, as a value.
///
/// # Panics
/// If it is not a JSON value, such as a map whose keys are not text.
pub(crate) fn value(rendered: &impl Serialize) -> Value {
    serde_json::to_value(rendered).expect("what is rendered is JSON")
}

/// The value as a YAML document, with a line end.
///
/// # Panics
/// If it is not a JSON value, such as a map whose keys are not text.
pub(crate) fn document(value: &impl Serialize) -> String {
    let mut text = String::new();
    block(&mut text, &self::value(value), 0);
    text
}

/// A value on its own lines, indented by `depth` steps.
fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                indent(text, depth);
                text.push_str(&scalar(key));
                text.push(':');
                after_key(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text, depth);
                text.push('-');
                after_dash(text, item, depth);
            }
        }
        other => {
            indent(text, depth);
            inline(text, other);
            text.push('\n');
        }
    }
}

/// The value of a key: beside it, or below it.
fn after_key(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::String(long) if is_literal(long) => literal(text, long, depth + 1),
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            block(text, value, depth + 1);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(text, value, depth + 1);
        }
        other => {
            text.push(' ');
            inline(text, other);
            text.push('\n');
        }
    }
}

/// An item of a list, whose first line follows the dash.
fn after_dash(text: &mut String, item: &Value, depth: usize) {
    let mut own = String::new();
    block(&mut own, item, depth + 1);
    let skip = 2 * (depth + 1);
    text.push(' ');
    text.push_str(own.get(skip..).unwrap_or(&own));
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// A value that fits on a line: a scalar, or an empty list or map.
fn inline(text: &mut String, value: &Value) {
    match value {
        Value::String(own) => text.push_str(&scalar(own)),
        other => write!(text, "{other}").expect("text takes all"),
    }
}

/// Text of several lines that YAML can hold without quotes.
fn is_literal(text: &str) -> bool {
    // Some parsers end a line at the two Unicode separators too.
    let is_shown = |it: char| it == '\n' || !(it.is_control() || "\u{2028}\u{2029}".contains(it));
    let ends_well = text.ends_with('\n') && !text.ends_with("\n\n");
    ends_well
        && !text.starts_with([' ', '\n'])
        && text.lines().count() > 1
        && text.chars().all(is_shown)
        && text.lines().all(|line| !line.ends_with(' '))
}

fn literal(text: &mut String, long: &str, depth: usize) {
    text.push_str(" |\n");
    for line in long.lines() {
        if !line.is_empty() {
            indent(text, depth);
        }
        text.push_str(line);
        text.push('\n');
    }
}

fn scalar(text: &str) -> String {
    let begins_as_text = text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '/');
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_./-".contains(it);
    let word = text.to_ascii_lowercase();
    if begins_as_text && text.chars().all(is_plain) && !NOT_TEXT.contains(&word.as_str()) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// Quotes text as JSON does, and escapes characters that end a line in YAML but not in JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for it in Value::from(text).to_string().chars() {
        if "\u{85}\u{2028}\u{2029}\u{feff}".contains(it) {
            write!(quoted, "\\u{:04x}", u32::from(it)).expect("text takes all");
        } else {
            quoted.push(it);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_lists_and_text_are_written_in_block_style() {
        let value = json!({
            "kind": "Service",
            "empty": {}, "none": [],
            "list": [{"a": 1, "b": [true]}, ["x"], "y"],
            "file": "one\n  two\n\nthree\n",
        });
        let expected = "\
kind: Service
empty: {}
none: []
list:
  - a: 1
    b:
      - true
  - - x
  - \"y\"
file: |
  one
    two

  three
";
        assert_eq!(document(&value), expected);
    }

    #[test]
    fn text_that_could_be_something_else_is_quoted() {
        let check = |text: &str, written: &str| {
            assert_eq!(document(&json!(text)), format!("{written}\n"));
        };
        check("flow", "flow");
        check("grpc.health/v1_2-3", "grpc.health/v1_2-3");
        for other in [
            "",
            "yes",
            "On",
            "1_000",
            "12:30",
            "1e3",
            "0x1F",
            "~",
            "a: b",
            "a #b",
            "-x",
            "null",
            " x",
            "{}",
            "*a",
            "$a",
            "=",
            "<<",
            "ünlaut",
            "a\nb",
            "2024-01-01",
            "'",
            "\"",
            "a:",
        ] {
            check(other, &json!(other).to_string());
        }
    }

    #[test]
    fn values_survive_a_round_trip() {
        let texts = [
            "a\nb\n",
            "a\n\n",
            "\na\n",
            " a\nb\n",
            "a \nb\n",
            "\t",
            "a\tb\nc\n",
            "é\u{1}",
            "a\r\nb\n",
            "\u{2028}",
        ];
        for text in texts {
            let value =
                json!({"a": [[text, {"b": text}], []], text: {"c": text, "d": 1.5, "e": null}});
            let read: Value = serde_yaml::from_str(&document(&value)).unwrap();
            assert_eq!(read, value, "{text:?}");
        }
    }
}
