//! The tag in which a document has its sparse vector.

use flow_core::Document;
use flow_models::SparseVector;
use serde_json::{Value, json};

/// Sets the tag of this name to a vector, with the ids of its words and their weights.
pub(crate) fn write(doc: &mut Document, tag: &str, vector: &SparseVector) {
    let mut tags = doc.tags();
    tags.insert(tag.to_owned(), to_json(vector));
    doc.set_tags(&tags);
}

fn to_json(vector: &SparseVector) -> Value {
    json!({ "indices": vector.indices, "values": vector.values })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn other_tags_stay() {
        let mut doc = Document::from_text("a");
        doc.set_tags(&Map::from_iter([("a".to_owned(), json!(1))]));
        let vector = SparseVector {
            indices: vec![3, 30_000],
            values: vec![0.5, 1.25],
        };
        write(&mut doc, "words", &vector);
        let expected = json!({"a": 1, "words": {"indices": [3, 30_000], "values": [0.5, 1.25]}});
        assert_eq!(Value::Object(doc.tags()), expected);
    }
}
