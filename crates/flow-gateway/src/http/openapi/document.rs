//! An OpenAPI document that is being made: its paths, and the schemas and responses that they refer to.

use serde_json::{Map, Value, json};

use crate::auth::KeysFor;

/// Why a request with a wrong key, or without one, is refused.
const REFUSALS: &[Failure] = &[
    (401, "There is no valid API key"),
    (403, "The API key does not allow this"),
];

/// A status code, and when a request fails with it.
pub(super) type Failure = (u16, &'static str);

/// How requests for embeddings fail.
pub(super) const EMBEDDING_FAILURES: &[Failure] = &[
    (400, "The body is invalid"),
    (404, "There is no such model"),
    (413, "The body is too large"),
    (429, "The gateway is busy, or a limit is reached"),
    (500, "An executor failed"),
    (503, "No executor answered"),
    (504, "The deadline passed"),
];

/// How a request that only looks a model up fails.
pub(super) const NO_MODEL: &[Failure] = &[(404, "There is no such model")];

/// The paths of a document, and what they refer to.
#[derive(Debug)]
pub(super) struct Document {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    responses: Map<String, Value>,
    keys: KeysFor,
}

/// What a path answers to one method.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    described: Value,
    /// The name of the schema of its errors, and its status codes.
    failures: (&'static str, &'static [Failure]),
}

impl Document {
    pub(super) fn new(keys: KeysFor) -> Self {
        Self {
            paths: Map::new(),
            schemas: Map::new(),
            responses: Map::new(),
            keys,
        }
    }

    /// Adds an operation. One that the path has already for this method stays, as the gateway's first route wins.
    pub(super) fn add(&mut self, path: &str, method: &str, operation: Operation) {
        let Operation {
            mut described,
            failures: (error, failures),
        } = operation;
        let refusals = match self.keys.are_needed(path) {
            true => REFUSALS,
            false => &[],
        };
        for (status, about) in failures.iter().chain(refusals) {
            let response = self.failure(error, &format!("{error}{status}"), about);
            described["responses"][status.to_string()] = response;
        }
        described["responses"]["default"] = self.failure(error, error, "Any other failure");
        if self.keys != KeysFor::Nothing && refusals.is_empty() {
            described["security"] = json!([]);
        }
        let path = self.paths.entry(path).or_insert_with(|| json!({}));
        if path[method].is_null() {
            path[method] = described;
        }
    }

    /// A reference to a response of this name.
    fn failure(&mut self, error: &str, name: &str, about: &str) -> Value {
        let schema = json!({ "$ref": format!("#/components/schemas/{error}") });
        let content = json!({ "application/json": { "schema": schema } });
        let response = json!({ "description": about, "content": content });
        self.responses.entry(name).or_insert(response);
        json!({ "$ref": format!("#/components/responses/{name}") })
    }

    /// A reference to a schema of this name.
    pub(super) fn schema(&mut self, name: &str, schema: Value) -> Value {
        let mut unique = name.to_owned();
        let mut number = 1;
        while self.schemas.get(&unique).is_some_and(|it| *it != schema) {
            number += 1;
            unique = format!("{name}-{number}");
        }
        let reference = json!({ "$ref": format!("#/components/schemas/{unique}") });
        self.schemas.entry(unique).or_insert(schema);
        reference
    }

    /// The paths, and the components that they refer to.
    pub(super) fn into_parts(self) -> (Value, Value) {
        let mut components = json!({ "schemas": self.schemas, "responses": self.responses });
        if self.keys != KeysFor::Nothing {
            components["securitySchemes"] = json!({
                "bearer": { "type": "http", "scheme": "bearer" },
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key" },
            });
        }
        (Value::Object(self.paths), components)
    }
}

impl Operation {
    /// An operation of this API, which fails with errors of this schema and these status codes, and seldom with others.
    pub(super) fn new(
        api: &str,
        summary: &str,
        failures: (&'static str, &'static [Failure]),
    ) -> Self {
        Self {
            described: json!({ "tags": [api], "summary": summary, "responses": {} }),
            failures,
        }
    }

    /// Takes this JSON.
    pub(super) fn takes(self, schema: &Value) -> Self {
        self.takes_content(&json!({ "application/json": { "schema": schema } }))
    }

    /// Takes this JSON, such as the example.
    pub(super) fn takes_such_as(self, schema: &Value, example: &Value) -> Self {
        let json = json!({ "schema": schema, "example": example });
        self.takes_content(&json!({ "application/json": json }))
    }

    /// Takes a body of these types.
    pub(super) fn takes_content(mut self, content: &Value) -> Self {
        self.described["requestBody"] = json!({ "required": true, "content": content });
        self
    }

    /// A body may be left out.
    pub(super) fn takes_perhaps(self, schema: &Value) -> Self {
        let mut taken = self.takes(schema);
        taken.described["requestBody"]["required"] = json!(false);
        taken
    }

    /// A parameter of the path.
    pub(super) fn with_path_parameter(self, name: &str, schema: &Value, about: &str) -> Self {
        let required = json!({ "in": "path", "required": true });
        self.with_parameter(name, required, (schema, about))
    }

    /// A parameter of the query, which may be left out.
    pub(super) fn with_query_parameter(self, name: &str, schema: &Value, about: &str) -> Self {
        self.with_parameter(name, json!({ "in": "query" }), (schema, about))
    }

    fn with_parameter(
        mut self,
        name: &str,
        mut parameter: Value,
        (schema, about): (&Value, &str),
    ) -> Self {
        parameter["name"] = json!(name);
        parameter["schema"] = schema.clone();
        parameter["description"] = json!(about);
        match &mut self.described["parameters"] {
            Value::Array(all) => all.push(parameter),
            other => *other = json!([parameter]),
        }
        self
    }

    /// Replies with this JSON.
    pub(super) fn replies(self, schema: &Value) -> Self {
        let content = json!({ "application/json": { "schema": schema } });
        self.replies_content("The reply", &content)
    }

    /// Replies with a body of these types.
    pub(super) fn replies_content(mut self, about: &str, content: &Value) -> Self {
        self.described["responses"]["200"] = json!({ "description": about, "content": content });
        self
    }

    /// Replies without a body.
    pub(super) fn replies_nothing(mut self, about: &str) -> Self {
        self.described["responses"]["200"] = json!({ "description": about });
        self
    }

    /// A header of the reply.
    pub(super) fn with_reply_header(mut self, name: &str, schema: &Value, about: &str) -> Self {
        let header = json!({ "description": about, "schema": schema });
        self.described["responses"]["200"]["headers"][name] = header;
        self
    }
}

/// An object with these fields and no others.
pub(super) fn object(required: &[&str], fields: &Value) -> Value {
    json!({
        "type": "object",
        "properties": fields,
        "required": required,
        "additionalProperties": false,
    })
}

/// A value of this type, or null.
pub(super) fn optional(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}
