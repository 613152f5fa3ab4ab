//! The gateway that `uses` names, and the forms of its own options.

use std::str::FromStr;

use flow_core::{Endpoint, closest};
use indexmap::IndexMap;

use super::form::{Shape, ValueForm};
use super::scalar::{entries, flag, list, mapping, reject, text};
use crate::diagnostics::{Diagnostics, Problem};
use crate::values::{Console, Cors, ExposedEndpoint, GatewayKind};
use crate::yaml::{Resolved, YamlContent, YamlEntry, YamlNode};

pub(crate) const GATEWAY_USES: ValueForm<GatewayKind> = ValueForm::new(Shape::Text, uses);
pub(crate) const JTYPE_GATEWAY: ValueForm<GatewayKind> = ValueForm::new(
    Shape::Word(&[
        GRPC_GATEWAY,
        "HTTPGateway",
        "WebSocketGateway",
        "CompositeGateway",
    ]),
    uses,
);
pub(crate) const CORS: ValueForm<Cors> = ValueForm::new(Shape::Origins, cors);
pub(crate) const CONSOLE: ValueForm<Console> = ValueForm::new(Shape::FlagOr(READ_ONLY), console);
pub(crate) const EXPOSED: ValueForm<IndexMap<String, ExposedEndpoint>> =
    ValueForm::new(Shape::Mapping, exposed);

const GRPC_GATEWAY: &str = "GRPCGateway";

/// What to do instead of a gateway of one's own, which mostly has routes that call endpoints.
pub(crate) const INSTEAD: &str = "leave it out, put its code into an executor, and give the executor's endpoints routes: \
    `expose_endpoints: {/search: {http_path: /find, methods: [GET, POST]}}`";

/// A console without actions.
const READ_ONLY: &str = "read-only";

/// The methods that `expose_endpoints` may name.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "PATCH"];

/// Checks which gateway is named. A path was replaced with the content of its file before.
fn uses(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<GatewayKind> {
    let text = text(node, diagnostics)?;
    let known = GatewayKind::NAMES.iter().find(|(name, _)| *name == text);
    if let Some((_, kind)) = known {
        return Some(*kind);
    }
    let message = format!("`{text}` is not a gateway of flow, and gateways of your own do not run");
    let problem = Problem::new(&node.span, message);
    let meant = closest(&text, GatewayKind::NAMES.map(|(name, _)| name));
    diagnostics.problem(match meant {
        Some(meant) => problem.suggest(Some(meant)),
        None => problem.remedy(INSTEAD),
    });
    None
}

/// `true`, `false`, or the origins that may call.
fn cors(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Cors> {
    let is_origin = match &node.content {
        YamlContent::Scalar(scalar) => {
            matches!(scalar.resolve(), Resolved::Text(text) if text.contains("://"))
        }
        YamlContent::List(_) | YamlContent::Mapping(_) => true,
    };
    if !is_origin {
        let is_on = flag(node, diagnostics)?;
        return Some(if is_on { Cors::Any } else { Cors::Off });
    }
    let origins = list(node, diagnostics, origin);
    let origins: Vec<String> = origins.into_iter().map(|it| it.value).collect();
    let any = origins.iter().any(|it| it == "*");
    Some(if any {
        Cors::Any
    } else {
        Cors::Origins(origins)
    })
}

/// `true`, `false`, or `read-only`.
fn console(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Console> {
    let resolved = match &node.content {
        YamlContent::Scalar(scalar) => Some(scalar.resolve()),
        YamlContent::List(_) | YamlContent::Mapping(_) => None,
    };
    let text = match resolved {
        Some(Resolved::Bool(true)) => return Some(Console::On),
        Some(Resolved::Bool(false)) => return Some(Console::Off),
        Some(Resolved::Text(text)) => text.trim().to_ascii_lowercase().replace('_', "-"),
        _ => String::new(),
    };
    match text.as_str() {
        "true" => Some(Console::On),
        "false" => Some(Console::Off),
        READ_ONLY => Some(Console::ReadOnly),
        _ => reject(node, "`true`, `false` or `read-only`", diagnostics),
    }
}

fn origin(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    let text = text(node, diagnostics)?;
    let rest = text.split_once("://").map(|(_, rest)| rest);
    match rest {
        _ if text == "*" => Some(text),
        Some(host) if !host.is_empty() && !host.contains('/') => Some(text),
        _ => reject(node, "an origin such as `https://example.com`", diagnostics),
    }
}

/// Endpoint → the route that calls it.
fn exposed(
    node: &YamlNode,
    diagnostics: &mut Diagnostics,
) -> Option<IndexMap<String, ExposedEndpoint>> {
    let node = mapping(node, diagnostics)?;
    let entries = entries(&node, diagnostics)?;
    let exposed = entries.iter();
    Some(exposed.filter_map(|it| endpoint(it, diagnostics)).collect())
}

fn endpoint(entry: &YamlEntry, diagnostics: &mut Diagnostics) -> Option<(String, ExposedEndpoint)> {
    if let Err(error) = Endpoint::from_str(&entry.key) {
        let problem = Problem::new(&entry.span, error.to_string());
        diagnostics.problem(problem.suggest(Some(&format!("/{}", entry.key))));
        return None;
    }
    let mut exposed = ExposedEndpoint {
        path: entry.key.clone(),
        methods: vec!["POST".to_owned()],
        summary: None,
    };
    if entry.value.is_null() {
        return Some((entry.key.clone(), exposed));
    }
    for option in entries(&entry.value, diagnostics)? {
        match option.key.as_str() {
            "methods" => {
                let methods = list(&option.value, diagnostics, method);
                exposed.methods = methods.into_iter().map(|it| it.value).collect();
            }
            "http_path" => exposed.path = path(&option.value, diagnostics)?,
            "summary" | "description" => exposed.summary = text(&option.value, diagnostics),
            "tags" | "name" | "response_model" | "operation_id" | "deprecated" => {}
            other => {
                let known = closest(other, ["methods", "http_path", "summary", "tags"]);
                let message = format!("`{other}` is not an option of an exposed endpoint");
                diagnostics.problem(Problem::new(&option.span, message).suggest(known));
            }
        }
    }
    Some((entry.key.clone(), exposed))
}

fn path(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    let text = text(node, diagnostics)?;
    let is_plain = text.starts_with('/') && !text.contains(['{', '}', '*', '?', '#']);
    match is_plain {
        true => Some(text),
        false => reject(node, "a path such as `/search`", diagnostics),
    }
}

fn method(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    let text = text(node, diagnostics)?.to_ascii_uppercase();
    match METHODS.contains(&text.as_str()) {
        true => Some(text),
        false => reject(
            node,
            "`GET`, `POST`, `PUT`, `DELETE` or `PATCH`",
            diagnostics,
        ),
    }
}
