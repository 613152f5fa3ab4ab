//! Where a document stands among others: whose part it is, which piece, and how well it matched.
//!
//! The first flavour has fields for these. The second has none of its own; there they are fields like any
//! other, with the same names, for those who declare them.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::wire::Fields;
use super::{Document, Flavour, json, v1, v2};

impl Document {
    /// The id of the document that this is a part of, or was found for; empty if it has none.
    #[must_use]
    pub fn parent_id(&self) -> String {
        self.string("parent_id").unwrap_or_default()
    }

    /// Sets the id of the document that this is a part of.
    pub fn set_parent_id(&mut self, id: &str) {
        self.set_field("parent_id", &json!(id));
    }

    /// How many documents this one is inside of, chunk of chunk.
    #[must_use]
    pub fn granularity(&self) -> u32 {
        self.number("granularity")
    }

    /// Sets how many documents this one is inside of.
    pub fn set_granularity(&mut self, depth: u32) {
        self.set_field("granularity", &json!(depth));
    }

    /// How many searches lie between this document and a query: a match of a match is 2.
    #[must_use]
    pub fn adjacency(&self) -> u32 {
        self.number("adjacency")
    }

    /// Sets how many searches lie between this document and a query.
    pub fn set_adjacency(&mut self, steps: u32) {
        self.set_field("adjacency", &json!(steps));
    }

    /// Its place among the parts of its parent, from 0.
    #[must_use]
    pub fn offset(&self) -> f32 {
        let offset = self.field("offset").and_then(|value| value.as_f64());
        narrow(offset.unwrap_or_default())
    }

    /// Sets its place among the parts of its parent.
    pub fn set_offset(&mut self, place: usize) {
        self.set_field("offset", &json!(place));
    }

    /// Where in its parent it comes from: for a text, its first character and the one after its last.
    #[must_use]
    pub fn location(&self) -> Vec<f32> {
        match self.field("location") {
            Some(Value::Array(numbers)) => {
                let numbers = numbers.iter().filter_map(Value::as_f64);
                numbers.map(narrow).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Sets where in its parent it comes from. Exact up to 16 million.
    pub fn set_location(&mut self, from: usize, to: usize) {
        self.set_field("location", &json!([from, to]));
    }

    /// A score that it was given, such as `cosine`.
    #[must_use]
    pub fn score(&self, name: &str) -> Option<f32> {
        let scores = self.field("scores")?;
        let score = match self.flavour() {
            Flavour::V1 => scores.get(name)?.get("value").cloned().unwrap_or(json!(0)),
            Flavour::V2 => scores.get(name)?.clone(),
        };
        score.as_f64().map(narrow)
    }

    /// Gives it a score beside those that it has. `query` is the id of what it was compared with.
    pub fn set_score(&mut self, name: &str, value: f32, query: &str) {
        let mut scores = match self.field("scores") {
            Some(Value::Object(scores)) => scores,
            _ => Map::new(),
        };
        let score = match self.flavour() {
            Flavour::V1 => json!({ "value": value, "op_name": name, "ref_id": query }),
            Flavour::V2 => json!(value),
        };
        scores.insert(name.to_owned(), score);
        self.set_field("scores", &Value::Object(scores));
    }

    fn number(&self, name: &'static str) -> u32 {
        let number = self.field(name).and_then(|value| value.as_u64());
        number.and_then(|it| u32::try_from(it).ok()).unwrap_or(0)
    }

    /// One field as JSON, without a look into the others.
    fn field(&self, name: &'static str) -> Option<Value> {
        let edit = self.edits.iter().find(|edit| edit.name == name);
        let bytes = edit.map_or_else(|| self.fields_of(name), |edit| edit.encoded.clone());
        if bytes.is_empty() {
            return None;
        }
        json::from_field(self.flavour(), name, bytes)
    }

    fn fields_of(&self, name: &str) -> Bytes {
        let mut found = BytesMut::new();
        for field in Fields::of(&self.raw).filter_map(Result::ok) {
            let is_meant = match self.flavour() {
                Flavour::V1 => v1::replaces(name, field.number),
                Flavour::V2 => v2::replaces(name, &field),
            };
            if is_meant {
                found.extend_from_slice(field.whole);
            }
        }
        found.freeze()
    }

    fn set_field(&mut self, name: &'static str, value: &Value) {
        let encoded = json::to_field(self.flavour(), name, value);
        self.set(
            name,
            encoded.expect("the methods above give each field what it holds"),
        );
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "these fields hold 32-bit floats on the wire"
)]
fn narrow(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flavour: Flavour) {
        let mut document = Document::of_flavour(flavour);
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
        let document = Document::decode(flavour, document.encode()).unwrap();
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
    fn where_a_document_stands_survives_the_wire_in_both_flavours() {
        check(Flavour::V1);
        check(Flavour::V2);
    }

    #[test]
    fn what_is_set_again_takes_the_place_of_what_was_there() {
        let mut document = Document::new();
        document.set_location(5, 9);
        document.set_offset(4);
        let mut document = Document::decode(Flavour::V1, document.encode()).unwrap();
        document.set_location(0, 1);
        document.set_offset(0);
        let document = Document::decode(Flavour::V1, document.encode()).unwrap();
        assert_eq!(document.location(), [0.0, 1.0]);
        assert!(document.offset().abs() < f32::EPSILON);
    }
}
