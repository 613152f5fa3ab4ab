//! A JSON Schema of flow files, for editors, made from the tables of keys.
//!
//! A schema says less than `flow check`: it knows keys, shapes and words, but not what the rest of the file says.

use serde_json::{Map, Value, json};

use super::key::{Key, KeySupport};
use super::mappings::MAPPINGS;
use super::section::Mapping;
use super::tables::top::TOP;
use crate::forms::{KWARGS, KwargKind, Shape};
use crate::values::GatewayKind;

/// Comparisons of `when`, each with what it is compared with.
const COMPARISONS: &[(&str, &str)] = &[
    ("$eq", "any"),
    ("$neq", "any"),
    ("$gt", "any"),
    ("$gte", "any"),
    ("$lt", "any"),
    ("$lte", "any"),
    ("$in", "list"),
    ("$nin", "list"),
    ("$regex", "text"),
    ("$size", "number"),
    ("$exists", "flag"),
];

/// A JSON Schema, draft 2020-12, of flow files, Deployments, and configs of executors and gateways.
#[must_use]
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    for (name, keys) in MAPPINGS {
        definitions.insert(name.to_owned(), mapping(keys));
    }
    definitions.insert("query".to_owned(), query());
    definitions.insert("reference".to_owned(), reference());
    definitions.insert("entry".to_owned(), entry());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "flow",
        "description": "A flow file, a Deployment, or the config of an executor or a gateway.",
        "type": "object",
        "if": says(TOP.jtype.name(), json!({"const": "Deployment"})),
        "then": refer("deployment"),
        "else": {
            "if": says(TOP.jtype.name(), json!({"enum": GatewayKind::NAMES.map(|(name, _)| name)})),
            "then": refer("gateway_config"),
            "else": {
                "if": says(TOP.jtype.name(), json!({"not": {"const": "Flow"}})),
                "then": refer("executor_config"),
                // Also a file that does not say what it is: most probably a flow.
                "else": refer("flow"),
            },
        },
        "$defs": definitions,
    })
}

fn refer(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// Holds this key, with such a value.
#[expect(
    clippy::needless_pass_by_value,
    reason = "`json!` reads best where it is made"
)]
fn says(key: &str, value: Value) -> Value {
    json!({"required": [key], "properties": {key: value}})
}

fn mapping(keys: &Mapping) -> Value {
    let mut properties = Map::new();
    for key in keys.keys() {
        for alias in key.names().skip(1) {
            let mut same = property(key);
            same["description"] = format!("The same as `{}`.", key.name).into();
            properties.entry(alias).or_insert(same);
        }
        properties.entry(key.name).or_insert_with(|| property(key));
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn property(key: &Key) -> Value {
    match key.state {
        KeySupport::Supported(shape, about) => {
            json!({"description": about, "anyOf": [form(shape), {"type": "null"}]})
        }
        KeySupport::NotYet => harmless_only(key, "Of Jina's; flow does not support it yet."),
        KeySupport::Refused(why) => harmless_only(key, &format!("Not supported: {why}.")),
        KeySupport::WithoutEffect(why) => {
            json!({"description": format!("Has no effect: {why}."), "deprecated": true})
        }
    }
}

/// Allows only values that ask for nothing beyond what flow does anyway.
fn harmless_only(key: &Key, about: &str) -> Value {
    let mut values = vec![json!(null), json!(""), json!([]), json!({})];
    for text in key.harmless {
        values.extend(serde_json::from_str::<Value>(text));
        values.extend(cases(text));
    }
    values.dedup();
    json!({"description": about, "deprecated": true, "enum": unique(values)})
}

fn unique(values: Vec<Value>) -> Vec<Value> {
    let mut kept = Vec::new();
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

/// A word as it may be written.
fn cases(word: &str) -> impl Iterator<Item = Value> {
    let cases = [word.to_owned(), word.to_lowercase(), word.to_uppercase()];
    cases.into_iter().map(Value::from)
}

/// A value may be written as a reference, whose value is known only when the file is read.
#[expect(
    clippy::needless_pass_by_value,
    reason = "`json!` reads best where it is made"
)]
fn or_reference(value: Value) -> Value {
    json!({"anyOf": [value, refer("reference")]})
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`json!` reads best where it is made"
)]
fn one_or_list(value: Value) -> Value {
    json!({"anyOf": [value, {"type": "array", "items": value}, refer("reference")]})
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`json!` reads best where it is made"
)]
fn or_json_text(value: Value) -> Value {
    json!({"anyOf": [value, {"type": "string", "pattern": r"^\s*\{"}, refer("reference")]})
}

fn form(shape: Shape) -> Value {
    let text = json!({"type": "string", "minLength": 1});
    match shape {
        Shape::Text => text,
        Shape::Texts => json!({"anyOf": [text, {"type": "array", "items": text}]}),
        Shape::Name => or_reference(json!({
            "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,62}$",
        })),
        Shape::Flag => or_reference(flag()),
        Shape::FlagOr(word) => json!({"anyOf": [or_reference(flag()), {"const": word}]}),
        Shape::Origins => {
            let origin = json!({"type": "string", "pattern": r"^(\*|[a-z]+://[^/]+)$"});
            json!({"anyOf": [or_reference(flag()), one_or_list(origin)]})
        }
        Shape::Variables => {
            let name = json!({"type": "string", "pattern": r"^[A-Za-z0-9_]+\*?$"});
            json!({"anyOf": [or_reference(flag()), one_or_list(name)]})
        }
        Shape::Count => or_reference(integer(1)),
        Shape::Window => or_reference(integer(0)),
        Shape::Workers => or_reference(json!({
            "anyOf": [integer(1), {"enum": ["auto", "AUTO"]}],
        })),
        Shape::Retries => or_reference(integer(-1)),
        Shape::Time => json!({"anyOf": [{"type": "integer", "minimum": -1}, text]}),
        Shape::Hedge => json!({"anyOf": [{"type": "integer", "minimum": 1}, text]}),
        Shape::Ports => one_or_list(json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 65535},
            {"type": "string", "pattern": r"^\s*\d{1,5}\s*$"},
        ]})),
        Shape::Word(words) => or_reference(word(words)),
        Shape::Words(words) => one_or_list(word(words)),
        Shape::Version => json!({"enum": [1, "1", "1.0"]}),
        Shape::Mapping => or_json_text(json!({"type": "object"})),
        Shape::Values => json!({
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        }),
        Shape::Requests => json!({
            "type": "object", "propertyNames": {"pattern": "^/"}, "additionalProperties": text,
        }),
        Shape::Batching => or_json_text(json!({
            "type": "object", "additionalProperties": refer("batching_rule"),
        })),
        Shape::Bytes => json!({"anyOf": [{"type": "integer", "minimum": 1}, text]}),
        Shape::Cpus => json!({"anyOf": [{"type": "number", "minimum": 0.01}, text]}),
        Shape::Sandbox => or_json_text(refer("sandbox")),
        Shape::Polling => or_json_text(polling()),
        Shape::Query => or_json_text(refer("query")),
        Shape::Gpus => json!({"anyOf": [text, {"type": "integer", "minimum": 1}]}),
        Shape::Docker => or_json_text(docker()),
        Shape::Volumes => one_or_list(json!({"anyOf": [text, mount()]})),
        Shape::Uses => json!({"anyOf": [text, refer("executor_config")]}),
        Shape::With => refer("with"),
        Shape::Gateway => refer("gateway"),
        Shape::Executors => json!({"type": "array", "items": refer("entry")}),
        Shape::DeploymentOptions => refer("deployment_with"),
    }
}

/// `true` or `false`, also as a text.
fn flag() -> Value {
    json!({"anyOf": [{"type": "boolean"}, word(&["true", "True", "false", "False"])]})
}

/// A whole number, also as a text.
fn integer(min: i64) -> Value {
    let sign = if min < 0 { "(-1|" } else { "(" };
    json!({"anyOf": [
        {"type": "integer", "minimum": min},
        {"type": "string", "pattern": format!(r"^\s*{sign}\d+)\s*$")},
    ]})
}

/// What `docker_kwargs` may hold.
fn docker() -> Value {
    let properties = KWARGS.iter().map(|kwarg| {
        let form = match kwarg.kind {
            KwargKind::Text => json!({"type": ["string", "number", "null"]}),
            KwargKind::Number => json!({"type": ["integer", "null"]}),
            KwargKind::Bytes => json!({"type": ["integer", "string", "null"]}),
            KwargKind::Flag => json!({"type": ["boolean", "null"]}),
            KwargKind::Texts | KwargKind::Devices => json!({"type": ["array", "string", "null"]}),
            KwargKind::Pairs | KwargKind::Hosts => {
                json!({"type": ["object", "array", "string", "null"]})
            }
            KwargKind::Ulimits => json!({"type": ["array", "object", "null"]}),
            KwargKind::LogConfig => json!({"type": ["object", "null"]}),
        };
        (kwarg.name.to_owned(), or_reference(form))
    });
    let properties: Map<String, Value> = properties.collect();
    json!({"type": "object", "properties": properties})
}

/// A volume as Compose writes it at length.
fn mount() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    json!({
        "type": "object",
        "properties": {
            "type": or_reference(word(&["volume", "bind"])),
            "source": text,
            "target": text,
            "read_only": or_reference(json!({"type": "boolean"})),
        },
        "required": ["type", "source", "target"],
        "additionalProperties": false,
    })
}

fn word(words: &[&str]) -> Value {
    let written = words.iter().flat_map(|word| cases(word)).collect();
    json!({"enum": unique(written)})
}

fn polling() -> Value {
    let poll = or_reference(word(&["ANY", "ALL"]));
    let by_endpoint = json!({
        "type": "object", "propertyNames": {"pattern": r"^(/|\*$)"}, "additionalProperties": poll,
    });
    json!({"anyOf": [poll, by_endpoint]})
}

fn reference() -> Value {
    json!({
        "description": "A value from elsewhere, as in `${{ ENV.NAME }}`, `${{root.a.b}}` or `$NAME`.",
        "type": "string",
        "pattern": r"\$",
    })
}

/// An entry of `executors`.
fn entry() -> Value {
    json!({
        "if": {"type": "object", "required": ["jtype"]},
        "then": refer("deployment"),
        "else": {
            "anyOf": [
                {"description": "Path of a Deployment's file.", "type": "string", "minLength": 1},
                refer("executor"),
            ],
        },
    })
}

fn query() -> Value {
    let list = json!({"type": "array", "items": refer("query")});
    let mut comparisons = Map::new();
    for (operator, with) in COMPARISONS {
        let value = match *with {
            "list" => json!({"anyOf": [{"type": "array"}, {"type": "string"}]}),
            "text" => json!({"type": "string"}),
            "number" => json!({"type": "integer", "minimum": 0}),
            "flag" => json!({"type": "boolean"}),
            _ => json!(true),
        };
        comparisons.insert((*operator).to_owned(), value);
    }
    json!({
        "description": "A condition on documents in DocArray's query language.",
        "type": "object",
        "properties": {"$and": list, "$or": list, "$not": refer("query")},
        "patternProperties": {
            "^[^$]": {
                "type": "object", "properties": comparisons, "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests;
