//! JSON of the nodes of which documents of the second version consist.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use flow_proto::docarray::v2::{
    DictOfAnyProto, ListOfAnyProto, NodeProto, node_proto::Content, node_proto::DocarrayType,
};
use prost::Message;
use serde_json::{Map, Number, Value};

use super::super::v2;
use super::values::from_tensor;

/// The values of a dictionary.
pub(crate) fn dict(content: &Bytes) -> Map<String, Value> {
    DictOfAnyProto::decode(content.clone())
        .map(|dict| from_nodes(dict.data))
        .unwrap_or_default()
}

/// A field that holds a dictionary, encoded.
pub(crate) fn set_dict(name: &str, map: &Map<String, Value>) -> Bytes {
    let content = Some(Content::Dict(to_dict(map)));
    let node = NodeProto {
        content,
        docarray_type: None,
    };
    v2::entry(name, &node)
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

pub(super) fn to_node(value: &Value) -> NodeProto {
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

pub(super) fn id(id: &str) -> NodeProto {
    NodeProto {
        content: Some(Content::Text(id.to_owned())),
        docarray_type: Some(DocarrayType::Type("id".to_owned())),
    }
}

pub(super) fn plain(content: Content) -> NodeProto {
    NodeProto {
        content: Some(content),
        docarray_type: None,
    }
}
