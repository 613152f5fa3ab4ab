//! Which version of DocArray a document in JSON is of, by the names of its fields.

use std::fmt;

use flow_core::DocArrayVersion;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// Fields of a document of the first version.
const V1_FIELDS: [&str; 20] = [
    "id",
    "parent_id",
    "granularity",
    "adjacency",
    "blob",
    "tensor",
    "mime_type",
    "text",
    "weight",
    "uri",
    "tags",
    "offset",
    "location",
    "embedding",
    "modality",
    "evaluations",
    "scores",
    "chunks",
    "matches",
    "_metadata",
];

/// Fields that clients of the first version send with every document, and documents of the second do not have.
const V1_MARKS: [&str; 2] = ["granularity", "adjacency"];

/// The version of a document, as far as its fields show it.
pub(super) fn of_json(document: &str) -> Option<DocArrayVersion> {
    let mut json = serde_json::Deserializer::from_str(document);
    // What is not an object is refused when it is read.
    json.deserialize_map(Names).ok().flatten()
}

/// Reads the names of all fields, and nothing else.
struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Option<DocArrayVersion>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let (mut has_marks, mut has_others) = (false, false);
        while let Some((name, IgnoredAny)) = object.next_entry::<String, _>()? {
            has_marks |= V1_MARKS.contains(&name.as_str());
            has_others |= !V1_FIELDS.contains(&name.as_str());
        }
        Ok(match (has_marks, has_others) {
            (true, _) => Some(DocArrayVersion::V1),
            (false, true) => Some(DocArrayVersion::V2),
            (false, false) => None,
        })
    }
}
