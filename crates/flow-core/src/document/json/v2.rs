//! JSON of documents of the second version.

use bytes::{BufMut, Bytes, BytesMut};
use flow_proto::docarray::v2::{DocProto, NodeProto};
use prost::Message;
use serde::ser::{Error, Serialize, Serializer};
use serde_json::Value;

use super::super::format::{BadDocument, DocArrayVersion, undecodable};
use super::super::{Document, v2};
use super::builder::DocumentBuilder;
use super::nodes::{WrittenNodes, id, to_node};
use super::values::{text, value_of};
use crate::{Chain, Tensor};

const ID: &str = "id";

pub(super) fn to_value(document: &Document) -> Result<Value, BadDocument> {
    Ok(value_of(&WrittenNodes(&decode(document)?.data)))
}

pub(super) fn write<S: Serializer>(document: &Document, serializer: S) -> Result<S::Ok, S::Error> {
    let proto = decode(document).map_err(|error| S::Error::custom(Chain(&error)))?;
    WrittenNodes(&proto.data).serialize(serializer)
}

fn decode(document: &Document) -> Result<DocProto, BadDocument> {
    let proto = DocProto::decode(document.encode());
    proto.map_err(|error| undecodable("a document", error))
}

pub(super) fn from_field(name: &str, fields: Bytes) -> Option<Value> {
    let proto = DocProto::decode(fields).ok()?;
    match value_of(&WrittenNodes(&proto.data)) {
        Value::Object(mut map) => map.remove(name),
        _ => None,
    }
}

pub(super) fn to_field_alone(name: &str, value: &Value) -> Bytes {
    v2::entry(name, &to_node(value.clone()))
}

/// The fields of a document that is read.
#[derive(Default)]
pub(super) struct V2Builder {
    id: Option<NodeProto>,
    /// The others, encoded.
    entries: BytesMut,
}

impl DocumentBuilder for V2Builder {
    fn set_array(&mut self, name: &'static str, array: Option<Tensor>) {
        let node = array.map_or_else(NodeProto::default, |it| v2::array(&it));
        self.put(name, &node);
    }

    fn set_documents(&mut self, name: &'static str, documents: Option<Vec<Document>>) {
        match documents {
            Some(documents) => {
                let encoded = documents.iter().map(Document::encode);
                v2::put_children(&mut self.entries, name, encoded);
            }
            None => self.put(name, &NodeProto::default()),
        }
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), BadDocument> {
        match name {
            ID if value.is_null() => self.id = Some(NodeProto::default()),
            ID => self.id = Some(id(&text(ID, value)?)),
            _ => self.put(name, &to_node(value)),
        }
        Ok(())
    }

    fn into_document(self) -> Result<Document, BadDocument> {
        let own = self
            .id
            .unwrap_or_else(|| id(crate::RequestId::random().as_str()));
        // The id comes first, as it shows the version; see `DocArrayVersion::of`.
        let id = v2::entry(ID, &own);
        let mut message = BytesMut::with_capacity(id.len() + self.entries.len());
        message.put(id);
        message.put(self.entries);
        Document::decode(DocArrayVersion::V2, message.freeze())
    }
}

impl V2Builder {
    fn put(&mut self, name: &str, node: &NodeProto) {
        self.entries.put(v2::entry(name, node));
    }
}
