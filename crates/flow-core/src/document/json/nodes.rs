//! JSON of the nodes of which documents of the second version consist.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use flow_proto::docarray::v2::{
    DictOfAnyProto, ListOfAnyProto, NodeProto, node_proto::Content, node_proto::DocarrayType,
};
use prost::Message;
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

use super::super::v2;
use super::values::{WrittenTensor, value_of};

/// The values of a dictionary.
pub(crate) fn dict(content: &Bytes) -> Map<String, Value> {
    let dict = DictOfAnyProto::decode(content.clone()).unwrap_or_default();
    match value_of(&WrittenNodes(&dict.data)) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A field that holds a dictionary, encoded.
pub(crate) fn set_dict(name: &str, map: &Map<String, Value>) -> Bytes {
    let content = Some(Content::Dict(to_dict(map.clone())));
    let node = NodeProto {
        content,
        docarray_type: None,
    };
    v2::entry(name, &node)
}

/// Nodes that are written as an object of JSON.
pub(super) struct WrittenNodes<'n>(pub(super) &'n HashMap<String, NodeProto>);

impl Serialize for WrittenNodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Maps have no order in protobuf. Sorted by name, the same document always has the same JSON.
        let mut nodes: Vec<_> = self.0.iter().collect();
        nodes.sort_by_key(|(name, _)| *name);
        serializer.collect_map(
            nodes
                .into_iter()
                .map(|(name, node)| (name, WrittenNode(node))),
        )
    }
}

/// A node that is written as JSON.
struct WrittenNode<'n>(&'n NodeProto);

impl Serialize for WrittenNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.content {
            None => serializer.serialize_unit(),
            Some(Content::Text(text)) => serializer.serialize_str(text),
            Some(Content::Integer(number)) => serializer.serialize_i32(*number),
            Some(Content::Float(number)) => serializer.serialize_f64(*number),
            Some(Content::Boolean(flag)) => serializer.serialize_bool(*flag),
            Some(Content::Blob(blob)) => serializer.serialize_str(&BASE64.encode(blob)),
            Some(Content::Ndarray(array)) => {
                let tensor = v2::tensor(&array.encode_to_vec().into());
                tensor.map(WrittenTensor).serialize(serializer)
            }
            Some(Content::Doc(doc)) => WrittenNodes(&doc.data).serialize(serializer),
            Some(Content::DocArray(list)) => {
                serializer.collect_seq(list.docs.iter().map(|doc| WrittenNodes(&doc.data)))
            }
            Some(Content::List(list) | Content::Set(list) | Content::Tuple(list)) => {
                serializer.collect_seq(list.data.iter().map(WrittenNode))
            }
            Some(Content::Dict(dict)) => WrittenNodes(&dict.data).serialize(serializer),
        }
    }
}

pub(super) fn to_node(value: Value) -> NodeProto {
    match value {
        Value::Null => NodeProto::default(),
        Value::Bool(flag) => plain(Content::Boolean(flag)),
        Value::Number(number) => plain(to_number(&number)),
        Value::String(text) => plain(Content::Text(text)),
        Value::Array(items) => plain(Content::List(ListOfAnyProto {
            data: items.into_iter().map(to_node).collect(),
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

fn to_dict(map: Map<String, Value>) -> DictOfAnyProto {
    let data = map.into_iter().map(|(key, value)| (key, to_node(value)));
    DictOfAnyProto {
        data: data.collect(),
    }
}

pub(super) fn id(id: &str) -> NodeProto {
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
