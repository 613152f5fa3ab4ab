//! Conditions on documents: DocArray's query language, which `when` of a flow file is written in.
//!
//! ```text
//! {"tags__lang": {"$eq": "de"}, "$or": [{"text": {"$regex": "^q:"}}, {"chunks": {"$size": 0}}]}
//! ```
//!
//! `$eq $neq $gt $gte $lt $lte $in $nin $regex $size $exists` compare a field; `$and $or $not` combine.
//! A path such as `tags__a__0__b` leads into maps and lists. Operands may be fields themselves:
//! `{"text": {"$eq": "{tags__title}"}}`. `parse` reads it, `evaluate` applies it.
//!
//! Both flavours of documents are asked as their own DocArray asks them: in the first one each document
//! has every field, if only with its default value; in the second, nothing is true of a field that a
//! document does not have, but that it does not exist. Where DocArray fails on a comparison without
//! sense (a text that is greater than 1), the document does not match. Several conditions side by side
//! all have to be true, also beside an `$or`, where DocArray takes them as further alternatives.

mod evaluate;
mod parse;

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::Document;

/// A condition that a document fulfils or not.
#[derive(Debug, Clone)]
pub struct Query {
    /// As it was written.
    json: Value,
    test: Test,
    /// The documents' own fields that it asks about, each once.
    fields: Vec<String>,
}

/// Why something is not a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadQuery {
    /// Where in the query, such as `$or[1].tags__a`; empty: the query itself.
    pub path: String,
    /// What was expected, and what came.
    pub message: String,
    /// What was meant, if it can be guessed.
    pub suggestion: Option<String>,
}

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    ///
    /// If it is not one, with the place inside it.
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

    /// Whether a document fulfils the condition.
    #[must_use]
    pub fn matches(&self, document: &Document) -> bool {
        evaluate::matches(&self.test, &self.fields, document)
    }

    /// The query as it was written.
    #[must_use]
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The documents' own fields that it asks about, each once.
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

/// What is asked of a document.
#[derive(Debug, Clone)]
enum Test {
    /// Each of them; also true if there are none.
    All(Vec<Test>),
    /// One of them at least.
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

/// What a field's value has to be, seen from the operand.
#[derive(Debug, Clone, Copy)]
enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// What a field is compared with.
#[derive(Debug, Clone)]
enum Operand {
    Value(Value),
    /// Another field of the same document.
    Field(Path),
}

/// The way to a value: a field of the document, then keys of maps and places in lists. Never empty.
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
