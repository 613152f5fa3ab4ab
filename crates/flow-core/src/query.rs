//! Conditions on documents, in DocArray's query language: the language of `when` in flow files.
//!
//! ```text
//! {"tags__lang": {"$eq": "de"}, "$or": [{"text": {"$regex": "^q:"}}, {"chunks": {"$size": 0}}]}
//! ```
//!
//! `$eq $neq $gt $gte $lt $lte $in $nin $regex $size $exists` compare a field; `$and $or $not` combine.
//! A path such as `tags__a__0__b` leads into maps and lists. Operands may be fields as well:
//! `{"text": {"$eq": "{tags__title}"}}`. `parse` reads a query, `evaluate` applies it.
//!
//! Each version of documents is evaluated as its own DocArray does it: in the first version a document has every
//! field, at least with its default value; in the second, a missing field matches nothing but `$exists: false`. Where
//! DocArray fails with an error on a comparison (a text that is greater than 1), the document does not match.
//! Conditions side by side must all be true, also beside an `$or`, where DocArray takes them as further alternatives.

mod condition;
mod evaluate;
mod parse;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use self::condition::BadQuery;
use self::condition::Test;
use crate::Document;

/// A condition on documents.
#[derive(Debug, Clone)]
pub struct Query {
    /// The query as it was written.
    json: Value,
    test: Test,
    /// The fields of documents that the query uses, each once.
    fields: Vec<String>,
}

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    ///
    /// If the JSON is not a query; the error says where.
    pub fn parse(json: &Value) -> Result<Self, BadQuery> {
        let test = parse::query(json)?;
        let mut fields = Vec::new();
        test.collect_fields(&mut fields);
        Ok(Self {
            json: json.clone(),
            test,
            fields,
        })
    }

    /// Whether a document matches.
    #[must_use]
    pub fn matches(&self, document: &Document) -> bool {
        evaluate::matches(&self.test, &self.fields, document)
    }

    /// The query as it was written.
    #[must_use]
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The fields of documents that the query uses, each once.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }
}

impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Eq for Query {}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json.fmt(f)
    }
}

impl Serialize for Query {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        Self::parse(&json).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
