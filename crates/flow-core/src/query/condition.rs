//! A query as a tree of tests.

use std::fmt;

use regex::Regex;
use serde_json::Value;

/// A condition on a document.
#[derive(Debug, Clone)]
pub(super) enum Test {
    /// All of these; true if there are none.
    All(Vec<Test>),
    /// At least one of these.
    Any(Vec<Test>),
    Not(Box<Test>),
    Field(Path, Compare),
}

/// How a field is compared.
#[derive(Debug, Clone)]
pub(super) enum Compare {
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
pub(super) enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// The operand of a comparison.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Value(Value),
    /// Another field of the same document.
    Field(Path),
}

/// The path to a value: a field of the document, then keys of maps and indices of lists. Never empty.
#[derive(Debug, Clone)]
pub(super) struct Path(pub(super) Vec<String>);

impl Path {
    pub(super) fn field(&self) -> &String {
        &self.0[0]
    }
}

impl Test {
    pub(super) fn collect_fields(&self, into: &mut Vec<String>) {
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
    pub(super) fn operand(&self) -> Option<&Operand> {
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
