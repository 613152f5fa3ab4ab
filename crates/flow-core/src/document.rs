//! Documents, in both versions of DocArray.
//!
//! A document keeps the bytes in which it arrived. Fields are looked up in these bytes, and changes are stored beside
//! them. Encoding copies everything that was not changed: unknown fields, the order of maps, empty values. Chunks and
//! matches are decoded at their first use.
//!
//! The two versions differ in how fields are found: [`v1`] by number, [`v2`] by name. This file has everything that
//! they share, except JSON, which is in `json.rs`.

mod access;
mod array;
mod format;
mod json;
mod merge;
mod nesting;
mod relations;
mod v1;
mod v2;
mod wire;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

pub use access::{AccessPaths, BadAccessPath};
pub use array::{DocumentArray, document_array_message};
pub(crate) use format::undecodable;
pub use format::{BadDocument, DocArrayVersion};
pub use json::values::{from_struct, to_struct};
pub use nesting::DocumentLimits;

use crate::Tensor;
use format::malformed;
use json::nodes;
use nesting::DEPTH_MAX;
use wire::{Fields, NotAMessage};

/// A document: texts, arrays, tags, and nested documents.
#[derive(Debug, Clone, Default)]
pub struct Document {
    version: DocArrayVersion,
    /// Documents that this one was decoded from, as a chunk or a match.
    depth: u8,
    raw: Bytes,
    edits: Vec<Edit>,
    children: Option<Box<Children>>,
}

/// A field that was set, encoded.
#[derive(Debug, Clone)]
struct Edit {
    name: &'static str,
    encoded: Bytes,
}

/// Nested documents. Once decoded, they replace those in the document's bytes.
#[derive(Debug, Clone, Default)]
struct Children {
    chunks: Option<Vec<Document>>,
    matches: Option<Vec<Document>>,
}

impl Document {
    /// A document of the first version with a random id and no other field.
    #[must_use]
    pub fn new() -> Self {
        Self::of_version(DocArrayVersion::V1)
    }

    /// A document with a random id and no other field.
    #[must_use]
    pub fn of_version(version: DocArrayVersion) -> Self {
        let mut document = Self {
            version,
            ..Self::default()
        };
        document.set_id(crate::RequestId::random().as_str());
        document
    }

    /// A document of the first version with this text.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut document = Self::new();
        document.set_text(text);
        document
    }

    /// Decodes a document.
    ///
    /// # Errors
    ///
    /// If the bytes are not a message, or a text in it is not UTF-8.
    pub fn decode(version: DocArrayVersion, raw: Bytes) -> Result<Self, BadDocument> {
        match version {
            DocArrayVersion::V1 => v1::check(&raw)?,
            DocArrayVersion::V2 => v2::check(&raw)?,
        }
        Ok(Self {
            version,
            raw,
            ..Self::default()
        })
    }

    /// Encodes the document: the bytes in which it arrived, with the changes made since.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        match self.message() {
            Cow::Borrowed(_) => self.raw.clone(),
            Cow::Owned(message) => message.into(),
        }
    }

    /// The same, without a copy if nothing was changed.
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
        match (self.version, DocArrayVersion::of(&out)) {
            (DocArrayVersion::V1, Some(DocArrayVersion::V2)) => out = v1::with_id_last(&out),
            (DocArrayVersion::V2, Some(DocArrayVersion::V1)) => out = v2::with_entries_first(&out),
            _ => {}
        }
        Cow::Owned(out.into())
    }

    /// The version of the document's format.
    #[must_use]
    pub fn version(&self) -> DocArrayVersion {
        self.version
    }

    /// The document's id; empty if it has none.
    #[must_use]
    pub fn id(&self) -> String {
        self.string("id").unwrap_or_default()
    }

    /// Sets the id.
    pub fn set_id(&mut self, id: &str) {
        let encoded = match self.version {
            DocArrayVersion::V1 => v1::string("id", id),
            DocArrayVersion::V2 => v2::typed_text("id", id, "id"),
        };
        self.set("id", encoded);
    }

    /// The text; empty if there is none, which [`has_text`](Self::has_text) distinguishes.
    #[must_use]
    pub fn text(&self) -> String {
        self.string("text").unwrap_or_default()
    }

    /// Whether the document has a text that is not empty.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.content("text").is_some_and(|text| !text.is_empty())
    }

    /// Sets the text. In the first version it replaces a blob or a tensor.
    pub fn set_text(&mut self, text: impl AsRef<str>) {
        let encoded = match self.version {
            DocArrayVersion::V1 => v1::string("text", text.as_ref()),
            DocArrayVersion::V2 => v2::text("text", text.as_ref()),
        };
        self.set("text", encoded);
    }

    /// A field that holds a text, such as `uri` or `mime_type`.
    #[must_use]
    pub fn string(&self, name: &'static str) -> Option<String> {
        let content = self.content(name)?;
        Some(String::from_utf8_lossy(&content).into_owned())
    }

    /// The embedding, if there is one.
    #[must_use]
    pub fn embedding(&self) -> Option<Tensor> {
        self.tensor_of("embedding")
    }

    /// Sets the embedding.
    pub fn set_embedding(&mut self, tensor: &Tensor) {
        self.set_tensor_of("embedding", tensor);
    }

    /// Removes the embedding.
    pub fn clear_embedding(&mut self) {
        self.clear("embedding");
    }

    /// The tensor that is the document's content, such as an image.
    #[must_use]
    pub fn tensor(&self) -> Option<Tensor> {
        self.tensor_of("tensor")
    }

    /// Sets the tensor that is the document's content.
    pub fn set_tensor(&mut self, tensor: &Tensor) {
        self.set_tensor_of("tensor", tensor);
    }

    /// The bytes that are the document's content.
    #[must_use]
    pub fn blob(&self) -> Option<Bytes> {
        self.content("blob")
    }

    /// Sets the bytes that are the document's content. In the first version they replace a text or a tensor.
    pub fn set_blob(&mut self, blob: &[u8]) {
        let encoded = match self.version {
            DocArrayVersion::V1 => v1::bytes("blob", blob),
            DocArrayVersion::V2 => v2::bytes("blob", blob),
        };
        self.set("blob", encoded);
    }

    /// Removes a field, if the document has it. Chunks and matches are emptied with
    /// [`set_chunks`](Self::set_chunks) and [`set_matches`](Self::set_matches).
    pub fn clear(&mut self, name: &'static str) {
        self.set(name, Bytes::new());
    }

    /// The tags: any values that belong to the document.
    #[must_use]
    pub fn tags(&self) -> Map<String, Value> {
        match self.version {
            DocArrayVersion::V1 => self
                .content("tags")
                .map(|bytes| v1::tags(&bytes))
                .unwrap_or_default(),
            DocArrayVersion::V2 => self
                .content("tags")
                .map(|bytes| nodes::dict(&bytes))
                .unwrap_or_default(),
        }
    }

    /// The length of the encoded tags, in bytes.
    #[must_use]
    pub fn tags_len(&self) -> usize {
        self.content("tags").map_or(0, |tags| tags.len())
    }

    /// Replaces all tags.
    pub fn set_tags(&mut self, tags: &Map<String, Value>) {
        let encoded = match self.version {
            DocArrayVersion::V1 => v1::set_tags(tags),
            DocArrayVersion::V2 => nodes::set_dict("tags", tags),
        };
        self.set("tags", encoded);
    }

    /// The chunks. They are decoded at the first call.
    ///
    /// # Errors
    ///
    /// If their bytes are not documents.
    pub fn chunks_mut(&mut self) -> Result<&mut Vec<Document>, BadDocument> {
        let parsed = self.parse_children("chunks", |children| children.chunks.is_some())?;
        let children = self.children.get_or_insert_default();
        Ok(children.chunks.get_or_insert(parsed))
    }

    /// Replaces the chunks, without decoding those that the document has.
    pub fn set_chunks(&mut self, chunks: Vec<Document>) {
        self.children.get_or_insert_default().chunks = Some(chunks);
    }

    /// Replaces the matches, without decoding those that the document has.
    pub fn set_matches(&mut self, matches: Vec<Document>) {
        self.children.get_or_insert_default().matches = Some(matches);
    }

    /// Whether the document has chunks.
    #[must_use]
    pub fn has_chunks(&self) -> bool {
        match self.children.as_ref().and_then(|all| all.chunks.as_ref()) {
            Some(chunks) => !chunks.is_empty(),
            None => match self.version {
                DocArrayVersion::V1 => v1::children(&self.raw, "chunks"),
                DocArrayVersion::V2 => v2::children(&self.raw, "chunks"),
            }
            .is_ok_and(|chunks| !chunks.is_empty()),
        }
    }

    /// The matches. They are decoded at the first call.
    ///
    /// # Errors
    ///
    /// If their bytes are not documents.
    pub fn matches_mut(&mut self) -> Result<&mut Vec<Document>, BadDocument> {
        let parsed = self.parse_children("matches", |children| children.matches.is_some())?;
        let children = self.children.get_or_insert_default();
        Ok(children.matches.get_or_insert(parsed))
    }

    /// Replaces field `name` by an encoded one.
    fn set(&mut self, name: &'static str, encoded: Bytes) {
        let excluded = |other: &str| match self.version {
            DocArrayVersion::V1 => v1::excludes(name, other),
            DocArrayVersion::V2 => name == other,
        };
        self.edits.retain(|edit| !excluded(edit.name));
        self.edits.push(Edit { name, encoded });
    }

    fn is_replaced(&self, field: &wire::Field<'_>) -> bool {
        let replaced_by = |name: &str| match self.version {
            DocArrayVersion::V1 => v1::replaces(name, field.number),
            DocArrayVersion::V2 => v2::replaces(name, field),
        };
        let edited = self.edits.iter().any(|edit| replaced_by(edit.name));
        edited || self.parsed_children().any(|(name, _)| replaced_by(name))
    }

    /// The content of the length-delimited field `name`; in the second version, that of its node.
    fn content(&self, name: &'static str) -> Option<Bytes> {
        let bytes = self
            .edits
            .iter()
            .find(|edit| edit.name == name)
            .map(|edit| &edit.encoded);
        match self.version {
            DocArrayVersion::V1 => {
                let hidden = bytes.is_none() && self.is_hidden(name);
                if hidden {
                    None
                } else {
                    v1::content(bytes.unwrap_or(&self.raw), name)
                }
            }
            DocArrayVersion::V2 => v2::content(bytes.unwrap_or(&self.raw), name),
        }
    }

    /// Whether a field that was set excludes field `name`, as a text excludes a blob.
    fn is_hidden(&self, name: &str) -> bool {
        self.edits.iter().any(|edit| v1::excludes(edit.name, name))
    }

    fn tensor_of(&self, name: &'static str) -> Option<Tensor> {
        let content = self.content(name)?;
        match self.version {
            DocArrayVersion::V1 => v1::tensor(&content),
            DocArrayVersion::V2 => v2::tensor(&content),
        }
    }

    fn set_tensor_of(&mut self, name: &'static str, tensor: &Tensor) {
        let encoded = match self.version {
            DocArrayVersion::V1 => v1::set_tensor(name, tensor),
            DocArrayVersion::V2 => v2::set_tensor(name, tensor),
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
        let raws = match self.version {
            DocArrayVersion::V1 => v1::children(&self.raw, name),
            DocArrayVersion::V2 => v2::children(&self.raw, name),
        };
        let raws = raws.map_err(|NotAMessage| malformed(name))?;
        let depth = self.depth + 1;
        if depth >= DEPTH_MAX && !raws.is_empty() {
            return Err(BadDocument::TooDeep {
                max: usize::from(DEPTH_MAX),
            });
        }
        let decode = |raw| Self::decode(self.version, raw).map(|it| Self { depth, ..it });
        raws.into_iter().map(decode).collect()
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
            let encoded = documents.iter().map(Self::encode);
            match self.version {
                DocArrayVersion::V1 => v1::put_children(out, name, encoded),
                DocArrayVersion::V2 => v2::put_children(out, name, encoded),
            }
        }
    }
}

impl PartialEq for Document {
    /// Whether both are encoded to the same bytes.
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && self.encode() == other.encode()
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
