//! An array of documents: the content of a request.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use bytes::{Bytes, BytesMut};
use flow_proto::{DATA_DOCS, DATA_DOCS_BYTES};

use super::Document;
use super::format::{BadDocument, DocArrayVersion, malformed};
use super::wire::{self, Fields, NotAMessage};

/// The only field of an array's message.
const DOCS: u32 = 1;

/// Most documents of an array that is decoded, about 1 GB of memory. Requests have lower limits ([`DocumentLimits`]);
/// this one holds for replies of executors too.
///
/// [`DocumentLimits`]: super::DocumentLimits
const DOCUMENTS_MAX: usize = 8_000_000;

/// Documents of one version, in order. Derefs to a slice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentArray {
    pub(super) documents: Vec<Document>,
}

impl DocumentArray {
    /// An array without documents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the `data` field of a request.
    ///
    /// # Errors
    ///
    /// If the bytes are not an array of documents, or contain a Python pickle.
    pub fn decode(data: &Bytes) -> Result<Self, BadDocument> {
        let raws = split(data)?;
        let version = raws
            .iter()
            .find_map(|raw| DocArrayVersion::of(raw))
            .unwrap_or_default();
        let mut documents = Vec::with_capacity(raws.len());
        for (place, raw) in raws.into_iter().enumerate() {
            let document = Document::decode(version, data.slice_ref(raw));
            documents.push(document.map_err(|error| error.at(place))?);
        }
        Ok(Self { documents })
    }

    /// Encodes the documents as the `data` field of a request.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let messages: Vec<Cow<'_, [u8]>> = self.documents.iter().map(Document::message).collect();
        data_field(&messages)
    }

    /// Encodes documents, each of which is encoded already, as the `data` field of a request.
    #[must_use]
    pub fn join(encoded: &[Bytes]) -> Bytes {
        data_field(encoded)
    }

    /// Decodes the message of an array alone, without the field of a request around it.
    ///
    /// # Errors
    ///
    /// If the bytes are not an array of documents.
    pub fn decode_alone(array: &Bytes) -> Result<Self, BadDocument> {
        let mut data = BytesMut::with_capacity(wire::field_len(DATA_DOCS, array.len()));
        wire::put(&mut data, DATA_DOCS, array);
        Self::decode(&data.freeze())
    }

    /// Encodes the message of an array alone.
    #[must_use]
    pub fn encode_alone(&self) -> Bytes {
        let data = self.encode();
        let content = wire::last(&data, DATA_DOCS).map(|content| data.slice_ref(content));
        content.unwrap_or_default()
    }

    /// The version of the documents' format; the first if there are no documents.
    #[must_use]
    pub fn version(&self) -> DocArrayVersion {
        self.documents
            .first()
            .map(Document::version)
            .unwrap_or_default()
    }

    /// Adds a document at the end.
    pub fn push(&mut self, document: Document) {
        self.documents.push(document);
    }

    /// Keeps the documents for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&Document) -> bool) {
        self.documents.retain(keep);
    }

    /// Removes all documents.
    pub fn clear(&mut self) {
        self.documents.clear();
    }
}

/// The `data` field of a request with the messages of these documents.
fn data_field(messages: &[impl AsRef<[u8]>]) -> Bytes {
    let messages = || messages.iter().map(AsRef::as_ref);
    let length = messages()
        .map(|message| wire::field_len(DOCS, message.len()))
        .sum();
    let mut out = BytesMut::with_capacity(wire::field_len(DATA_DOCS, length));
    wire::put_header(&mut out, DATA_DOCS, length);
    for message in messages() {
        wire::put(&mut out, DOCS, message);
    }
    out.freeze()
}

/// The array of documents in a request's `data` field, as DocArray encodes it.
///
/// # Errors
///
/// If the bytes are not a message, or contain a Python pickle.
pub fn document_array_message(data: &Bytes) -> Result<Bytes, BadDocument> {
    for field in Fields::of(data) {
        let field = field.map_err(|NotAMessage| malformed("the request's data"))?;
        match field.number {
            DATA_DOCS => return Ok(data.slice_ref(field.content)),
            DATA_DOCS_BYTES => return Err(BadDocument::Pickle),
            _ => {}
        }
    }
    Ok(Bytes::new())
}

/// The bytes of each document in a request's `data` field.
fn split(data: &[u8]) -> Result<Vec<&[u8]>, BadDocument> {
    let mut raws = Vec::new();
    for field in Fields::of(data) {
        let field = field.map_err(|NotAMessage| malformed("the request's data"))?;
        match field.number {
            DATA_DOCS => split_array(field.content, &mut raws)?,
            DATA_DOCS_BYTES => return Err(BadDocument::Pickle),
            _ => {}
        }
    }
    Ok(raws)
}

fn split_array<'d>(array: &'d [u8], raws: &mut Vec<&'d [u8]>) -> Result<(), BadDocument> {
    for field in Fields::of(array) {
        let field = field.map_err(|NotAMessage| malformed("the array of documents"))?;
        if field.number == DOCS {
            if raws.len() == DOCUMENTS_MAX {
                return Err(BadDocument::TooMany { max: DOCUMENTS_MAX });
            }
            raws.push(field.content);
        }
    }
    Ok(())
}

impl Deref for DocumentArray {
    type Target = [Document];

    fn deref(&self) -> &[Document] {
        &self.documents
    }
}

impl DerefMut for DocumentArray {
    fn deref_mut(&mut self) -> &mut [Document] {
        &mut self.documents
    }
}

impl FromIterator<Document> for DocumentArray {
    fn from_iter<I: IntoIterator<Item = Document>>(documents: I) -> Self {
        Self {
            documents: documents.into_iter().collect(),
        }
    }
}

impl Extend<Document> for DocumentArray {
    fn extend<I: IntoIterator<Item = Document>>(&mut self, documents: I) {
        self.documents.extend(documents);
    }
}

impl IntoIterator for DocumentArray {
    type Item = Document;
    type IntoIter = std::vec::IntoIter<Document>;

    fn into_iter(self) -> Self::IntoIter {
        self.documents.into_iter()
    }
}

impl<'a> IntoIterator for &'a DocumentArray {
    type Item = &'a Document;
    type IntoIter = std::slice::Iter<'a, Document>;

    fn into_iter(self) -> Self::IntoIter {
        self.documents.iter()
    }
}

impl<'a> IntoIterator for &'a mut DocumentArray {
    type Item = &'a mut Document;
    type IntoIter = std::slice::IterMut<'a, Document>;

    fn into_iter(self) -> Self::IntoIter {
        self.documents.iter_mut()
    }
}
