//! Each topology, through the stock gateway and through ours, compared document by document.
//!
//! The same requests go to a stock gateway with stock executors, to our gateway with the same stock
//! executors, and to our gateway with our own. A Python takes seconds to start, so one set of stock
//! executors serves all topologies of one DocArray version, and every stock gateway is started before the first is
//! asked.

use std::fmt::Write as _;

use flow_core::{DocArrayVersion as Docs, Document, DocumentArray};
use flow_net::{Client, PostOptions};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_spec::{DocumentSource, Plan, TextFile, Variables};
use flow_tests::{DocArrayVersion, Stock, TestFlow};
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};

use crate::MARKER;

/// Every topology is made of some of these.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A graph and what is asked of it.
struct Topology {
    about: &'static str,
    /// Entries of `executors`, each a name and its options.
    nodes: &'static [(&'static str, &'static str)],
    asked: Vec<TestRequest>,
}

/// A request.
struct TestRequest {
    endpoint: &'static str,
    parameters: Value,
    target: &'static str,
    /// Where ours is to differ from the stock gateway: why, and the tag that a user expects in every document.
    differs: Option<(&'static str, &'static str)>,
}

fn ask(endpoint: &'static str) -> TestRequest {
    TestRequest {
        endpoint,
        parameters: json!({}),
        target: "",
        differs: None,
    }
}

impl TestRequest {
    fn with(self, parameters: Value) -> Self {
        Self { parameters, ..self }
    }

    fn of(self, target: &'static str) -> Self {
        Self { target, ..self }
    }

    fn unlike_jina(self, why: &'static str, tag: &'static str) -> Self {
        Self {
            differs: Some((why, tag)),
            ..self
        }
    }

    /// Four documents that differ in id, text and number.
    fn request(&self, version: Docs) -> Envelope {
        let document = |number: usize| {
            let kind = if number < 2 { "x" } else { "y" };
            let marks = json!({"number": number, "even": number.is_multiple_of(2), "kind": kind});
            let mut document = json!({"id": format!("{number:032x}"), "text": number.to_string()});
            let fields = document.as_object_mut().unwrap();
            match version {
                Docs::V1 => drop(fields.insert("tags".to_owned(), marks)),
                Docs::V2 => fields.extend(marks.as_object().unwrap().clone()),
            }
            Document::from_json(version, &document).unwrap()
        };
        let documents: DocumentArray = (0..4).map(document).collect();
        let parameters = self.parameters.as_object().unwrap();
        Envelope {
            header: Some(HeaderProto {
                request_id: flow_core::RequestId::random().into(),
                exec_endpoint: Some(self.endpoint.to_owned()),
                target_executor: (!self.target.is_empty()).then(|| self.target.to_owned()),
                ..HeaderProto::default()
            }),
            parameters: Some(flow_core::parameters::from_json(parameters)),
            data: Some(documents.encode()),
            ..Envelope::default()
        }
    }
}

/// Where branches set the same field, Jina's stock gateway takes the first reply. It is warmed by another
/// request before, and the others are late enough, so that it is the first of `needs`.
fn topologies() -> Vec<Topology> {
    [lines(), joins(), conditions()]
        .into_iter()
        .flatten()
        .collect()
}

fn topology(
    about: &'static str,
    nodes: &'static [(&'static str, &'static str)],
    asked: Vec<TestRequest>,
) -> Topology {
    Topology {
        about,
        nodes,
        asked,
    }
}

fn lines() -> Vec<Topology> {
    vec![
        topology(
            "a line",
            &[("a", ""), ("b", ""), ("c", "")],
            vec![
                ask("/mark"),
                ask("/drop"),
                ask("/results"),
                ask("/nobody"),
                ask("/fail").with(json!({"who": "b"})),
                ask("/seen").with(json!({"top_k": 3, "a__own": 1, "b": {"deep": [1, "x"]}})),
                ask("/mark").of("b"),
                ask("/mark").of("(a|c)"),
            ],
        ),
        topology(
            "a floating executor",
            &[("a", ""), ("b", "floating: true"), ("c", "")],
            vec![ask("/mark"), ask("/fail").with(json!({"who": "b"}))],
        ),
        topology(
            "an executor that nobody waits for",
            &[("a", ""), ("b", "needs: gateway"), ("c", "needs: a")],
            vec![ask("/mark")],
        ),
    ]
}

fn joins() -> Vec<Topology> {
    vec![
        topology(
            "two branches and a join",
            &[
                ("a", "needs: gateway"),
                ("b", "needs: gateway"),
                ("c", "needs: [a, b]"),
            ],
            vec![
                ask("/results"),
                ask("/tag").with(json!({"b__delay": 500})),
                ask("/fail").with(json!({"who": "b"})),
                ask("/tag")
                    .with(json!({"a__delay": 500}))
                    .unlike_jina("joins take branches in the order of `needs`", "a"),
            ],
        ),
        topology(
            "a diamond",
            &[
                ("a", ""),
                ("b", "needs: a"),
                ("c", "needs: a"),
                ("d", "needs: [b, c]"),
            ],
            vec![ask("/results"), ask("/tag").with(json!({"c__delay": 500}))],
        ),
        topology(
            "a join of all",
            &[
                ("a", "needs: gateway"),
                ("b", "needs: gateway"),
                ("c", "method: needs_all"),
            ],
            vec![ask("/results"), ask("/tag").with(json!({"b__delay": 500}))],
        ),
        topology(
            "a join of the client's own documents and a branch",
            &[("a", "needs: gateway"), ("b", "needs: [gateway, a]")],
            vec![ask("/tag")],
        ),
        topology(
            "a join that gets the parts as they are",
            &[
                ("a", "needs: gateway"),
                ("b", "needs: gateway"),
                ("c", "needs: [a, b], no_reduce: true"),
            ],
            vec![ask("/parts")],
        ),
    ]
}

fn conditions() -> Vec<Topology> {
    vec![
        topology(
            "conditions that part the documents, and a join that puts them in order again",
            &[
                ("a", "needs: gateway, when: {tags__even: {$eq: true}}"),
                ("b", "needs: gateway, when: {tags__even: {$eq: false}}"),
                ("c", "needs: [a, b]"),
            ],
            vec![ask("/mark"), ask("/tag"), ask("/results")],
        ),
        topology(
            "a condition on a line",
            &[
                ("a", ""),
                ("b", "when: {tags__number: {$gte: 2}}"),
                ("c", ""),
            ],
            vec![ask("/mark")],
        ),
        topology(
            "conditions of every kind",
            &[
                (
                    "a",
                    "needs: gateway, when: {$or: [{tags__number: {$lt: 1}}, {text: {$in: ['2']}}]}",
                ),
                (
                    "b",
                    "needs: gateway, when: {$and: [{tags__kind: {$neq: y}}, {text: {$regex: '^1'}}]}",
                ),
                (
                    "c",
                    "needs: gateway, when: {$not: {tags__number: {$lte: 2}}}",
                ),
                ("d", "needs: [a, b, c]"),
            ],
            vec![ask("/tag")],
        ),
    ]
}

impl Topology {
    /// Documents of DocArray v2 have the fields of their class, and no tags to put marks into.
    fn asked_of(&self, version: Docs) -> impl Iterator<Item = &TestRequest> {
        let needs_tags =
            |asked: &TestRequest| ["/tag", "/seen", "/parts"].contains(&asked.endpoint);
        let asked = self.asked.iter();
        asked.filter(move |asked| version == Docs::V1 || !needs_tags(asked))
    }

    /// Nodes that no reply waits for.
    fn aside(&self, version: Docs) -> Vec<String> {
        let nodes = self.plan(version).nodes.into_iter();
        let aside = nodes.filter(|node| !node.awaited);
        aside.map(|node| node.name.to_string()).collect()
    }

    fn plan(&self, version: Docs) -> Plan {
        let yaml = self.yaml(version, |_| "uses: echo".to_owned());
        let text = format!("jtype: Flow\n{yaml}");
        let path = "topology.yml".as_ref();
        let file = TextFile { path, text: &text };
        let checked = flow_spec::load(file, &Variables::default());
        Plan::from(checked.unwrap().flow)
    }

    /// Its entries, each with what says who runs it.
    fn yaml(&self, version: Docs, who: impl Fn(&str) -> String) -> String {
        let mut yaml = "executors:\n".to_owned();
        for (name, options) in self.nodes {
            let options = match version {
                Docs::V1 => (*options).to_owned(),
                Docs::V2 => options.replace("tags__", ""),
            };
            let options = if options.is_empty() {
                String::new()
            } else {
                format!(", {options}")
            };
            writeln!(yaml, "- {{name: {name}, {}{options}}}", who(name)).unwrap();
        }
        yaml
    }

    /// The arguments that tell a stock gateway the same graph.
    fn stock_arguments(&self, version: Docs, address: impl Fn(&str) -> u16) -> Vec<String> {
        let plan = self.plan(version);
        let (mut graph, mut addresses, mut conditions) = (Map::new(), Map::new(), Map::new());
        let names = |nodes: &[flow_spec::NodeIdx]| -> Vec<String> {
            nodes
                .iter()
                .map(|at| plan.node(*at).name.to_string())
                .collect()
        };
        let mut kept = Vec::new();
        graph.insert("start-gateway".to_owned(), json!(names(&plan.entry)));
        for (at, node) in plan.nodes() {
            let mut next = names(&node.children);
            if plan.exit.contains(&DocumentSource::Node(at)) {
                next.push("end-gateway".to_owned());
            }
            let name = node.name.to_string();
            addresses.insert(
                name.clone(),
                json!([format!("grpc://127.0.0.1:{}", address(&name))]),
            );
            if let Some(query) = &node.calls.when {
                conditions.insert(name.clone(), serde_json::to_value(query).unwrap());
            }
            if !node.calls.reduce {
                kept.push(name.clone());
            }
            graph.insert(name, json!(next));
        }
        let arguments = [
            ("--graph-description", json!(graph)),
            ("--deployments-addresses", json!(addresses)),
            ("--graph-conditions", json!(conditions)),
            ("--deployments-no-reduce", json!(kept)),
        ];
        arguments
            .into_iter()
            .flat_map(|(key, value)| [key.to_owned(), value.to_string()])
            .collect()
    }
}

/// What the replies say: everything but times, request ids and who was asked in which order.
async fn replies(url: &str, topology: &Topology, version: Docs) -> Vec<Value> {
    let client = Client::connect(url).await.unwrap();
    let aside = topology.aside(version);
    let mut all = Vec::new();
    for asked in topology.asked_of(version) {
        let requests = stream::iter([asked.request(version)]);
        let mut replies = client
            .post(&PostOptions::default(), requests)
            .await
            .unwrap();
        let mut reply = said(&replies.next().await.unwrap().unwrap());
        // The route of an executor that nobody waits for is in the reply if it was fast enough, and that of
        // one that has no such endpoint if the gateway had not learned so yet.
        let routes = reply["routes"].as_array_mut().unwrap();
        let is_chance =
            |name: &str| aside.iter().any(|it| it == name) || asked.endpoint == "/nobody";
        routes.retain(|route| !is_chance(route.as_str().unwrap()));
        all.push(reply);
    }
    all
}

fn said(reply: &Envelope) -> Value {
    let documents = reply
        .data
        .as_ref()
        .map(|data| DocumentArray::decode(data).unwrap());
    let documents: Vec<Value> = documents
        .iter()
        .flatten()
        .map(|doc| doc.to_json().unwrap())
        .collect();
    let status = reply
        .header
        .as_ref()
        .and_then(|header| header.status.clone())
        .unwrap_or_default();
    let mut parameters = flow_core::parameters::to_json(reply.parameters.as_ref()).unwrap();
    let results = parameters.remove("__results__").unwrap_or(json!({}));
    // Of executors that were passed by, Jina's routes have no end, and ours took no time.
    let visited = reply
        .routes
        .iter()
        .filter(|route| route.end_time.is_some() && route.end_time != route.start_time);
    let mut routes: Vec<&str> = visited.map(|route| route.executor.as_str()).collect();
    routes[1..].sort_unstable();
    // Documents of a failed request are whatever the executor had made of them by then.
    let documents = if status.code == 0 {
        documents
    } else {
        Vec::new()
    };
    json!({
        "code": status.code, "docs": documents, "results": results,
        "parameters": parameters, "routes": routes,
    })
}

fn all_have(reply: &Value, tag: &str) -> bool {
    let documents = reply["docs"].as_array().unwrap();
    documents.len() == 4 && documents.iter().all(|doc| doc["tags"].get(tag).is_some())
}

/// What is wrong with a reply of ours: it is to be as Jina's, or to differ as it is meant to.
fn fault(asked: &TestRequest, jinas: &Value, ours: &Value) -> Option<String> {
    match asked.differs {
        None if ours == jinas => None,
        None => Some(format!("jina: {jinas}\n  ours: {ours}")),
        Some((why, tag)) if !all_have(ours, tag) => Some(format!("{why}: {ours}")),
        Some((why, _)) if ours == jinas => Some(format!("no longer a difference: {why}")),
        Some(_) => None,
    }
}

async fn check(version: DocArrayVersion) {
    let docs = match version {
        DocArrayVersion::V1 => Docs::V1,
        DocArrayVersion::V2 => Docs::V2,
    };
    let Some(executors) = Stock::markers(version, &NAMES) else {
        return;
    };
    let port = |name: &str| executors[NAMES.iter().position(|it| *it == name).unwrap()].port();
    let topologies = topologies();
    let gateways = topologies
        .iter()
        .map(|it| it.stock_arguments(docs, port))
        .collect();
    let gateways = Stock::gateways(version, gateways);
    let mut faults = Vec::new();
    for (topology, gateway) in topologies.iter().zip(gateways) {
        let url = format!("grpc://127.0.0.1:{}", gateway.port());
        let jinas = replies(&url, topology, docs).await;
        let external =
            |name: &str| format!("external: true, host: 127.0.0.1, port: {}", port(name));
        let local = |name: &str| format!("uses: {MARKER}, uses_with: {{mark: {name}}}");
        for (who, yaml) in [
            ("stock executors", topology.yaml(docs, external)),
            ("our executors", topology.yaml(docs, local)),
        ] {
            let flow = TestFlow::up(&yaml);
            let ours = replies(&flow.url(), topology, docs).await;
            for ((asked, jinas), ours) in topology.asked_of(docs).zip(&jinas).zip(&ours) {
                let Some(fault) = fault(asked, jinas, ours) else {
                    continue;
                };
                let (
                    about,
                    TestRequest {
                        endpoint, target, ..
                    },
                ) = (topology.about, asked);
                faults.push(format!("{about}, {who}: {endpoint} {target}\n  {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn every_topology_replies_as_in_jina_with_documents_of_docarray_v1() {
    check(DocArrayVersion::V1).await;
}

#[tokio::test]
async fn every_topology_replies_as_in_jina_with_documents_of_docarray_v2() {
    check(DocArrayVersion::V2).await;
}
