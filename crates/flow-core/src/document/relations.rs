//! How a document relates to others: its parent, its position in it, its scores.
//!
//! The first version has fields for these. In the second version they are fields like any other, with the same names,
//! for document classes that declare them.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::wire::Fields;
use super::{BadDocument, DocArrayVersion, Document, json, v1, v2};

impl Document {
    /// The id of the document that this one is a chunk or a match of; empty if there is none.
    #[must_use]
    pub fn parent_id(&self) -> String {
        self.string("parent_id").unwrap_or_default()
    }

    /// Sets the id of the parent.
    pub fn set_parent_id(&mut self, id: &str) {
        self.set_known_field("parent_id", &json!(id));
    }

    /// Nesting depth as a chunk: 2 for a chunk of a chunk.
    #[must_use]
    pub fn granularity(&self) -> u32 {
        self.number("granularity")
    }

    /// Sets the nesting depth as a chunk.
    pub fn set_granularity(&mut self, depth: u32) {
        self.set_known_field("granularity", &json!(depth));
    }

    /// Nesting depth as a match: 2 for a match of a match.
    #[must_use]
    pub fn adjacency(&self) -> u32 {
        self.number("adjacency")
    }

    /// Sets the nesting depth as a match.
    pub fn set_adjacency(&mut self, steps: u32) {
        self.set_known_field("adjacency", &json!(steps));
    }

    /// Its index among the chunks of its parent.
    #[must_use]
    pub fn offset(&self) -> f32 {
        let offset = self.json_field("offset").and_then(|value| value.as_f64());
        narrow(offset.unwrap_or_default())
    }

    /// Sets its index among the chunks of its parent.
    pub fn set_offset(&mut self, place: usize) {
        self.set_known_field("offset", &json!(place));
    }

    /// Its position in its parent: for a text, the offsets of its first character and of its end.
    #[must_use]
    pub fn location(&self) -> Vec<f32> {
        match self.json_field("location") {
            Some(Value::Array(numbers)) => {
                let numbers = numbers.iter().filter_map(Value::as_f64);
                numbers.map(narrow).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Sets its position in its parent. Numbers up to 16 million are exact.
    pub fn set_location(&mut self, from: usize, to: usize) {
        self.set_known_field("location", &json!([from, to]));
    }

    /// A score by its name, such as `cosine`.
    #[must_use]
    pub fn score(&self, name: &str) -> Option<f32> {
        let scores = self.json_field("scores")?;
        let score = match self.version() {
            DocArrayVersion::V1 => scores.get(name)?.get("value").cloned().unwrap_or(json!(0)),
            DocArrayVersion::V2 => scores.get(name)?.clone(),
        };
        score.as_f64().map(narrow)
    }

    /// All scores, by their names.
    #[must_use]
    pub fn scores(&self) -> BTreeMap<String, f32> {
        let Some(Value::Object(scores)) = self.json_field("scores") else {
            return BTreeMap::new();
        };
        let number = |score: &Value| match self.version() {
            DocArrayVersion::V1 => score.get("value").map_or(Some(0.0), Value::as_f64),
            DocArrayVersion::V2 => score.as_f64(),
        };
        let scores = scores.into_iter();
        scores
            .filter_map(|(name, score)| Some((name, narrow(number(&score)?))))
            .collect()
    }

    /// Whether all scores and evaluations that the document has are finite numbers.
    #[must_use]
    pub fn has_finite_scores(&self) -> bool {
        let is_finite = |score: &Value| match self.version() {
            DocArrayVersion::V1 => !matches!(score.get("value"), Some(Value::Null)),
            DocArrayVersion::V2 => !score.is_null(),
        };
        ["scores", "evaluations"]
            .iter()
            .all(|name| match self.json_field(name) {
                Some(Value::Object(scores)) => scores.values().all(is_finite),
                _ => true,
            })
    }

    /// Adds a score. Those that are not finite numbers are lost. `query` is the id of the document that this one was compared with.
    pub fn set_score(&mut self, name: &str, value: f32, query: &str) {
        self.set_scores([(name, Some(value))], query);
    }

    /// Sets several scores, each as [`set_score`](Self::set_score) does, and removes those that are `None`.
    pub fn set_scores<'n>(
        &mut self,
        changes: impl IntoIterator<Item = (&'n str, Option<f32>)>,
        query: &str,
    ) {
        let mut scores = match self.json_field("scores") {
            Some(Value::Object(scores)) => scores,
            _ => Map::new(),
        };
        for (name, value) in changes {
            let Some(value) = value else {
                scores.remove(name);
                continue;
            };
            let score = match self.version() {
                DocArrayVersion::V1 => json!({ "value": value, "op_name": name, "ref_id": query }),
                DocArrayVersion::V2 => json!(value),
            };
            scores.insert(name.to_owned(), score);
        }
        // JSON has no such numbers.
        scores.retain(|_, score| match self.version() {
            DocArrayVersion::V1 => !matches!(score.get("value"), Some(Value::Null)),
            DocArrayVersion::V2 => !score.is_null(),
        });
        self.set_known_field("scores", &Value::Object(scores));
    }

    fn number(&self, name: &'static str) -> u32 {
        let number = self.json_field(name).and_then(|value| value.as_u64());
        number.and_then(|it| u32::try_from(it).ok()).unwrap_or(0)
    }

    /// One field as JSON, if the document has it; the others are not decoded. Arrays are better read with
    /// [`embedding`](Self::embedding) and [`tensor`](Self::tensor).
    #[must_use]
    pub fn json_field(&self, name: &'static str) -> Option<Value> {
        let edit = self.edits.iter().find(|edit| edit.name == name);
        let bytes = edit.map_or_else(|| self.fields_of(name), |edit| edit.encoded.clone());
        if bytes.is_empty() {
            return None;
        }
        json::from_field(self.version(), name, bytes)
    }

    fn fields_of(&self, name: &str) -> Bytes {
        let mut found = BytesMut::new();
        for field in Fields::of(&self.raw).filter_map(Result::ok) {
            let is_meant = match self.version() {
                DocArrayVersion::V1 => v1::replaces(name, field.number),
                DocArrayVersion::V2 => v2::replaces(name, &field),
            };
            if is_meant {
                found.extend_from_slice(field.whole);
            }
        }
        found.freeze()
    }

    /// Sets one field from JSON, as [`json_field`](Self::json_field) reads it.
    ///
    /// # Errors
    ///
    /// If the value does not have the field's type.
    pub fn set_json_field(&mut self, name: &'static str, value: &Value) -> Result<(), BadDocument> {
        let encoded = json::to_field(self.version(), name, value)?;
        self.set(name, encoded);
        Ok(())
    }

    fn set_known_field(&mut self, name: &'static str, value: &Value) {
        self.set_json_field(name, value)
            .expect("the methods above use the type of each field");
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "these fields are encoded as 32-bit floats"
)]
fn narrow(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: DocArrayVersion) {
        let mut document = Document::of_version(version);
        document.set_text("kept");
        assert_eq!(document.parent_id(), "");
        assert!(document.location().is_empty());
        assert_eq!(document.score("cosine"), None);

        document.set_parent_id("p");
        document.set_granularity(1);
        document.set_adjacency(2);
        document.set_offset(3);
        document.set_location(0, 70_000);
        document.set_score("cosine", 0.5, "q");
        document.set_score("own", -1.25, "q");
        let before = document.clone();
        let document = Document::decode(version, document.encode()).unwrap();
        for document in [&before, &document] {
            assert_eq!(document.parent_id(), "p");
            assert_eq!((document.granularity(), document.adjacency()), (1, 2));
            assert!((document.offset() - 3.0).abs() < f32::EPSILON);
            assert_eq!(document.location(), [0.0, 70_000.0]);
            assert_eq!(document.score("cosine"), Some(0.5));
            assert_eq!(document.score("own"), Some(-1.25));
            assert_eq!(document.text(), "kept");
        }
    }

    #[test]
    fn relations_survive_encoding_in_both_versions() {
        check(DocArrayVersion::V1);
        check(DocArrayVersion::V2);
    }

    #[test]
    fn setting_a_field_again_replaces_it() {
        let mut document = Document::new();
        document.set_location(5, 9);
        document.set_offset(4);
        let mut document = Document::decode(DocArrayVersion::V1, document.encode()).unwrap();
        document.set_location(0, 1);
        document.set_offset(0);
        let document = Document::decode(DocArrayVersion::V1, document.encode()).unwrap();
        assert_eq!(document.location(), [0.0, 1.0]);
        assert!(document.offset().abs() < f32::EPSILON);
    }
}
