//! Asks executors which endpoints they offer, and combines the answers of all executors of a flow.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::discovery::{
    self, accepted, docarray_version, has_default, is_any_document, offers,
};
use flow_core::parameters::Accepted;
use flow_core::{Code, Deadline, DocArrayVersion, Endpoint, Failure};
use flow_proto::jina::EndpointsProto;
use flow_spec::NodePlan;
use futures_util::future::{join_all, try_join_all};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use crate::node::GatewayNode;
use crate::shortened::displayed;
use crate::snapshot::Snapshot;

/// Time-out of a question that the gateway asks on its own account.
const QUESTION_MAX: Duration = Duration::from_secs(2);

/// Longest error in the log, in bytes. It quotes what the executor sent, which may be long.
const ERROR_LEN_MAX: usize = 500;

/// The endpoints of all executors together: one replica of each node is asked.
pub(crate) async fn endpoints(
    snapshot: &Snapshot,
    deadline: Deadline,
) -> Result<EndpointsProto, Failure> {
    let offered = snapshot
        .nodes()
        .map(|(plan, node)| node_endpoints(plan, node, deadline));
    let offered = try_join_all(offered).await?;
    let mut all = combined(&offered.iter().collect::<Vec<_>>());
    let names = snapshot.nodes().map(|(plan, _)| plan.name.as_str());
    name_executors(&mut all, names);
    Ok(all)
}

/// Lists the executors in the description of the dry run, which all but the oldest executors have. Stock gateways ignore
/// the list.
fn name_executors<'n>(all: &mut EndpointsProto, names: impl Iterator<Item = &'n str>) {
    let schemas = all.schemas.as_mut();
    let dry_run = schemas.and_then(|it| it.fields.get_mut(Endpoint::DRY_RUN));
    if let Some(Kind::StructValue(dry_run)) = dry_run.and_then(|it| it.kind.as_mut()) {
        let names = names.map(|name| value(Kind::StringValue(name.to_owned())));
        let names = ListValue {
            values: names.collect(),
        };
        let names = value(Kind::ListValue(names));
        dry_run
            .fields
            .insert(discovery::EXECUTORS.to_owned(), names);
    }
}

/// What the executors of a flow offer, as far as they have said so.
#[derive(Debug)]
pub(crate) struct OfferedEndpoints {
    nodes: Vec<Arc<EndpointsProto>>,
    /// Whether an executor has not answered yet.
    is_incomplete: bool,
}

impl OfferedEndpoints {
    /// What is known already.
    pub(crate) fn known(snapshot: &Snapshot) -> Self {
        let known = snapshot.nodes().map(|(_, node)| known(node));
        Self::of(known.collect())
    }

    /// What is known; executors that have not answered yet are asked now.
    pub(crate) async fn asked(snapshot: &Snapshot) -> Self {
        let nodes = snapshot.nodes().map(|(plan, node)| ask(plan, node));
        Self::of(join_all(nodes).await)
    }

    fn of(nodes: Vec<Option<Arc<EndpointsProto>>>) -> Self {
        Self {
            is_incomplete: nodes.iter().any(Option::is_none),
            nodes: nodes.into_iter().flatten().collect(),
        }
    }

    /// Whether each executor has answered.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// What executors answered, each.
    #[cfg(test)]
    pub(crate) fn answered(nodes: Vec<EndpointsProto>) -> Self {
        Self::of(nodes.into_iter().map(|it| Some(Arc::new(it))).collect())
    }

    /// Whether an executor offers this endpoint by its name, or may offer it.
    pub(crate) fn may_have(&self, endpoint: &str) -> bool {
        self.is_incomplete || self.nodes.iter().any(|it| offers(it, endpoint))
    }

    /// Which documents the executors take, if any of them takes only one kind.
    pub(crate) fn version(&self) -> Option<DocArrayVersion> {
        self.nodes.iter().find_map(|it| docarray_version(it))
    }

    /// Whether an executor streams the documents that this endpoint makes.
    pub(crate) fn is_generator(&self, endpoint: &str) -> bool {
        self.nodes
            .iter()
            .any(|it| discovery::is_generator(it, endpoint))
    }

    /// Whether an executor reports models.
    pub(crate) fn has_models(&self) -> bool {
        self.nodes
            .iter()
            .any(|it| !discovery::models(it).is_empty())
    }

    /// The names of all endpoints that clients may call.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        let names = self.nodes.iter().flat_map(|it| &it.endpoints);
        let names = names.map(String::as_str);
        names.filter(|it| *it != Endpoint::DRY_RUN).collect()
    }

    /// The endpoints of all executors, as if they were one executor.
    pub(crate) fn combined(&self) -> EndpointsProto {
        combined(&self.nodes)
    }
}

fn known(node: &GatewayNode) -> Option<Arc<EndpointsProto>> {
    node.endpoints.offered(node.generation())
}

async fn ask(plan: &NodePlan, node: &GatewayNode) -> Option<Arc<EndpointsProto>> {
    if let Some(offered) = known(node) {
        return Some(offered);
    }
    let generation = node.generation();
    match node_endpoints(plan, node, soon()).await {
        Ok(offered) => {
            node.endpoints.set(&offered, generation);
            Some(Arc::new(offered))
        }
        Err(failure) => {
            // Its replicas may be starting, and a stock executor may have no discovery.
            tracing::debug!(%failure, node = plan.name.as_str(), "the endpoints of a node are not known");
            None
        }
    }
}

/// The endpoints of one node, as one of its replicas says.
pub(crate) async fn node_endpoints(
    plan: &NodePlan,
    node: &GatewayNode,
    deadline: Deadline,
) -> Result<EndpointsProto, Failure> {
    let name = plan.name.as_str();
    let none = || Failure::new(Code::Unavailable, "no replica is running").at(name);
    let pool = node.shards.first().and_then(|shard| shard.pool());
    let lease = pool
        .and_then(|pool| pool.lease(Instant::now()).ok())
        .ok_or_else(none)?;
    let offered = lease.replica().endpoints(deadline).await;
    let offered = offered.map_err(|failure| failure.at(name))?;
    for (endpoint, error) in discovery::unreadable_models(&offered) {
        let node = name;
        let error = displayed(&error, ERROR_LEN_MAX);
        tracing::warn!(
            node,
            endpoint,
            error,
            "an executor reports a model that cannot be read; routes for models ignore it"
        );
    }
    Ok(offered)
}

/// The deadline of a question that the gateway asks on its own account.
pub(crate) fn soon() -> Deadline {
    Deadline::after(Instant::now(), Some(QUESTION_MAX))
}

/// The endpoints of all nodes, as if they were one executor.
fn combined<N: Deref<Target = EndpointsProto>>(nodes: &[N]) -> EndpointsProto {
    let nodes: Vec<&EndpointsProto> = nodes.iter().map(Deref::deref).collect();
    let (mut endpoints, mut write_endpoints) = (BTreeSet::new(), BTreeSet::new());
    let mut schemas = Struct::default();
    for offered in &nodes {
        endpoints.extend(offered.endpoints.iter().cloned());
        write_endpoints.extend(offered.write_endpoints.iter().cloned());
        for (endpoint, schema) in offered.schemas.iter().flat_map(|it| &it.fields) {
            combine_classes(&mut schemas, endpoint, schema);
        }
    }
    for endpoint in &endpoints {
        combine_parameters(&mut schemas, &nodes, endpoint);
    }
    EndpointsProto {
        endpoints: endpoints.into_iter().collect(),
        write_endpoints: write_endpoints.into_iter().collect(),
        schemas: (!schemas.fields.is_empty()).then_some(schemas),
    }
}

/// Gives an endpoint that several nodes work on the class of the documents that the first of them takes, and of those that
/// the last one makes. The class of any document says less than another class, and is replaced by it. A class whose
/// documents may have one format only comes before others, because it tells clients which format that is.
fn combine_classes(schemas: &mut Struct, endpoint: &str, of_node: &Value) {
    let known = schemas.fields.get_mut(endpoint);
    let known = known.and_then(|it| it.kind.as_mut());
    let (Some(Kind::StructValue(known)), Some(Kind::StructValue(of_node))) = (known, &of_node.kind)
    else {
        schemas.fields.insert(endpoint.to_owned(), of_node.clone());
        return;
    };
    let output = of_node.fields.get("output");
    if let Some(output) = output.filter(|_| !is_any_document(of_node, "output")) {
        known.fields.insert("output".to_owned(), output.clone());
    }
    if is_any_document(of_node, "input") {
        return;
    }
    let has_any_format = of_node.fields.contains_key(discovery::ANY_FORMAT);
    let may_be_any = known.fields.contains_key(discovery::ANY_FORMAT);
    if is_any_document(known, "input") || (may_be_any && !has_any_format) {
        for field in ["input", discovery::ANY_FORMAT] {
            match of_node.fields.get(field) {
                Some(said) => drop(known.fields.insert(field.to_owned(), said.clone())),
                None => drop(known.fields.remove(field)),
            }
        }
    }
}

/// Gives an endpoint that several nodes work on the parameters of all of them.
fn combine_parameters(schemas: &mut Struct, nodes: &[&EndpointsProto], endpoint: &str) {
    let called: Vec<_> = nodes
        .iter()
        .filter_map(|&offered| Some((offered, bound(offered, endpoint)?)))
        .collect();
    let schema = schemas.fields.get_mut(endpoint);
    let (Some(Kind::StructValue(schema)), true) =
        (schema.and_then(|it| it.kind.as_mut()), called.len() > 1)
    else {
        return;
    };
    let each = called
        .into_iter()
        .map(|(offered, bound)| accepted(offered, bound));
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

/// The endpoint by which an executor answers another: the same one, or the default; `None` if it does not answer it.
fn bound<'e>(offered: &EndpointsProto, endpoint: &'e str) -> Option<&'e str> {
    if offers(offered, endpoint) {
        Some(endpoint)
    } else {
        has_default(offered).then_some(Endpoint::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use flow_core::to_struct;
    use serde_json::json;

    use super::*;

    /// The answer of an executor whose endpoints have these classes of documents and these parameters.
    fn offering(endpoints: &[(&str, &str, Option<&[&str]>)]) -> EndpointsProto {
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
    fn an_endpoint_has_the_parameters_of_all_executors_that_work_on_it() {
        let encoder = [
            ("/encode", "FlowDoc", Some(&["batch_size"][..])),
            ("/default", "FlowDoc", Some(&["batch_size"][..])),
        ];
        let index = [
            ("/search", "FlowDoc", Some(&["top_k"][..])),
            ("/status", "FlowDoc", Some(&[][..])),
        ];
        let all = combined(&[&offering(&encoder), &offering(&index)]);
        let endpoints = ["/default", "/encode", "/search", "/status"];
        assert_eq!(all.endpoints, endpoints);
        assert_eq!(names(&all, "/search").unwrap(), ["batch_size", "top_k"]);
        assert_eq!(names(&all, "/status").unwrap(), ["batch_size"]);
        assert_eq!(names(&all, "/encode").unwrap(), ["batch_size"]);
    }

    #[test]
    fn an_endpoint_accepts_anything_if_one_of_its_executors_does_not_name_its_parameters() {
        let index = [("/search", "FlowDoc", Some(&["top_k"][..]))];
        let own = [("/default", "FlowDoc", None)];
        let all = combined(&[&offering(&index), &offering(&own)]);
        assert_eq!(names(&all, "/search"), None);
    }

    #[test]
    fn the_executors_of_the_flow_are_listed_where_a_dry_run_is_described() {
        let mut all = offering(&[("_jina_dry_run_", "FlowDoc", None)]);
        name_executors(&mut all, ["a", "b"].into_iter());
        assert_eq!(discovery::executors(&all).unwrap(), ["a", "b"]);
        let mut old = EndpointsProto::default();
        name_executors(&mut old, ["a"].into_iter());
        assert_eq!(old, EndpointsProto::default());
    }

    /// The classes of an endpoint's documents, and whether they may have either format.
    fn classes(input: &str, output: &str, any_format: bool) -> EndpointsProto {
        let mut described = json!({ "input": { "name": input }, "output": { "name": output } });
        if any_format {
            described["any_format"] = json!(true);
        }
        let schemas = json!({ "/encode": described });
        EndpointsProto {
            endpoints: vec!["/encode".to_owned()],
            schemas: Some(to_struct(schemas.as_object().unwrap())),
            ..EndpointsProto::default()
        }
    }

    #[track_caller]
    fn check_classes(nodes: &[EndpointsProto; 2], expected: &EndpointsProto) {
        let mut all = combined(&nodes.iter().collect::<Vec<_>>());
        for fields in all.schemas.iter_mut().flat_map(|it| it.fields.values_mut()) {
            if let Some(Kind::StructValue(described)) = &mut fields.kind {
                described.fields.remove("parameters");
            }
        }
        assert_eq!(all, *expected);
    }

    #[test]
    fn a_class_of_documents_replaces_that_of_any_document() {
        let ours = || classes("FlowDoc", "FlowDoc", false);
        let stock = || classes("MyDoc", "MyDoc", false);
        check_classes(&[ours(), stock()], &stock());
        check_classes(&[stock(), ours()], &stock());
    }

    #[test]
    fn an_endpoint_takes_what_the_first_executor_takes_and_makes_what_the_last_one_makes() {
        let (first, last) = (|any| classes("A", "B", any), |any| classes("B", "C", any));
        check_classes(&[first(false), last(false)], &classes("A", "C", false));
        check_classes(&[first(true), last(true)], &classes("A", "C", true));
        check_classes(&[first(true), last(false)], &classes("B", "C", false));
        let unnamed = classes("B", "FlowDoc", true);
        check_classes(&[first(true), unnamed], &first(true));
        let makes = classes("FlowDoc", "C", false);
        check_classes(&[first(true), makes], &classes("A", "C", true));
        let any = || classes("FlowDoc", "FlowDoc", false);
        check_classes(
            &[classes("FlowDoc", "B", false), any()],
            &classes("FlowDoc", "B", false),
        );
        check_classes(&[any(), first(true)], &first(true));
    }
}
