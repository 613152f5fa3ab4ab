//! Nested documents, such as the matches of a query, for people to read: two lines each.
//!
//! The first line has the scores and the text; the second has the id, the tags, and the numbers of documents nested in turn.
//! Lines are truncated to a width, and only the first documents are shown.

use serde_json::{Map, Value};

use crate::escape::escape;

/// Maximum number of documents of a list that are shown.
const DOCUMENTS_SHOWN: usize = 10;

/// Blanks before each line.
const INDENT: usize = 2;

/// Blanks between two parts of a line.
const GAP: &str = "  ";

type Fields = Map<String, Value>;

/// The documents of a list. `None` if the value is not a list of documents.
pub(super) fn documents(value: &Value) -> Option<Vec<&Fields>> {
    let fields = value.as_array()?.iter().map(Value::as_object);
    let documents: Vec<_> = fields.collect::<Option<_>>()?;
    let all_have_ids = documents.iter().all(|it| it.contains_key("id"));
    (all_have_ids && !documents.is_empty()).then_some(documents)
}

/// `1 document`, `2 documents`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The lines of a list of documents, each of at most `columns` columns.
pub(super) fn listed(documents: &[&Fields], columns: usize) -> String {
    let shown = &documents[..documents.len().min(DOCUMENTS_SHOWN)];
    let scores: Vec<String> = shown.iter().map(|it| scores(it)).collect();
    let width = scores.iter().map(|it| it.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut lines = String::new();
    let mut add = |text: &str| {
        let room = columns.saturating_sub(INDENT);
        lines.push_str(&" ".repeat(INDENT));
        lines.push_str(shorten(text, room).trim_end());
        lines.push('\n');
    };
    let gap = if width > 0 { GAP } else { "" };
    for (document, scores) in shown.iter().zip(&scores) {
        add(&format!("{scores:width$}{gap}{}", text(document)));
        add(&format!("{:width$}{gap}{}", "", details(document)));
    }
    if documents.len() > shown.len() {
        add(&format!("… and {} more", documents.len() - shown.len()));
    }
    lines
}

/// Such as `cosine 0.8312`. In DocArray v1, a score is an object.
fn scores(document: &Fields) -> String {
    let scores = document.get("scores").and_then(Value::as_object);
    let score = |(name, score): (&String, &Value)| {
        let value = score.get("value").unwrap_or(score).as_f64()?;
        Some(format!("{} {value:.4}", one_line(name)))
    };
    let scores = scores.into_iter().flatten().filter_map(score);
    scores.collect::<Vec<_>>().join(", ")
}

/// The text of the document on one line, or its URI.
fn text(document: &Fields) -> String {
    let fields = ["text", "uri", "url"].into_iter();
    let mut texts = fields.filter_map(|name| document.get(name)?.as_str());
    match texts.find(|text| !text.trim().is_empty()) {
        Some(text) => one_line(text),
        None => "(no text)".to_owned(),
    }
}

fn details(document: &Fields) -> String {
    let id = document.get("id").and_then(Value::as_str);
    let tags = document.get("tags").filter(|tags| !is_empty(tags));
    let inside = [("chunks", "chunk"), ("matches", "match")].into_iter();
    let inside = inside.filter_map(|(name, one)| match document.get(name)?.as_array()?.len() {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {name}")),
    });
    let parts = id
        .map(one_line)
        .into_iter()
        .chain(tags.map(|tags| one_line(&tags.to_string())))
        .chain(inside);
    parts.collect::<Vec<_>>().join(GAP)
}

fn is_empty(tags: &Value) -> bool {
    tags.as_object().is_none_or(Map::is_empty)
}

/// The text on one line, with control characters escaped.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    escape(&words.join(" ")).into_owned()
}

/// Truncates a text, and ends it with `…`.
fn shorten(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let start: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(list: &Value, columns: usize, wanted: &str) {
        let documents = documents(list).unwrap();
        assert_eq!(listed(&documents, columns), wanted);
    }

    #[test]
    fn a_match_has_its_scores_its_text_its_id_and_its_tags() {
        let matches = json!([
            {"id": "a-1", "text": "one\n two", "scores": {"cosine": {"value": 0.831_24, "op_name": "cosine"}},
             "tags": {"page": 3}},
            {"id": "b", "text": "three", "scores": {"cosine": {"value": -0.5}}, "tags": {}},
        ]);
        check(
            &matches,
            80,
            "  cosine 0.8312   one two\n\
             \x20                 a-1  {\"page\":3}\n\
             \x20 cosine -0.5000  three\n\
             \x20                 b\n",
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let matches =
            json!([{"id": "\u{1b}[2J", "text": "a\n\u{1b}]0;x\u{7}", "scores": {"\u{9b}": 1}}]);
        check(
            &matches,
            80,
            "  \\x9b 1.0000  a \\x1b]0;x\\x07\n               \\x1b[2J\n",
        );
    }

    #[test]
    fn scores_of_v2_are_plain_numbers() {
        let matches = json!([{"id": "a", "text": "x", "scores": {"bm25": 7, "cosine": 0.25}}]);
        check(
            &matches,
            80,
            "  bm25 7.0000, cosine 0.2500  x\n                              a\n",
        );
    }

    #[test]
    fn a_chunk_without_scores_begins_with_its_text() {
        let chunks =
            json!([{"id": "a", "uri": "x.png", "chunks": [{}], "matches": [{}, {}]}, {"id": "b"}]);
        check(
            &chunks,
            80,
            "  x.png\n  a  1 chunk  2 matches\n  (no text)\n  b\n",
        );
    }

    #[test]
    fn only_the_first_ten_are_shown_and_the_others_counted() {
        let many: Value = (0..12)
            .map(|it| json!({"id": it.to_string(), "text": "t"}))
            .collect();
        let listed = listed(&documents(&many).unwrap(), 80);
        assert_eq!(listed.lines().count(), 21, "{listed}");
        assert!(listed.ends_with("  t\n  9\n  … and 2 more\n"), "{listed}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let text = "tschüß ".repeat(40);
        let list =
            json!([{"id": "i".repeat(99), "text": text, "scores": {"cosine": 1}}, {"id": "j"}]);
        let documents = documents(&list).unwrap();
        for columns in [20, 40, 80] {
            let listed = listed(&documents, columns);
            let widths: Vec<usize> = listed.lines().map(|it| it.chars().count()).collect();
            assert_eq!(widths[..2], [columns, columns], "{listed}");
            assert!(widths.iter().all(|it| *it <= columns), "{listed}");
        }
    }

    #[test]
    fn values_without_ids_are_not_documents() {
        for other in [
            json!([]),
            json!(["a"]),
            json!([{}]),
            json!([{"id": 1}, {}]),
            json!(5),
        ] {
            assert_eq!(documents(&other), None, "{other}");
        }
    }
}
