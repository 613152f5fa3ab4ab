//! Documents as JSON and back: DocArray's field names, arrays as lists, bytes as base64.
//!
//! Only fields that a document has are written. This file has what both versions share.

mod arrays;
mod builder;
pub(super) mod nodes;
mod read;
mod v1;
mod v2;
pub(super) mod values;
mod version;

use bytes::{Bytes, BytesMut};
use serde::de::Deserialize;
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use self::read::not_json;
use self::values::{bad, kind_of};
use super::Document;
use super::format::{BadDocument, DocArrayVersion};
use super::wire::Fields;
use crate::json::Json;

impl Document {
    /// The document as JSON, with DocArray's field names; arrays as (nested) lists, bytes as base64.
    ///
    /// # Errors
    ///
    /// If the document's bytes are not a document.
    pub fn to_json(&self) -> Result<Value, BadDocument> {
        match self.version {
            DocArrayVersion::V1 => v1::to_value(self),
            DocArrayVersion::V2 => v2::to_value(self),
        }
    }

    /// Some of the document's fields as JSON, in the form of [`to_json`](Self::to_json); the others are not
    /// decoded.
    pub(crate) fn fields(&self, names: &[String]) -> Map<String, Value> {
        let message = self.message();
        let mut raw = BytesMut::new();
        for field in Fields::of(&message).filter_map(Result::ok) {
            let is_wanted = |name: &String| match self.version {
                DocArrayVersion::V1 => super::v1::is(name, &field),
                DocArrayVersion::V2 => super::v2::replaces(name, &field),
            };
            if names.iter().any(is_wanted) {
                raw.extend_from_slice(field.whole);
            }
        }
        let part = Self {
            version: self.version,
            raw: raw.freeze(),
            ..Self::default()
        };
        match part.to_json() {
            Ok(Value::Object(fields)) => fields,
            // Nested documents were checked with their document.
            _ => Map::new(),
        }
    }

    /// A document of the given version from JSON; it gets a random id if it has none.
    ///
    /// # Errors
    ///
    /// If a field has the wrong type, or is not a field of documents.
    pub fn from_json(version: DocArrayVersion, value: &Value) -> Result<Self, BadDocument> {
        match value.is_object() {
            true => read::read(version, value),
            false => Err(not_an_object(value)),
        }
    }

    /// The same from a text, without a tree of values for the whole document.
    ///
    /// # Errors
    ///
    /// As for [`from_json`](Self::from_json), and if the text is not JSON.
    pub fn from_json_text(version: DocArrayVersion, text: &str) -> Result<Self, BadDocument> {
        let mut json = serde_json::Deserializer::from_str(text);
        if !text.trim_start().starts_with('{') {
            let Json(value) = Json::deserialize(&mut json).map_err(|error| not_json(&error))?;
            return Err(not_an_object(&value));
        }
        let document = read::read(version, &mut json)?;
        json.end().map_err(|error| not_json(&error))?;
        Ok(document)
    }
}

fn not_an_object(value: &Value) -> BadDocument {
    bad(format!(
        "a document is a JSON object, not {}",
        kind_of(value)
    ))
}

/// Writes the document in the form of [`to_json`](Document::to_json), without the values in between.
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.version {
            DocArrayVersion::V1 => v1::write(self, serializer),
            DocArrayVersion::V2 => v2::write(self, serializer),
        }
    }
}

/// Field `name` as JSON, from the bytes of its message's fields of that name.
pub(super) fn from_field(version: DocArrayVersion, name: &str, fields: Bytes) -> Option<Value> {
    match version {
        DocArrayVersion::V1 => v1::from_field(name, fields),
        DocArrayVersion::V2 => v2::from_field(name, fields),
    }
}

/// Field `name` of a decoded message.
pub(super) fn to_field(
    version: DocArrayVersion,
    name: &str,
    value: &Value,
) -> Result<Bytes, BadDocument> {
    match version {
        DocArrayVersion::V1 => v1::to_field(name, value),
        DocArrayVersion::V2 => Ok(v2::to_field_alone(name, value)),
    }
}
