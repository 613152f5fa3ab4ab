//! JSON of documents of the second version.

use std::collections::HashMap;

use base64::Engine;
use bytes::Bytes;
use flow_proto::docarray::v2::{
    DictOfAnyProto, DocListProto, DocProto, ListOfAnyProto, NodeProto, node_proto::Content,
    node_proto::DocarrayType,
};
use prost::Message;
use serde_json::{Map, Number, Value};

use super::super::{BadDocument, Document, Flavour, malformed, v2};
use super::{BASE64, documents, from_tensor, text, to_tensor};

pub(super) fn from_document(document: &Document) -> Result<Value, BadDocument> {
    let proto = DocProto::decode(document.encode()).map_err(|_| malformed("a document"))?;
    Ok(Value::Object(from_nodes(proto.data)))
}

pub(super) fn from_field(name: &str, fields: Bytes) -> Option<Value> {
    let proto = DocProto::decode(fields).ok()?;
    from_nodes(proto.data).remove(name)
}

pub(super) fn to_field_alone(name: &str, value: &Value) -> Bytes {
    v2::entry(name, &to_node(value))
}

pub(super) fn from_nodes(nodes: HashMap<String, NodeProto>) -> Map<String, Value> {
    // Maps have no order in protobuf. Sorted by name, the same document always has the same JSON.
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_by(|a, b| a.0.cmp(&b.0));
    nodes
        .into_iter()
        .map(|(name, node)| (name, from_node(node)))
        .collect()
}

fn from_node(node: NodeProto) -> Value {
    match node.content {
        None => Value::Null,
        Some(Content::Text(text)) => Value::String(text),
        Some(Content::Integer(number)) => number.into(),
        Some(Content::Float(number)) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        Some(Content::Boolean(flag)) => Value::Bool(flag),
        Some(Content::Blob(blob)) => Value::String(BASE64.encode(blob)),
        Some(Content::Ndarray(array)) => v2::tensor(&array.encode_to_vec().into())
            .map_or(Value::Null, |tensor| from_tensor(&tensor)),
        Some(Content::Doc(doc)) => Value::Object(from_nodes(doc.data)),
        Some(Content::DocArray(list)) => list
            .docs
            .into_iter()
            .map(|doc| Value::Object(from_nodes(doc.data)))
            .collect(),
        Some(Content::List(list) | Content::Set(list) | Content::Tuple(list)) => {
            list.data.into_iter().map(from_node).collect()
        }
        Some(Content::Dict(dict)) => Value::Object(from_nodes(dict.data)),
    }
}

pub(super) fn to_document(fields: &Map<String, Value>) -> Result<Document, BadDocument> {
    let mut data = HashMap::new();
    for (name, value) in fields {
        data.insert(name.clone(), to_field(name, value)?);
    }
    data.entry("id".to_owned())
        .or_insert_with(|| id(crate::RequestId::random().as_str()));
    Document::decode(Flavour::V2, DocProto { data }.encode_to_vec().into())
}

/// A field of a document. Some names have types that their JSON does not show.
fn to_field(name: &str, value: &Value) -> Result<NodeProto, BadDocument> {
    match (name, value) {
        (_, Value::Null) => Ok(NodeProto::default()),
        ("id", _) => Ok(id(text(name, value)?)),
        ("embedding" | "tensor", _) => Ok(v2::array(&to_tensor(name, value)?)),
        ("chunks" | "matches", _) => {
            let docs = documents(Flavour::V2, name, value)?;
            let docs = docs
                .iter()
                .map(|document| DocProto::decode(document.encode()));
            let docs = docs
                .collect::<Result<_, _>>()
                .map_err(|_| malformed(name))?;
            Ok(plain(Content::DocArray(DocListProto { docs })))
        }
        _ => Ok(to_node(value)),
    }
}

fn to_node(value: &Value) -> NodeProto {
    match value {
        Value::Null => NodeProto::default(),
        Value::Bool(flag) => plain(Content::Boolean(*flag)),
        Value::Number(number) => plain(to_number(number)),
        Value::String(text) => plain(Content::Text(text.clone())),
        Value::Array(items) => plain(Content::List(ListOfAnyProto {
            data: items.iter().map(to_node).collect(),
        })),
        Value::Object(map) => plain(Content::Dict(to_dict(map))),
    }
}

/// A number; integers of more than 32 bits do not fit the integer of the message.
fn to_number(number: &Number) -> Content {
    match number
        .as_i64()
        .and_then(|number| i32::try_from(number).ok())
    {
        Some(number) => Content::Integer(number),
        None => Content::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

pub(super) fn to_dict(map: &Map<String, Value>) -> DictOfAnyProto {
    DictOfAnyProto {
        data: map
            .iter()
            .map(|(key, value)| (key.clone(), to_node(value)))
            .collect(),
    }
}

fn id(id: &str) -> NodeProto {
    NodeProto {
        content: Some(Content::Text(id.to_owned())),
        docarray_type: Some(DocarrayType::Type("id".to_owned())),
    }
}

fn plain(content: Content) -> NodeProto {
    NodeProto {
        content: Some(content),
        docarray_type: None,
    }
}
