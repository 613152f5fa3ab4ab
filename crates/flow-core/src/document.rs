//! Documents as executors see them, in both of DocArray's flavours.
//!
//! A document keeps the bytes it came as. What is asked for is looked up in them, what is changed is
//! noted beside them, and when it is written out, everything that nobody changed is copied as it was:
//! fields that we do not know, maps in their order, empty values. Chunks and matches are taken apart
//! only when they are asked for.
//!
//! The two flavours differ in how fields are found: [`v1`] by number, [`v2`] by name. Everything else is
//! common and stands here.

mod access;
mod array;
mod json;
mod merge;
mod place;
mod v1;
mod v2;
mod wire;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

pub use access::{AccessPaths, BadAccessPath};
pub use array::DocumentArray;
pub use json::{from_struct, to_struct};

use crate::Tensor;
use wire::{Fields, NotAMessage};

/// Which of DocArray's two message formats a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flavour {
    /// DocArray up to 0.21.
    #[default]
    V1,
    /// DocArray from 0.30 on.
    V2,
}

impl Flavour {
    /// The flavour of a document's message; an empty one tells nothing.
    ///
    /// Field 1 is the id (a text) in the first flavour, and a map's entry (a message that begins with its
    /// own field 1) in the second.
    #[must_use]
    pub fn of(raw: &Bytes) -> Option<Self> {
        const FIELD_1: u8 = 0x0a;
        let first = Fields::of(raw).next()?.ok()?;
        let is_entry = first.number == 1 && first.content.first() == Some(&FIELD_1);
        Some(if is_entry { Self::V2 } else { Self::V1 })
    }
}

/// The bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDocument {
    /// Not a message of the expected form.
    #[error("{what} is not a valid protobuf message")]
    Malformed {
        /// Which part, such as `document 3` or `the request's data`.
        what: String,
    },
    /// A text is not valid UTF-8.
    #[error("field `{field}` of a document is not valid UTF-8")]
    NotUtf8 {
        /// Which field.
        field: String,
    },
    /// Documents in a serialisation of the sender's own.
    #[error(
        "the request carries `docs_bytes`, a Python pickle that is never read; send `docs` instead"
    )]
    Pickle,
    /// JSON that does not describe a document.
    #[error("{0}")]
    Json(String),
}

/// One document: texts, arrays, tags, and documents inside it.
#[derive(Debug, Clone, Default)]
pub struct Document {
    flavour: Flavour,
    raw: Bytes,
    edits: Vec<Edit>,
    children: Option<Box<Children>>,
}

/// A field that was set, encoded as it will be written.
#[derive(Debug, Clone)]
struct Edit {
    name: &'static str,
    encoded: Bytes,
}

/// Documents inside a document; once taken apart they replace those in its bytes.
#[derive(Debug, Clone, Default)]
struct Children {
    chunks: Option<Vec<Document>>,
    matches: Option<Vec<Document>>,
}

impl Document {
    /// A document of the first flavour with a random id and nothing else.
    #[must_use]
    pub fn new() -> Self {
        Self::of_flavour(Flavour::V1)
    }

    /// A document with a random id and nothing else.
    #[must_use]
    pub fn of_flavour(flavour: Flavour) -> Self {
        let mut document = Self {
            flavour,
            ..Self::default()
        };
        document.set_id(crate::RequestId::random().as_str());
        document
    }

    /// A document of the first flavour with this text.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut document = Self::new();
        document.set_text(text);
        document
    }

    /// A document from its message.
    ///
    /// # Errors
    ///
    /// If the bytes are no message, or a text in it is not UTF-8.
    pub fn decode(flavour: Flavour, raw: Bytes) -> Result<Self, BadDocument> {
        match flavour {
            Flavour::V1 => v1::check(&raw)?,
            Flavour::V2 => v2::check(&raw)?,
        }
        Ok(Self {
            flavour,
            raw,
            ..Self::default()
        })
    }

    /// The document's message: what it came as, with the changes made since.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        match self.message() {
            Cow::Borrowed(_) => self.raw.clone(),
            Cow::Owned(message) => message.into(),
        }
    }

    /// The same, without a copy where nothing was changed.
    fn message(&self) -> Cow<'_, [u8]> {
        if self.edits.is_empty() && self.children.is_none() {
            return Cow::Borrowed(&self.raw);
        }
        let mut out = BytesMut::with_capacity(self.raw.len() + 64);
        for field in Fields::of(&self.raw).filter_map(Result::ok) {
            if !self.is_replaced(&field) {
                out.extend_from_slice(field.whole);
            }
        }
        for edit in &self.edits {
            out.extend_from_slice(&edit.encoded);
        }
        self.encode_children(&mut out);
        Cow::Owned(out.into())
    }

    /// Which format the document is written in.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The document's id; empty if it has none.
    #[must_use]
    pub fn id(&self) -> String {
        self.string("id").unwrap_or_default()
    }

    /// Sets the id.
    pub fn set_id(&mut self, id: &str) {
        let encoded = match self.flavour {
            Flavour::V1 => v1::string("id", id),
            Flavour::V2 => v2::typed_text("id", id, "id"),
        };
        self.set("id", encoded);
    }

    /// The text; empty if there is none. [`has_text`](Self::has_text) tells the two apart.
    #[must_use]
    pub fn text(&self) -> String {
        self.string("text").unwrap_or_default()
    }

    /// Whether the document has a text that is not empty.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.content("text").is_some_and(|text| !text.is_empty())
    }

    /// Sets the text. In the first flavour it takes the place of a blob or a tensor.
    pub fn set_text(&mut self, text: impl AsRef<str>) {
        let encoded = match self.flavour {
            Flavour::V1 => v1::string("text", text.as_ref()),
            Flavour::V2 => v2::text("text", text.as_ref()),
        };
        self.set("text", encoded);
    }

    /// A field that holds a text, such as `uri` or `mime_type`.
    #[must_use]
    pub fn string(&self, name: &'static str) -> Option<String> {
        let content = self.content(name)?;
        Some(String::from_utf8_lossy(&content).into_owned())
    }

    /// The vector that stands for the document, if it has one.
    #[must_use]
    pub fn embedding(&self) -> Option<Tensor> {
        self.tensor_of("embedding")
    }

    /// Sets the vector that stands for the document.
    pub fn set_embedding(&mut self, tensor: &Tensor) {
        self.set_tensor_of("embedding", tensor);
    }

    /// Takes the vector away.
    pub fn clear_embedding(&mut self) {
        self.set("embedding", Bytes::new());
    }

    /// The array that the document consists of, such as an image.
    #[must_use]
    pub fn tensor(&self) -> Option<Tensor> {
        self.tensor_of("tensor")
    }

    /// Sets the array that the document consists of.
    pub fn set_tensor(&mut self, tensor: &Tensor) {
        self.set_tensor_of("tensor", tensor);
    }

    /// The bytes that the document consists of.
    #[must_use]
    pub fn blob(&self) -> Option<Bytes> {
        self.content("blob")
    }

    /// Tags: whatever its owner notes about the document.
    #[must_use]
    pub fn tags(&self) -> Map<String, Value> {
        match self.flavour {
            Flavour::V1 => self
                .content("tags")
                .map(|bytes| v1::tags(&bytes))
                .unwrap_or_default(),
            Flavour::V2 => self
                .content("tags")
                .map(|bytes| v2::dict(&bytes))
                .unwrap_or_default(),
        }
    }

    /// Replaces all tags.
    pub fn set_tags(&mut self, tags: &Map<String, Value>) {
        let encoded = match self.flavour {
            Flavour::V1 => v1::set_tags(tags),
            Flavour::V2 => v2::set_dict("tags", tags),
        };
        self.set("tags", encoded);
    }

    /// The parts of the document. Taken apart at the first call.
    ///
    /// # Errors
    ///
    /// If their bytes are no documents.
    pub fn chunks_mut(&mut self) -> Result<&mut Vec<Document>, BadDocument> {
        let parsed = self.parse_children("chunks", |children| children.chunks.is_some())?;
        let children = self.children.get_or_insert_default();
        Ok(children.chunks.get_or_insert(parsed))
    }

    /// Whether the document has parts.
    #[must_use]
    pub fn has_chunks(&self) -> bool {
        match self.children.as_ref().and_then(|all| all.chunks.as_ref()) {
            Some(chunks) => !chunks.is_empty(),
            None => match self.flavour {
                Flavour::V1 => v1::children(&self.raw, "chunks"),
                Flavour::V2 => v2::children(&self.raw, "chunks"),
            }
            .is_ok_and(|chunks| !chunks.is_empty()),
        }
    }

    /// What was found for the document. Taken apart at the first call.
    ///
    /// # Errors
    ///
    /// If their bytes are no documents.
    pub fn matches_mut(&mut self) -> Result<&mut Vec<Document>, BadDocument> {
        let parsed = self.parse_children("matches", |children| children.matches.is_some())?;
        let children = self.children.get_or_insert_default();
        Ok(children.matches.get_or_insert(parsed))
    }

    /// The document as JSON, with DocArray's field names; arrays as (nested) lists, bytes as base64.
    ///
    /// # Errors
    ///
    /// If the document's bytes are no document.
    pub fn to_json(&self) -> Result<Value, BadDocument> {
        json::from_document(self)
    }

    /// Some of the document's fields as JSON, as [`to_json`](Self::to_json) writes them; the others are not
    /// even decoded.
    pub(crate) fn fields(&self, names: &[String]) -> Map<String, Value> {
        let message = self.message();
        let mut raw = BytesMut::new();
        for field in Fields::of(&message).filter_map(Result::ok) {
            let is_wanted = |name: &String| match self.flavour {
                Flavour::V1 => v1::is(name, &field),
                Flavour::V2 => v2::replaces(name, &field),
            };
            if names.iter().any(is_wanted) {
                raw.extend_from_slice(field.whole);
            }
        }
        let part = Self {
            flavour: self.flavour,
            raw: raw.freeze(),
            ..Self::default()
        };
        match part.to_json() {
            Ok(Value::Object(fields)) => fields,
            // A part of a checked document is a document; what is none has no fields.
            _ => Map::new(),
        }
    }

    /// A document of the given flavour from JSON; a random id where it has none.
    ///
    /// # Errors
    ///
    /// If a field has the wrong type, or is not a document's.
    pub fn from_json(flavour: Flavour, value: &Value) -> Result<Self, BadDocument> {
        json::to_document(flavour, value)
    }

    /// Encoded field `name` takes the place of what was there.
    fn set(&mut self, name: &'static str, encoded: Bytes) {
        let excluded = |other: &str| match self.flavour {
            Flavour::V1 => v1::excludes(name, other),
            Flavour::V2 => name == other,
        };
        self.edits.retain(|edit| !excluded(edit.name));
        self.edits.push(Edit { name, encoded });
    }

    fn is_replaced(&self, field: &wire::Field<'_>) -> bool {
        let replaced_by = |name: &str| match self.flavour {
            Flavour::V1 => v1::replaces(name, field.number),
            Flavour::V2 => v2::replaces(name, field),
        };
        let edited = self.edits.iter().any(|edit| replaced_by(edit.name));
        edited || self.parsed_children().any(|(name, _)| replaced_by(name))
    }

    /// What length-delimited field `name` holds; the second flavour's node is opened.
    fn content(&self, name: &'static str) -> Option<Bytes> {
        let bytes = self
            .edits
            .iter()
            .find(|edit| edit.name == name)
            .map(|edit| &edit.encoded);
        match self.flavour {
            Flavour::V1 => {
                let hidden = bytes.is_none() && self.is_hidden(name);
                if hidden {
                    None
                } else {
                    v1::content(bytes.unwrap_or(&self.raw), name)
                }
            }
            Flavour::V2 => v2::content(bytes.unwrap_or(&self.raw), name),
        }
    }

    /// Whether something that was set excludes field `name`: a text leaves no room for a blob.
    fn is_hidden(&self, name: &str) -> bool {
        self.edits.iter().any(|edit| v1::excludes(edit.name, name))
    }

    fn tensor_of(&self, name: &'static str) -> Option<Tensor> {
        let content = self.content(name)?;
        match self.flavour {
            Flavour::V1 => v1::tensor(&content),
            Flavour::V2 => v2::tensor(&content),
        }
    }

    fn set_tensor_of(&mut self, name: &'static str, tensor: &Tensor) {
        let encoded = match self.flavour {
            Flavour::V1 => v1::set_tensor(name, tensor),
            Flavour::V2 => v2::set_tensor(name, tensor),
        };
        self.set(name, encoded);
    }

    fn parse_children(
        &self,
        name: &'static str,
        already: impl Fn(&Children) -> bool,
    ) -> Result<Vec<Document>, BadDocument> {
        if self.children.as_deref().is_some_and(already) {
            return Ok(Vec::new());
        }
        let raws = match self.flavour {
            Flavour::V1 => v1::children(&self.raw, name),
            Flavour::V2 => v2::children(&self.raw, name),
        };
        let raws = raws.map_err(|NotAMessage| malformed(name))?;
        raws.into_iter()
            .map(|raw| Self::decode(self.flavour, raw))
            .collect()
    }

    fn parsed_children(&self) -> impl Iterator<Item = (&'static str, &Vec<Document>)> {
        self.children.iter().flat_map(|children| {
            let chunks = children.chunks.as_ref().map(|chunks| ("chunks", chunks));
            let matches = children
                .matches
                .as_ref()
                .map(|matches| ("matches", matches));
            chunks.into_iter().chain(matches)
        })
    }

    fn encode_children(&self, out: &mut BytesMut) {
        for (name, documents) in self.parsed_children() {
            match self.flavour {
                Flavour::V1 => v1::put_children(out, name, documents),
                Flavour::V2 => v2::put_children(out, name, documents),
            }
        }
    }
}

impl PartialEq for Document {
    /// Whether both are written the same way.
    fn eq(&self, other: &Self) -> bool {
        self.flavour == other.flavour && self.encode() == other.encode()
    }
}

fn malformed(what: impl Into<String>) -> BadDocument {
    BadDocument::Malformed { what: what.into() }
}

#[cfg(test)]
mod tests;
