//! What a flow offers: the endpoints of all its executors together.

use std::collections::BTreeSet;

use flow_core::discovery::{self, accepted, has_default, offers, takes_any_document};
use flow_core::parameters::Accepted;
use flow_core::{Deadline, Endpoint, Failure};
use flow_proto::jina::EndpointsProto;
use futures_util::future::try_join_all;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use crate::attend::ask;
use crate::core::Core;

/// Asks one replica of each node.
pub(crate) async fn endpoints(core: &Core, deadline: Deadline) -> Result<EndpointsProto, Failure> {
    let asked = core.nodes().map(|(plan, node)| ask(plan, node, deadline));
    Ok(united(&try_join_all(asked).await?))
}

/// What all nodes say, as if they were one executor.
fn united(nodes: &[EndpointsProto]) -> EndpointsProto {
    let (mut endpoints, mut write_endpoints) = (BTreeSet::new(), BTreeSet::new());
    let mut schemas = Struct::default();
    for said in nodes {
        endpoints.extend(said.endpoints.iter().cloned());
        write_endpoints.extend(said.write_endpoints.iter().cloned());
        for (endpoint, schema) in said.schemas.iter().flat_map(|it| &it.fields) {
            // A class of documents says more than one that stands for any document.
            if !schemas.fields.contains_key(endpoint) || !takes_any_document(said, endpoint) {
                schemas.fields.insert(endpoint.clone(), schema.clone());
            }
        }
    }
    for endpoint in &endpoints {
        unite_parameters(&mut schemas, nodes, endpoint);
    }
    EndpointsProto {
        endpoints: endpoints.into_iter().collect(),
        write_endpoints: write_endpoints.into_iter().collect(),
        schemas: (!schemas.fields.is_empty()).then_some(schemas),
    }
}

/// Where several nodes work on an endpoint, its parameters are those of all of them.
fn unite_parameters(schemas: &mut Struct, nodes: &[EndpointsProto], endpoint: &str) {
    let called: Vec<_> = nodes
        .iter()
        .filter_map(|said| Some((said, bound(said, endpoint)?)))
        .collect();
    let schema = schemas.fields.get_mut(endpoint);
    let (Some(Kind::StructValue(schema)), true) =
        (schema.and_then(|it| it.kind.as_mut()), called.len() > 1)
    else {
        return;
    };
    let each = called
        .into_iter()
        .map(|(said, bound)| accepted(said, bound));
    let all: Option<Vec<Accepted>> = each.collect();
    let null = || value(Kind::NullValue(0));
    let mut parameters = Struct::default();
    parameters.fields.insert("name".to_owned(), null());
    parameters.fields.insert("model".to_owned(), null());
    if let Some(all) = all {
        let names: Accepted = all.iter().flat_map(Accepted::names).collect();
        let names = names
            .names()
            .map(|it| value(Kind::StringValue(it.to_owned())));
        let names = ListValue {
            values: names.collect(),
        };
        let names = value(Kind::ListValue(names));
        parameters
            .fields
            .insert(discovery::ACCEPTS.to_owned(), names);
    }
    let parameters = value(Kind::StructValue(parameters));
    schema.fields.insert("parameters".to_owned(), parameters);
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

/// Under which name an executor answers an endpoint; none: it does not.
fn bound<'e>(said: &EndpointsProto, endpoint: &'e str) -> Option<&'e str> {
    if offers(said, endpoint) {
        Some(endpoint)
    } else {
        has_default(said).then_some(Endpoint::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use flow_core::to_struct;
    use serde_json::json;

    use super::*;

    /// An executor whose endpoints have these classes of documents and these parameters.
    fn said(endpoints: &[(&str, &str, Option<&[&str]>)]) -> EndpointsProto {
        let schema = |class: &str, names: Option<&[&str]>| {
            let mut parameters = json!({ "name": null, "model": null });
            if let Some(names) = names {
                parameters["accepts"] = json!(names);
            }
            json!({ "input": { "name": class }, "parameters": parameters })
        };
        let schemas = endpoints
            .iter()
            .map(|(endpoint, class, names)| ((*endpoint).to_owned(), schema(class, *names)));
        EndpointsProto {
            endpoints: endpoints.iter().map(|(it, ..)| (*it).to_owned()).collect(),
            schemas: Some(to_struct(&schemas.collect())),
            ..EndpointsProto::default()
        }
    }

    fn names(all: &EndpointsProto, endpoint: &str) -> Option<Vec<String>> {
        accepted(all, endpoint).map(|it| it.names().map(str::to_owned).collect())
    }

    #[test]
    fn an_endpoint_accepts_what_all_executors_accept_that_work_on_it() {
        let encoder = [
            ("/encode", "FlowDoc", Some(&["batch_size"][..])),
            ("/default", "FlowDoc", Some(&["batch_size"][..])),
        ];
        let index = [
            ("/search", "FlowDoc", Some(&["top_k"][..])),
            ("/status", "FlowDoc", Some(&[][..])),
        ];
        let all = united(&[said(&encoder), said(&index)]);
        let endpoints = ["/default", "/encode", "/search", "/status"];
        assert_eq!(all.endpoints, endpoints);
        assert_eq!(names(&all, "/search").unwrap(), ["batch_size", "top_k"]);
        assert_eq!(names(&all, "/status").unwrap(), ["batch_size"]);
        assert_eq!(names(&all, "/encode").unwrap(), ["batch_size"]);
    }

    #[test]
    fn an_endpoint_may_accept_anything_if_one_of_its_executors_does_not_say() {
        let index = [("/search", "FlowDoc", Some(&["top_k"][..]))];
        let own = [("/default", "FlowDoc", None)];
        let all = united(&[said(&index), said(&own)]);
        assert_eq!(names(&all, "/search"), None);
    }

    #[test]
    fn a_class_of_documents_wins_over_any_document() {
        let ours = [("/encode", "FlowDoc", None)];
        let stock = [("/encode", "MyDoc", None)];
        for nodes in [[said(&ours), said(&stock)], [said(&stock), said(&ours)]] {
            assert!(!takes_any_document(&united(&nodes), "/encode"));
        }
    }
}
