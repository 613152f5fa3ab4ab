//! The versions of DocArray's message format, and what can be wrong with a message.

use prost::DecodeError;

use super::wire::Fields;

/// The version of DocArray's message format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DocArrayVersion {
    /// DocArray up to 0.21.
    #[default]
    V1,
    /// DocArray from 0.30 on.
    V2,
}

impl DocArrayVersion {
    /// The version of an encoded document; `None` for an empty message, which is valid in both.
    ///
    /// Field 1 is the id (a text) in the first version, and an entry of a map (a message that begins with its own
    /// field 1) in the second.
    #[must_use]
    pub fn of(raw: &[u8]) -> Option<Self> {
        let first = Fields::of(raw).next()?.ok()?;
        let is_entry = first.number == 1 && is_entry(first.content);
        Some(if is_entry { Self::V2 } else { Self::V1 })
    }
}

/// Whether the content of field 1 is an entry of a map: it begins with a key, and has nothing but keys and values.
pub(super) fn is_entry(content: &[u8]) -> bool {
    const FIELD_1: u8 = 0x0a;
    content.first() == Some(&FIELD_1)
        && Fields::of(content)
            .all(|field| field.is_ok_and(|field| field.is_message && matches!(field.number, 1 | 2)))
}

/// A document or a part of it is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDocument {
    /// The bytes are not the expected message.
    #[error("{what} is not a valid protobuf message")]
    Malformed {
        /// Which part, such as `document 3` or `the request's data`.
        what: String,
        /// What the decoder says, if it was decoded as a whole.
        source: Option<DecodeError>,
    },
    /// A text is not valid UTF-8.
    #[error("field `{field}` of a document is not valid UTF-8")]
    NotUtf8 {
        /// Which field.
        field: String,
    },
    /// The documents are in a serialisation of the sender's choice.
    #[error(
        "the request carries `docs_bytes`, a Python pickle that is never read; send `docs` instead"
    )]
    Pickle,
    /// Chunks or matches are nested too deep.
    #[error("documents are nested more than {max} levels deep, the limit")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// There are too many documents.
    #[error("the request has more than {max} documents, the limit; send them in several requests")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// The JSON is not a document.
    #[error("{0}")]
    Json(String),
}

impl BadDocument {
    /// The same error, which names the document by its place in the array.
    pub(super) fn at(self, place: usize) -> Self {
        match self {
            Self::Malformed { source, .. } => Self::Malformed {
                what: format!("document {place}"),
                source,
            },
            other => other,
        }
    }
}

pub(super) fn malformed(what: impl Into<String>) -> BadDocument {
    BadDocument::Malformed {
        what: what.into(),
        source: None,
    }
}

/// The error of a message that could not be decoded.
pub(crate) fn undecodable(what: impl Into<String>, source: DecodeError) -> BadDocument {
    BadDocument::Malformed {
        what: what.into(),
        source: Some(source),
    }
}
