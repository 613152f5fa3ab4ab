//! Reads a document from JSON in one pass. Its fields are set as they are read, the numbers of its arrays go into their
//! buffer, and nested documents are read in the same way. Only a field such as the tags becomes a tree of values in between.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::super::Document;
use super::super::format::{BadDocument, DocArrayVersion};
use super::arrays::ArraySeed;
use super::builder::{DocumentBuilder, keep};
use super::values::bad;
use super::{v1, v2};
use crate::json::Json;

/// Reads a document of this version.
pub(super) fn read<'de, D>(version: DocArrayVersion, json: D) -> Result<Document, BadDocument>
where
    D: Deserializer<'de, Error = serde_json::Error>,
{
    let mut failure = None;
    let seed = DocumentSeed {
        version,
        failure: &mut failure,
    };
    let read = seed.deserialize(json);
    read.map_err(|error| match failure {
        Some(failure) => failure,
        None if error.is_data() => bad(error.to_string()),
        None => not_json(&error),
    })
}

/// The error of a text that is not JSON.
pub(super) fn not_json(error: &serde_json::Error) -> BadDocument {
    bad(format!("not valid JSON: {error}"))
}

/// Reads a document. The error of a field is kept beside the parser's errors, which consist of a text.
struct DocumentSeed<'f> {
    version: DocArrayVersion,
    failure: &'f mut Option<BadDocument>,
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Document, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_> {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document (a JSON object)")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Document, A::Error> {
        match self.version {
            DocArrayVersion::V1 => self.fields::<v1::V1Builder, _>(object),
            DocArrayVersion::V2 => self.fields::<v2::V2Builder, _>(object),
        }
    }
}

impl DocumentSeed<'_> {
    fn fields<'de, F, A>(self, mut object: A) -> Result<Document, A::Error>
    where
        F: DocumentBuilder,
        A: MapAccess<'de>,
    {
        let Self { version, failure } = self;
        let mut fields = F::default();
        while let Some(name) = object.next_key::<String>()? {
            if let Some(name) = one_of(["embedding", "tensor"], &name) {
                let failure = &mut *failure;
                fields.set_array(name, object.next_value_seed(ArraySeed { name, failure })?);
            } else if let Some(name) = one_of(["chunks", "matches"], &name) {
                let failure = &mut *failure;
                let seed = DocumentsSeed(DocumentSeed { version, failure });
                fields.set_documents(name, object.next_value_seed(seed)?);
            } else {
                let Json(value) = object.next_value()?;
                let set = fields.set(&name, value);
                set.map_err(|error| keep(error, failure))?;
            }
        }
        let document = fields.into_document();
        document.map_err(|error| keep(error, failure))
    }
}

fn one_of(names: [&'static str; 2], name: &str) -> Option<&'static str> {
    names.into_iter().find(|it| *it == name)
}

/// Reads a list of documents; `None` for a null.
struct DocumentsSeed<'f>(DocumentSeed<'f>);

impl<'de> DeserializeSeed<'de> for DocumentsSeed<'_> {
    type Value = Option<Vec<Document>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentsSeed<'_> {
    type Value = Option<Vec<Document>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of documents")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Self(DocumentSeed { version, failure }) = self;
        let mut documents = Vec::new();
        loop {
            let failure = &mut *failure;
            match list.next_element_seed(DocumentSeed { version, failure })? {
                Some(document) => documents.push(document),
                None => return Ok(Some(documents)),
            }
        }
    }
}
