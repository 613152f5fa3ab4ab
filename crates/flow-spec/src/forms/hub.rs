//! The registry in which executors are looked up by name.

use super::form::{Form, Shape};
use super::scalar::text;
use crate::diagnostics::{Diagnostics, Problem};
use crate::spec::hub::Hub;
use crate::yaml::Node;

pub(crate) const HUB: Form<Hub> = Form::new(Shape::Text, hub);

fn hub(node: &Node, diagnostics: &mut Diagnostics) -> Option<Hub> {
    let text = text(node, diagnostics)?;
    match Hub::parse(&text) {
        Ok(hub) => Some(hub),
        Err(error) => {
            diagnostics.problem(Problem::new(&node.span, error.to_string()));
            None
        }
    }
}
