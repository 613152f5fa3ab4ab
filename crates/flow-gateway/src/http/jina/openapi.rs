//! The OpenAPI document: the routes, and the schemas of the documents that executors take and return.
//!
//! Stock clients read the list of its paths to choose a route, so it lists what executors offer, and no more.

use flow_core::Endpoint;
use flow_spec::HttpOptions;
use serde_json::{Map, Value, json};

use super::route::{CRUD, POST};
use crate::discovery::Offered;

/// Version of OpenAPI.
const OPENAPI: &str = "3.1.0";

/// The document.
pub(super) fn document(options: &HttpOptions, offered: &Offered) -> Value {
    let mut info = json!({
        "title": options.title.as_deref().unwrap_or("flow"),
        "version": env!("CARGO_PKG_VERSION"),
    });
    if let Some(description) = &options.description {
        info["description"] = json!(description);
    }
    let mut document = Document::default();
    document.fixed(options);
    document.endpoints(offered);
    json!({
        "openapi": OPENAPI,
        "info": info,
        "paths": document.paths,
        "components": { "schemas": document.schemas },
    })
}

#[derive(Default)]
struct Document {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl Document {
    /// The routes that do not depend on the executors.
    fn fixed(&mut self, options: &HttpOptions) {
        let request = self.schema("JinaRequest", v1_request());
        let reply = self.schema("JinaResponse", v1_reply());
        let call = |summary: &str| operation(summary, Some(&request), &reply);
        self.add("/", "get", read("Health of the service"));
        if !options.no_debug_endpoints {
            self.add(
                "/status",
                "get",
                read("Versions of the program and the machine"),
            );
            self.add("/dry_run", "get", read("Whether the whole flow works"));
            self.add(POST, "post", call("Calls the endpoint that the body names"));
        }
        if !options.no_crud_endpoints {
            for (method, path) in &CRUD {
                let method = method.as_str().to_lowercase();
                self.add(path, &method, call(&format!("Calls `{path}`")));
            }
        }
        for (endpoint, exposed) in &options.exposed {
            let summary = format!("Calls `{endpoint}`");
            let summary = exposed.summary.as_deref().unwrap_or(&summary);
            for method in &exposed.methods {
                self.add(&exposed.path, &method.to_lowercase(), call(summary));
            }
        }
    }

    /// A route for each endpoint of the executors.
    fn endpoints(&mut self, offered: &Offered) {
        let combined = offered.combined();
        let schemas = combined.schemas.map(flow_core::from_struct);
        let schemas = schemas.unwrap_or_default();
        for endpoint in &combined.endpoints {
            if endpoint == Endpoint::DRY_RUN || !endpoint.starts_with('/') {
                continue;
            }
            let empty = Value::Null;
            let schema = schemas.get(endpoint).unwrap_or(&empty);
            let input = self.model(&schema["input"]);
            let output = self.model(&schema["output"]);
            let parameters = match &schema["parameters"]["model"] {
                Value::Null => json!({ "type": ["object", "null"] }),
                _ => self.model(&schema["parameters"]),
            };
            let summary = format!("Calls `{endpoint}`");
            if offered.is_generator(endpoint) {
                self.add(endpoint, "get", events(&summary, &input));
            } else if self
                .paths
                .get(endpoint)
                .is_none_or(|it| it["post"].is_null())
            {
                let request = v2_request(&input, &parameters);
                self.add(
                    endpoint,
                    "post",
                    operation(&summary, Some(&request), &v2_reply(&output)),
                );
            }
        }
    }

    fn add(&mut self, path: &str, method: &str, operation: Value) {
        let path = self.paths.entry(path).or_insert_with(|| json!({}));
        path[method] = operation;
    }

    /// A reference to a schema of this name.
    fn schema(&mut self, name: &str, schema: Value) -> Value {
        self.schemas.entry(name).or_insert(schema);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// The schema of documents or parameters that an executor describes with a name and a JSON schema. Definitions within
    /// the schema become schemas of the document.
    fn model(&mut self, described: &Value) -> Value {
        let Value::Object(model) = &described["model"] else {
            return json!({ "type": "object" });
        };
        let mut model = Value::Object(model.clone());
        for key in ["definitions", "$defs"] {
            let definitions = model.as_object_mut().and_then(|it| it.remove(key));
            for (name, definition) in definitions.iter().filter_map(Value::as_object).flatten() {
                self.schema(name, with_references(definition));
            }
        }
        match described["name"].as_str() {
            Some(name) => self.schema(name, with_references(&model)),
            None => with_references(&model),
        }
    }
}

/// The schema, whose references name schemas of the document.
fn with_references(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| match (name.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        let last = target.rsplit('/').next().unwrap_or(target);
                        let target = format!("#/components/schemas/{last}");
                        (name.clone(), Value::String(target))
                    }
                    _ => (name.clone(), with_references(value)),
                });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(with_references).collect(),
        other => other.clone(),
    }
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn read(summary: &str) -> Value {
    operation(summary, None, &json!({ "type": "object" }))
}

fn operation(summary: &str, request: Option<&Value>, reply: &Value) -> Value {
    let mut operation = json!({
        "summary": summary,
        "responses": {
            "200": { "description": "The reply", "content": content(reply) },
            "default": { "description": "A failure", "content": content(&failure()) },
        },
    });
    if let Some(request) = request {
        operation["requestBody"] = json!({ "content": content(request), "required": true });
    }
    operation
}

/// An endpoint that streams documents.
fn events(summary: &str, input: &Value) -> Value {
    let stream = json!({ "text/event-stream": { "schema": { "type": "string" } } });
    json!({
        "summary": summary,
        "requestBody": { "content": content(input) },
        "responses": {
            "200": { "description": "A document for each event", "content": stream },
            "default": { "description": "A failure", "content": content(&failure()) },
        },
    })
}

fn failure() -> Value {
    json!({ "type": "object", "properties": { "detail": {} } })
}

fn v1_request() -> Value {
    let document = json!({ "type": "object" });
    json!({
        "type": "object",
        "properties": {
            "data": { "anyOf": [
                { "type": "array", "items": document },
                { "type": "object" },
                { "type": "null" },
            ] },
            "execEndpoint": { "type": "string", "default": "/" },
            "targetExecutor": { "type": ["string", "null"] },
            "parameters": { "type": ["object", "null"] },
        },
    })
}

fn v1_reply() -> Value {
    json!({
        "type": "object",
        "properties": {
            "header": { "type": "object" },
            "parameters": { "type": "object" },
            "routes": { "type": "array", "items": { "type": "object" } },
            "data": { "type": "array", "items": { "type": "object" } },
        },
    })
}

fn v2_request(input: &Value, parameters: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": { "anyOf": [{ "type": "array", "items": input }, input] },
            "parameters": parameters,
            "header": {
                "type": ["object", "null"],
                "properties": {
                    "requestId": { "type": ["string", "null"] },
                    "targetExecutor": { "type": ["string", "null"] },
                },
            },
        },
    })
}

fn v2_reply(output: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": { "type": "array", "items": output },
            "parameters": { "type": "object" },
            "header": { "type": "object" },
        },
    })
}

#[cfg(test)]
mod tests {
    use flow_core::to_struct;
    use flow_proto::jina::EndpointsProto;

    use super::*;

    fn offered(schemas: &Value) -> Offered {
        let schemas = schemas.as_object().unwrap();
        Offered::answered(vec![EndpointsProto {
            endpoints: schemas.keys().cloned().collect(),
            schemas: Some(to_struct(schemas)),
            ..EndpointsProto::default()
        }])
    }

    #[test]
    fn each_endpoint_has_a_path_and_its_classes_are_schemas() {
        let model = json!({
            "properties": {"parts": {"items": {"$ref": "#/definitions/Part"}}},
            "definitions": {"Part": {"type": "object"}},
        });
        let class = json!({"name": "MyDoc", "model": model});
        let offered = offered(&json!({
            "/encode": {"input": class, "output": class, "is_generator": false},
            "/write": {"input": class, "output": class, "is_generator": true},
            "_jina_dry_run_": {},
        }));
        let document = document(&HttpOptions::default(), &offered);
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["Part"], json!({"type": "object"}));
        assert_eq!(
            schemas["MyDoc"]["properties"]["parts"]["items"]["$ref"],
            "#/components/schemas/Part"
        );
        let paths = &document["paths"];
        assert!(paths["/encode"]["post"].is_object());
        assert!(paths["/write"]["get"].is_object() && paths["/write"]["post"].is_null());
        assert!(paths["/post"]["post"].is_object() && paths["/delete"]["delete"].is_object());
        assert!(
            paths
                .as_object()
                .unwrap()
                .keys()
                .all(|it| it.starts_with('/'))
        );
    }

    #[test]
    fn routes_that_are_left_out_are_not_listed() {
        let options = HttpOptions {
            no_debug_endpoints: true,
            no_crud_endpoints: true,
            title: Some("Search".to_owned()),
            ..HttpOptions::default()
        };
        let document = document(&options, &offered(&json!({})));
        assert_eq!(document["info"]["title"], "Search");
        assert_eq!(document["paths"].as_object().unwrap().len(), 1);
    }
}
