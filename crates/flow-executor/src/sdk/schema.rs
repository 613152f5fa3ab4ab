//! What an executor says in discovery about the documents and parameters of a method.

use serde_json::{Map, Value};

/// The classes of a method's documents and parameters. Clients find them in discovery and in the gateway's OpenAPI document.
///
/// They describe, and are not checked here: the method gets whatever documents arrive. A gateway refuses parameters that the
/// class of `parameters` does not have, unless its schema has `additionalProperties`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MethodSchema {
    /// The class of the documents that it takes; `None` if it takes any.
    pub input: Option<ClassSchema>,
    /// The class of the documents that it makes; `None` if they may be of any.
    pub output: Option<ClassSchema>,
    /// The class of its parameters; `None` if it does not say.
    pub parameters: Option<ClassSchema>,
    /// Whether it is written for one document at a time.
    pub is_for_one_document: bool,
}

/// A class as a JSON schema.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSchema {
    /// The name of the class.
    pub name: String,
    /// The JSON schema of an object of the class.
    pub schema: Map<String, Value>,
}
