//! The gateway that `uses` of the gateway names.

use flow_core::closest;

use super::form::{Form, Shape};
use super::scalar::text;
use crate::diagnostics::{Diagnostics, Problem};
use crate::yaml::Node;

pub(crate) const GATEWAY_USES: Form<()> = Form::new(Shape::Text, uses);
pub(crate) const JTYPE_GATEWAY: Form<()> = Form::new(Shape::Word(&[GRPC_GATEWAY]), uses);

const GRPC_GATEWAY: &str = "GRPCGateway";

/// Checks which gateway is named. A path was replaced with the content of its file before.
fn uses(node: &Node, diagnostics: &mut Diagnostics) -> Option<()> {
    let text = text(node, diagnostics)?;
    let problem = match text.as_str() {
        GRPC_GATEWAY => return Some(()),
        "HTTPGateway" | "WebSocketGateway" | "CompositeGateway" => {
            let message = format!("`{text}` is a gateway of Jina's that flow does not have yet");
            Problem::new(&node.span, message).remedy(format!("write `{GRPC_GATEWAY}`"))
        }
        _ if text.contains("://") => {
            let message =
                format!("`{text}` is no gateway of flow's, which starts no containers for it");
            Problem::new(&node.span, message).remedy(format!("write `{GRPC_GATEWAY}`"))
        }
        _ => {
            let message = format!("`{text}` is no gateway of flow's, and flow runs no Python");
            let problem = Problem::new(&node.span, message);
            match closest(&text, [GRPC_GATEWAY]) {
                Some(meant) => problem.suggest(Some(meant)),
                None => problem.remedy(format!("write `{GRPC_GATEWAY}`, or leave it out")),
            }
        }
    };
    diagnostics.problem(problem);
    None
}
