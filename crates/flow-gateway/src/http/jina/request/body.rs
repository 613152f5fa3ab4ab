//! The parts of a JSON body. Each is parsed alone, and so is each document: values take many times the memory of their
//! text, so only those of one document exist at a time.

use std::collections::BTreeMap;
use std::fmt;

use flow_core::{Code, Failure, json};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::http::parse_memory::ParseMemory;
use crate::shortened::shortened;

/// Longest error that a client gets, in bytes.
const ERROR_LEN_MAX: usize = 1000;

/// The field with the documents.
const DATA: &str = "data";

/// The only field of an object with documents.
const DOCS: &str = "docs";

/// The other fields that a request may have. Any more are ignored.
const FIELDS: [&str; 8] = [
    "header",
    "parameters",
    "requestId",
    "request_id",
    "targetExecutor",
    "target_executor",
    "execEndpoint",
    "exec_endpoint",
];

/// The fields of a body. The last of those with the same name counts.
#[derive(Debug, Default)]
pub(super) struct Body<'b> {
    data: Option<&'b RawValue>,
    fields: BTreeMap<&'static str, &'b RawValue>,
}

impl<'b> Body<'b> {
    pub(super) fn read(json: &'b [u8]) -> Result<Self, Failure> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(utf8(json)?).map_err(|error| match error.is_data() {
            true => bad("the body must be a JSON object"),
            false => bad(format!("the body is not valid JSON: {error}")),
        })
    }

    /// The fields besides the documents.
    pub(super) fn fields(&self, memory: &mut ParseMemory) -> Result<Map<String, Value>, Failure> {
        let fields = self.fields.iter().map(|(&name, json)| {
            memory.hold_for(json.get().as_bytes())?;
            Ok((name.to_owned(), value(json, name)?))
        });
        fields.collect()
    }

    /// Calls `each` with every document, until it fails.
    pub(super) fn documents(&self, each: &mut EachDocument<'_>) -> Result<(), Failure> {
        match self.data {
            None => Ok(()),
            Some(data) => match only_docs(data) {
                // There, too, one document stands for a list.
                Some(docs) if is_object(docs) => each(docs),
                Some(docs) => documents(docs, each),
                None => documents(data, each),
            },
        }
    }
}

/// A body as text. The parser does not check strings that it ignores.
pub(super) fn utf8(json: &[u8]) -> Result<&str, Failure> {
    let text = std::str::from_utf8(json);
    text.map_err(|error| bad(format!("the body is not valid JSON: {error}")))
}

/// The failure of a body that is not a request. What it quotes may be as long as the body.
pub(super) fn bad(message: impl AsRef<str>) -> Failure {
    let message = shortened(message.as_ref(), ERROR_LEN_MAX);
    Failure::new(Code::BadRequest, message)
}

/// Processes a document.
pub(super) type EachDocument<'e> = dyn FnMut(&RawValue) -> Result<(), Failure> + 'e;

/// Parses a part of a body, which the error names.
pub(super) fn value(part: &RawValue, name: &str) -> Result<Value, Failure> {
    let value = json::from_slice(part.get().as_bytes());
    value.map_err(|error| bad(format!("`{name}` is not valid JSON: {error}")))
}

/// Calls `each` with the documents of a list, or with the only one.
fn documents(json: &RawValue, each: &mut EachDocument<'_>) -> Result<(), Failure> {
    match json.get().as_bytes().first() {
        Some(b'[') => {
            let mut list = List {
                each,
                failure: None,
            };
            let mut json = serde_json::Deserializer::from_str(json.get());
            let read = json.deserialize_seq(&mut list);
            match list.failure {
                Some(failure) => Err(failure),
                None => read.map_err(|error| bad(format!("`{DATA}` is not valid JSON: {error}"))),
            }
        }
        Some(b'{') => each(json),
        Some(b'n') => Ok(()),
        _ => Err(bad("`data` is neither a document nor a list of documents")),
    }
}

fn is_object(json: &RawValue) -> bool {
    json.get().starts_with('{')
}

/// The value of the field `docs` of an object that has no other.
fn only_docs(json: &RawValue) -> Option<&RawValue> {
    struct Docs;

    impl<'de> Visitor<'de> for Docs {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an object with `{DOCS}` alone")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            let mut docs = None;
            while let Some(Name(name)) = object.next_key()? {
                if name != Some(DOCS) {
                    return Err(A::Error::custom("there are other fields"));
                }
                docs = Some(object.next_value()?);
            }
            Ok(docs)
        }
    }

    let mut json = serde_json::Deserializer::from_str(json.get());
    json.deserialize_map(Docs).ok().flatten()
}

/// The name of a field, if it is one of those that are read. Others may be long, and are not kept.
struct Name(Option<&'static str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        let mut known = FIELDS.into_iter().chain([DATA, DOCS]);
        Ok(Name(known.find(|it| *it == name)))
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for Body<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Body::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut body = Body::default();
        while let Some(Name(name)) = object.next_key()? {
            match name {
                Some(DATA) => body.data = Some(object.next_value()?),
                None | Some(DOCS) => drop(object.next_value::<IgnoredAny>()?),
                Some(field) => drop(body.fields.insert(field, object.next_value()?)),
            }
        }
        Ok(body)
    }
}

/// Reads a list of documents without keeping them.
struct List<'l, 'e> {
    each: &'l mut EachDocument<'e>,
    /// Why the reading ended early.
    failure: Option<Failure>,
}

impl<'de> Visitor<'de> for &mut List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of documents")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut documents: A) -> Result<(), A::Error> {
        while let Some(document) = documents.next_element::<&RawValue>()? {
            if let Err(failure) = (self.each)(document) {
                self.failure = Some(failure);
                return Err(A::Error::custom("a document failed"));
            }
        }
        Ok(())
    }
}
