//! What executors report about themselves in endpoint discovery.
//!
//! Besides names, the reply holds a description of each endpoint: the class of its documents, and its
//! parameters. Stock executors name a class of their own there; ours take any document, and add the names
//! of their parameters. This module reads them from the reply.

use flow_proto::jina::EndpointsProto;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct};
use serde_json::Value;

use crate::parameters::Accepted;
use crate::{DocArrayVersion, Endpoint, ModelInfo, Models, from_struct};

/// The class that our executors name: documents of any kind, in either of DocArray's formats.
pub const ANY_DOCUMENT: &str = "FlowDoc";

/// The class that stock executors with DocArray up to 0.21 name.
const V1_DOCUMENT: &str = "PydanticDocument";

/// Where our executors say that documents of either format of DocArray may be sent to an endpoint, although it names a class.
pub const ANY_FORMAT: &str = "any_format";

/// Where our executors list the parameters of an endpoint, within its `parameters`.
pub const ACCEPTS: &str = "accepts";

/// Where our gateways list the executors of the flow, within the description of the dry run.
pub const EXECUTORS: &str = "executors";

/// The names of a flow's executors; empty if its gateway does not list them.
#[must_use]
pub fn executors(said: &EndpointsProto) -> Option<Vec<&str>> {
    let dry_run = description(said, Endpoint::DRY_RUN)?;
    match kind(dry_run, EXECUTORS)? {
        Kind::ListValue(names) => Some(texts(names).collect()),
        _ => None,
    }
}

/// The parameters that an endpoint accepts; `None` if the executor does not report them.
///
/// Stock executors say so where a method's parameters have a class, whose JSON schema they send.
#[must_use]
pub fn accepted(said: &EndpointsProto, endpoint: &str) -> Option<Accepted> {
    let parameters = map(description(said, endpoint)?, "parameters")?;
    if let Some(Kind::ListValue(names)) = kind(parameters, ACCEPTS) {
        return Some(texts(names).collect());
    }
    let class = map(parameters, "model")?;
    match kind(class, "additionalProperties") {
        None | Some(Kind::BoolValue(false)) => {
            Some(map(class, "properties")?.fields.keys().cloned().collect())
        }
        Some(_) => None,
    }
}

/// Where our executors describe the model that computes an endpoint, within the endpoint's description.
pub const MODEL: &str = "model";

/// The models of the executor, by endpoint, as far as it says and they can be read.
#[must_use]
pub fn models(said: &EndpointsProto) -> Models {
    let readable = described_models(said)
        .filter_map(|(endpoint, model)| Some((endpoint.to_owned(), model.ok()?)));
    readable.collect()
}

/// The endpoints whose model cannot be read, and why.
pub fn unreadable_models(said: &EndpointsProto) -> impl Iterator<Item = (&str, serde_json::Error)> {
    described_models(said).filter_map(|(endpoint, model)| Some((endpoint, model.err()?)))
}

fn described_models(
    said: &EndpointsProto,
) -> impl Iterator<Item = (&str, Result<ModelInfo, serde_json::Error>)> {
    said.endpoints.iter().filter_map(|endpoint| {
        let model = map(description(said, endpoint)?, MODEL)?;
        let model = Value::Object(from_struct(model));
        Some((endpoint.as_str(), serde_json::from_value(model)))
    })
}

/// The format in which documents have to be sent to the endpoints; `None` if both work, or if it is unknown.
#[must_use]
pub fn docarray_version(said: &EndpointsProto) -> Option<DocArrayVersion> {
    let of_endpoint = |endpoint: &String| {
        let description = description(said, endpoint)?;
        if matches!(kind(description, ANY_FORMAT), Some(Kind::BoolValue(true))) {
            return None;
        }
        let input = map(description, "input")?;
        match class(input) {
            Some(ANY_DOCUMENT) => None,
            Some(V1_DOCUMENT) => Some(DocArrayVersion::V1),
            Some(_) => Some(DocArrayVersion::V2),
            // Stock gateways of DocArray v2 have the JSON schema itself here.
            None => input
                .fields
                .contains_key("properties")
                .then_some(DocArrayVersion::V2),
        }
    };
    said.endpoints.iter().find_map(of_endpoint)
}

/// Whether the documents that the description of an endpoint has as its `input` or `output` may be of any kind.
#[must_use]
pub fn is_any_document(description: &Struct, side: &str) -> bool {
    map(description, side).and_then(class) == Some(ANY_DOCUMENT)
}

/// The name of a class of documents.
fn class(input: &Struct) -> Option<&str> {
    match kind(input, "name") {
        Some(Kind::StringValue(name)) => Some(name),
        _ => None,
    }
}

/// Whether this endpoint makes documents one by one from a single one.
#[must_use]
pub fn is_generator(said: &EndpointsProto, endpoint: &str) -> bool {
    let is_generator = description(said, endpoint).and_then(|it| kind(it, "is_generator"));
    matches!(is_generator, Some(Kind::BoolValue(true)))
}

/// Whether some executor offers this endpoint by its name.
#[must_use]
pub fn offers(said: &EndpointsProto, endpoint: &str) -> bool {
    said.endpoints.iter().any(|it| it == endpoint)
}

/// Whether some executor answers endpoints that it does not name.
#[must_use]
pub fn has_default(said: &EndpointsProto) -> bool {
    offers(said, Endpoint::DEFAULT)
}

fn description<'s>(said: &'s EndpointsProto, endpoint: &str) -> Option<&'s Struct> {
    map(said.schemas.as_ref()?, endpoint)
}

fn texts(list: &ListValue) -> impl Iterator<Item = &str> {
    list.values.iter().filter_map(|value| match &value.kind {
        Some(Kind::StringValue(text)) => Some(text.as_str()),
        _ => None,
    })
}

fn map<'s>(within: &'s Struct, name: &str) -> Option<&'s Struct> {
    match kind(within, name) {
        Some(Kind::StructValue(map)) => Some(map),
        _ => None,
    }
}

fn kind<'s>(within: &'s Struct, name: &str) -> Option<&'s Kind> {
    within.fields.get(name)?.kind.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::to_struct;

    fn said(endpoint: &str, description: &Value) -> EndpointsProto {
        let schemas = json!({ endpoint: description });
        EndpointsProto {
            endpoints: vec![endpoint.to_owned()],
            schemas: Some(to_struct(schemas.as_object().unwrap())),
            ..EndpointsProto::default()
        }
    }

    #[track_caller]
    fn check_accepted(parameters: &Value, expected: Option<&[&str]>) {
        let said = said("/search", &json!({ "parameters": parameters }));
        let expected = expected.map(|names| names.iter().copied().collect());
        assert_eq!(accepted(&said, "/search"), expected, "{parameters}");
    }

    #[test]
    fn our_executors_list_the_parameters_that_they_accept() {
        let listed = json!({"name": null, "model": null, "accepts": ["top_k", "limit"]});
        check_accepted(&listed, Some(&["limit", "top_k"]));
        check_accepted(&json!({"accepts": []}), Some(&[]));
        check_accepted(&json!({"name": null, "model": null}), None);
        assert_eq!(accepted(&EndpointsProto::default(), "/search"), None);
    }

    #[test]
    fn our_gateways_list_the_executors_of_the_flow() {
        let listed = said(
            Endpoint::DRY_RUN,
            &json!({"executors": ["encoder", "index"]}),
        );
        assert_eq!(executors(&listed).unwrap(), ["encoder", "index"]);
        assert_eq!(executors(&said(Endpoint::DRY_RUN, &json!({}))), None);
        assert_eq!(executors(&EndpointsProto::default()), None);
    }

    #[test]
    fn a_class_of_parameters_accepts_its_fields_unless_it_is_open() {
        let class = |more: &Value| json!({"name": "P", "model": {"properties": {"top_k": {}}, "additionalProperties": more}});
        let closed = json!({"name": "P", "model": {"properties": {"top_k": {}}}});
        check_accepted(&closed, Some(&["top_k"]));
        check_accepted(&class(&json!(false)), Some(&["top_k"]));
        check_accepted(&class(&json!(true)), None);
    }

    #[test]
    fn an_executor_describes_the_model_of_an_endpoint() {
        let model = ModelInfo {
            name: "a/b".to_owned(),
            kind: crate::ModelKind::Embedding,
            dimensions: 384,
            shorter: crate::ShorterVectors::Only(vec![64]),
            ..ModelInfo::default()
        };
        let described = said("/encode", &json!({ "model": model }));
        let expected = Models::from([("/encode".to_owned(), model)]);
        assert_eq!(models(&described), expected);
        assert!(models(&said("/encode", &json!({"model": null}))).is_empty());
    }

    #[test]
    fn a_model_that_cannot_be_read_is_reported_with_its_endpoint() {
        let mut model = serde_json::to_value(ModelInfo::default()).unwrap();
        model["dimensions"] = json!("many");
        let described = said("/encode", &json!({ "model": model }));
        assert!(models(&described).is_empty());
        let unreadable: Vec<_> = unreadable_models(&described).collect();
        let [(endpoint, error)] = &unreadable[..] else {
            panic!("{unreadable:?}");
        };
        assert_eq!(*endpoint, "/encode");
        assert!(error.to_string().contains("many"), "{error}");
    }

    #[test]
    fn the_class_of_documents_determines_their_format() {
        let check = |input: Value, expected| {
            let said = said("/encode", &json!({ "input": input }));
            assert_eq!(docarray_version(&said), expected, "{input}");
        };
        check(json!({"name": "FlowDoc"}), None);
        check(
            json!({"name": "PydanticDocument"}),
            Some(DocArrayVersion::V1),
        );
        check(json!({"name": "MyDoc"}), Some(DocArrayVersion::V2));
        check(
            json!({"name": "LegacyDocumentJina"}),
            Some(DocArrayVersion::V2),
        );
        check(
            json!({"title": "MyDoc", "properties": {}}),
            Some(DocArrayVersion::V2),
        );
        check(json!({}), None);
        let ours = json!({"input": {"name": "MyDoc"}, "any_format": true});
        assert_eq!(docarray_version(&said("/encode", &ours)), None);
        assert_eq!(docarray_version(&EndpointsProto::default()), None);
    }
}
