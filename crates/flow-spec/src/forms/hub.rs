//! The registry in which executors are looked up by name.

use super::form::{Shape, ValueForm};
use super::scalar::text;
use crate::diagnostics::{Diagnostics, Problem};
use crate::spec::hub::Hub;
use crate::yaml::YamlNode;

pub(crate) const HUB: ValueForm<Hub> = ValueForm::new(Shape::Text, hub);

fn hub(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Hub> {
    let text = text(node, diagnostics)?;
    match Hub::parse(&text) {
        Ok(hub) => Some(hub),
        Err(error) => {
            diagnostics.problem(Problem::new(&node.span, error.to_string()));
            None
        }
    }
}
