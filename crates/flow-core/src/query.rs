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

mod evaluate;
mod parse;

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

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

/// The JSON is not a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadQuery {
    /// Where in the query, such as `$or[1].tags__a`; empty for the query itself.
    pub path: String,
    /// What was expected, and what was found.
    pub message: String,
    /// The closest valid word, if there is one.
    pub suggestion: Option<String>,
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

impl fmt::Display for BadQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean `{suggestion}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BadQuery {}

/// A condition on a document.
#[derive(Debug, Clone)]
enum Test {
    /// All of these; true if there are none.
    All(Vec<Test>),
    /// At least one of these.
    Any(Vec<Test>),
    Not(Box<Test>),
    Field(Path, Compare),
}

/// How a field is compared.
#[derive(Debug, Clone)]
enum Compare {
    Equal(Operand),
    NotEqual(Operand),
    Order(Order, Operand),
    In(Operand),
    NotIn(Operand),
    Regex(Regex),
    Size(u64),
    Exists(bool),
}

/// The relation of a field's value to the operand.
#[derive(Debug, Clone, Copy)]
enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// The operand of a comparison.
#[derive(Debug, Clone)]
enum Operand {
    Value(Value),
    /// Another field of the same document.
    Field(Path),
}

/// The path to a value: a field of the document, then keys of maps and indices of lists. Never empty.
#[derive(Debug, Clone)]
struct Path(Vec<String>);

impl Path {
    fn field(&self) -> &String {
        &self.0[0]
    }
}

impl Test {
    fn collect_fields(&self, into: &mut Vec<String>) {
        match self {
            Self::All(tests) | Self::Any(tests) => {
                tests.iter().for_each(|test| test.collect_fields(into));
            }
            Self::Not(test) => test.collect_fields(into),
            Self::Field(path, compare) => {
                let other = compare.operand().and_then(|operand| match operand {
                    Operand::Field(other) => Some(other),
                    Operand::Value(_) => None,
                });
                for path in [path].into_iter().chain(other) {
                    if !into.contains(path.field()) {
                        into.push(path.field().clone());
                    }
                }
            }
        }
    }
}

impl Compare {
    fn operand(&self) -> Option<&Operand> {
        match self {
            Self::Equal(operand)
            | Self::NotEqual(operand)
            | Self::Order(_, operand)
            | Self::In(operand)
            | Self::NotIn(operand) => Some(operand),
            Self::Regex(_) | Self::Size(_) | Self::Exists(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
