//! The version of a document in JSON, by the names of its fields.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::super::format::DocArrayVersion;
use super::super::v1::is_field;

/// Fields that clients of the first version send with every document, and documents of the second do not have.
const V1_MARKS: [&str; 2] = ["granularity", "adjacency"];

impl DocArrayVersion {
    /// The version of a document in JSON, as far as the names of its fields show it: `None` if all of them may be of either
    /// version, and for what is not an object.
    #[must_use]
    pub fn of_json(document: &str) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(document);
        json.deserialize_map(Names).ok().flatten()
    }
}

/// Reads the names of all fields, and nothing else.
struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Option<DocArrayVersion>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document (a JSON object)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let (mut has_marks, mut has_others) = (false, false);
        while let Some((name, IgnoredAny)) = object.next_entry::<String, _>()? {
            has_marks |= V1_MARKS.contains(&name.as_str());
            has_others |= !is_field(&name);
        }
        Ok(match (has_marks, has_others) {
            (true, _) => Some(DocArrayVersion::V1),
            (false, true) => Some(DocArrayVersion::V2),
            (false, false) => None,
        })
    }
}
