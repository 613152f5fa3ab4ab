//! What an executor runs: the forms of `uses` that flow takes, and why it does not take the others.

use std::path::Path;

use super::form::{Shape, ValueForm};
use super::scalar::{reject, text};
use crate::diagnostics::{Diagnostics, Problem};
use crate::spec::hub::{BadHubName, HubName};
use crate::spec::program::{ConfigSpec, Program};
use crate::values::{PythonSource, Uses};
use crate::yaml::{YamlContent, YamlNode, embedded};

pub(crate) const USES: ValueForm<Program> = ValueForm::new(Shape::Uses, uses);

/// The prefix of an image.
const IMAGE: &str = "docker://";

fn uses(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Program> {
    match &node.content {
        YamlContent::Mapping(_) => return config(node, diagnostics),
        YamlContent::List(_) => {
            return reject(node, "a program, a folder or a config", diagnostics);
        }
        YamlContent::Scalar(_) => {}
    }
    let text = text(node, diagnostics)?;
    if is_config(&text) {
        return config_text(node, &text, diagnostics);
    }
    if let Some(image) = text.strip_prefix(IMAGE) {
        return self::image(node, image, diagnostics);
    }
    if let Some(name) = HubName::parse(&text) {
        return hub(node, name, diagnostics);
    }
    match refusal(&text) {
        None if text == "BaseExecutor" => Some(Program::Named(Uses::pass_through())),
        None if is_path(&text) || PythonSource::of(Path::new(&text)).is_some() => {
            Some(Program::Named(Uses::Path(text.into())))
        }
        None => Some(Program::Named(Uses::Named(text))),
        Some((why, remedy)) => {
            let message = format!("`{text}` {why}");
            diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
            None
        }
    }
}

/// An image, as an engine would take its name.
fn image(node: &YamlNode, image: &str, diagnostics: &mut Diagnostics) -> Option<Program> {
    let is_upper = |part: &str| part.contains(char::is_uppercase);
    let (name, _) = image.split_once('@').unwrap_or((image, ""));
    let repository = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    };
    let path = repository
        .split_once('/')
        .map_or(repository, |(_, path)| path);
    let problem = if repository.is_empty() || image.contains(char::is_whitespace) {
        let message = format!("`{IMAGE}{image}` names no image");
        Problem::new(&node.span, message).remedy("write `docker://image` or `docker://image:tag`")
    } else if is_upper(path) {
        let meant = format!("{IMAGE}{}", image.replacen(path, &path.to_lowercase(), 1));
        let message = format!("names of images are in lower-case letters, and `{path}` is not");
        Problem::new(&node.span, message).suggest(Some(&meant))
    } else {
        return Some(Program::Named(Uses::Image(image.to_owned())));
    };
    diagnostics.problem(problem);
    None
}

/// An executor by name. Which image that is, the whole file says.
fn hub(
    node: &YamlNode,
    name: Result<HubName, BadHubName>,
    diagnostics: &mut Diagnostics,
) -> Option<Program> {
    match name {
        Ok(name) => Some(Program::Hub(name)),
        Err(error) => {
            diagnostics.problem(Problem::new(&node.span, error.to_string()));
            None
        }
    }
}

fn config(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Program> {
    let config = ConfigSpec::read(node, diagnostics);
    Some(Program::Config(Box::new(config)))
}

/// Whether a text holds a config and is no name of anything.
fn is_config(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(['!', '{']) || text.starts_with("jtype") || text.contains('\n')
}

/// A config as a text of YAML or JSON. `!Encoder | {a: 1}` is short for its `with`, as in Jina.
fn config_text(node: &YamlNode, text: &str, diagnostics: &mut Diagnostics) -> Option<Program> {
    let text = match text.split_once('|') {
        Some((jtype, with)) if !text.contains('\n') => format!("{jtype}\nwith: {with}"),
        _ => text.to_owned(),
    };
    match embedded(&text, &node.span) {
        Ok(node) => config(&node, diagnostics),
        Err(error) => {
            let message = format!(
                "is an executor's config that is not valid YAML: {}",
                error.message
            );
            diagnostics.problem(Problem::new(&node.span, message));
            None
        }
    }
}

fn is_path(text: &str) -> bool {
    let is_config = [".yml", ".yaml", ".json"]
        .iter()
        .any(|end| text.ends_with(end));
    text.contains('/') || is_config
}

/// Why flow cannot run it, and what to do instead.
fn refusal(text: &str) -> Option<(&'static str, &'static str)> {
    const INSTEAD: &str = "name a program or a folder";
    text.contains("://")
        .then_some(("is a URL, and flow does not download executors", INSTEAD))
}
