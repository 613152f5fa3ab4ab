//! Replaces `${{ ENV.X }}`, `$X`, `${{ x }}`, `${{root.a.b}}` and `${{this.x}}` with their values.
//!
//! The environment and the context are arguments. A reference that has no value stays as it is and is reported: as a
//! problem in the `${{ }}` form, which has no other meaning, and as a warning in the old `$X` form, which may be a
//! text with a dollar sign.

mod reference;

use std::cell::Cell;
use std::collections::HashMap;

use flow_core::closest;
use serde_json::{Map, Value};

use super::scalar::{Resolved, Scalar};
use super::tree::{PATH_BYTES_MAX, PATHS_TOO_LONG, YamlContent, YamlEntry, YamlNode};
use crate::diagnostics::{Diagnostics, Position, Problem, SourceSpan};
use crate::keys::INHERITED;
use reference::{Piece, Reference, pieces};

/// A reference may lead to a reference, which may lead to one more, as in Jina.
const PASSES: usize = 3;
/// Longest text that replacing may make, so that references to references cannot fill the memory.
const TEXT_LEN_MAX: usize = 1 << 20;
/// More bytes than the paths of a tree may have.
const PATH_BYTES_TOO_MANY: usize = PATH_BYTES_MAX + 1;
/// Most bytes that all references of a file together may stand for. Each of them alone may be a text of the longest length.
const EXPANDED_BYTES_MAX: usize = 16 << 20;

/// What the references of a file may name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Variables {
    /// Environment variables, for `${{ ENV.X }}` and `$X`.
    pub env: HashMap<String, String>,
    /// Values of the caller's own, for `${{ x }}` and `${{ CONTEXT.x }}`.
    pub context: Map<String, Value>,
}

pub(crate) fn substitute(
    mut root: YamlNode,
    variables: &Variables,
    diagnostics: &mut Diagnostics,
) -> YamlNode {
    let room = Cell::new(EXPANDED_BYTES_MAX);
    for _ in 0..PASSES {
        root = Scope::new(&root, variables, &room).expand(&root);
    }
    let too_long = match (room.get(), root.path_bytes(0)) {
        (0, _) => Some(format!(
            "its references stand for more than {} MiB in all",
            EXPANDED_BYTES_MAX >> 20
        )),
        (_, PATH_BYTES_TOO_MANY..) => Some(PATHS_TOO_LONG.to_owned()),
        _ => None,
    };
    if let Some(message) = too_long {
        diagnostics.problem(Problem::new(&root.span, message));
        return root;
    }
    root.locate("");
    Scope::new(&root, variables, &room).report_leftovers(&root, diagnostics);
    root
}

#[derive(Clone, Copy)]
struct Scope<'a> {
    root: &'a YamlNode,
    /// The mapping around the value: what `this` means.
    this: Option<&'a YamlNode>,
    variables: &'a Variables,
    /// Bytes that references may still stand for. With none left, they stay as they are.
    room: &'a Cell<usize>,
}

impl<'a> Scope<'a> {
    fn new(root: &'a YamlNode, variables: &'a Variables, room: &'a Cell<usize>) -> Self {
        Self {
            root,
            this: None,
            variables,
            room,
        }
    }

    fn expand(self, node: &'a YamlNode) -> YamlNode {
        let content = match &node.content {
            YamlContent::Scalar(scalar) => self.expand_scalar(scalar, node.span.position),
            YamlContent::List(items) => {
                YamlContent::List(items.iter().map(|item| self.expand(item)).collect())
            }
            YamlContent::Mapping(entries) => {
                let scope = Self {
                    this: Some(node),
                    ..self
                };
                let expand = |it: &'a YamlEntry| YamlEntry {
                    key: it.key.clone(),
                    span: it.span.clone(),
                    value: scope.expand(&it.value),
                };
                YamlContent::Mapping(entries.iter().map(expand).collect())
            }
        };
        YamlNode {
            span: node.span.clone(),
            tag: node.tag.clone(),
            content,
        }
    }

    fn expand_scalar(self, scalar: &Scalar, at: Position) -> YamlContent {
        if self.room.get() == 0 {
            return YamlContent::Scalar(scalar.clone());
        }
        match self.expand_text(&scalar.text) {
            Some(text) if self.take_room(&text) => cast(&text, at),
            _ => YamlContent::Scalar(scalar.clone()),
        }
    }

    /// Whether there is room for a text, and for the values of the list that it may be.
    fn take_room(self, text: &str) -> bool {
        let values = 1 + text.bytes().filter(|&byte| byte == b',').count();
        let left = self.room.get();
        let left = left.saturating_sub(text.len() + values * size_of::<YamlNode>());
        self.room.set(left);
        left > 0
    }

    /// The text with its references replaced; none if nothing is to be replaced.
    fn expand_text(self, text: &str) -> Option<String> {
        let mut expanded = String::new();
        let mut replaced = false;
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => expanded.push_str(text),
                Piece::Reference { written, reference } => match self.look_up(reference) {
                    Ok(value) => {
                        replaced = true;
                        expanded.push_str(&value);
                    }
                    Err(_) => expanded.push_str(written),
                },
            }
            if expanded.len() > TEXT_LEN_MAX {
                return None;
            }
        }
        replaced.then_some(expanded)
    }

    fn look_up(self, reference: Reference<'_>) -> Result<String, MissingValue<'a>> {
        match reference {
            Reference::Env(name) | Reference::OldEnv(name) => self.look_up_env(name),
            Reference::Context(name) => self.look_up_context(name),
            Reference::Root(path) => value_at(self.root, path),
            Reference::This(path) => match self.this {
                Some(this) => value_at(this, path),
                None => Err(MissingValue::new("there is no mapping around it")),
            },
            Reference::Unreadable => Err(MissingValue::new("it is not a reference")),
        }
    }

    fn look_up_env(self, name: &str) -> Result<String, MissingValue<'a>> {
        self.variables
            .env
            .get(name)
            .cloned()
            .ok_or_else(|| MissingValue {
                message: format!("environment variable `{name}` is not set"),
                suggestion: closest(name, self.variables.env.keys().map(String::as_str)),
            })
    }

    fn look_up_context(self, name: &str) -> Result<String, MissingValue<'a>> {
        match self.variables.context.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value) => Ok(value.to_string()),
            None => Err(MissingValue {
                message: format!("no variable `{name}` is given with the file"),
                suggestion: closest(name, self.variables.context.keys().map(String::as_str)),
            }),
        }
    }

    fn report_leftovers(self, node: &'a YamlNode, diagnostics: &mut Diagnostics) {
        match &node.content {
            YamlContent::Scalar(scalar) => {
                self.report_scalar(&node.span, &scalar.text, diagnostics)
            }
            YamlContent::List(items) => {
                items
                    .iter()
                    .for_each(|item| self.report_leftovers(item, diagnostics));
            }
            YamlContent::Mapping(entries) => {
                let scope = Self {
                    this: Some(node),
                    ..self
                };
                entries
                    .iter()
                    .for_each(|it| scope.report_leftovers(&it.value, diagnostics));
            }
        }
    }

    fn report_scalar(self, span: &SourceSpan, text: &str, diagnostics: &mut Diagnostics) {
        for piece in pieces(text) {
            let Piece::Reference { written, reference } = piece else {
                continue;
            };
            let missing = self.look_up(reference).err();
            let missing = missing.unwrap_or_else(|| MissingValue::new("it refers to itself"));
            let message = format!("`{written}` cannot be replaced: {}", missing.message);
            let problem = Problem::new(span, message).suggest(missing.suggestion);
            match reference {
                // `$eq` and its like are words of a condition that is written as JSON.
                Reference::OldEnv(_) if is_condition(span) => {}
                Reference::OldEnv(_) => diagnostics.warn(problem),
                Reference::Unreadable => diagnostics
                    .warn(problem.remedy("write one blank on each side, as in `${{ ENV.NAME }}`")),
                _ => diagnostics.problem(problem),
            }
        }
    }
}

fn is_condition(span: &SourceSpan) -> bool {
    span.path.rsplit('.').next() == Some(INHERITED.when.name())
}

/// Why a reference has no value.
struct MissingValue<'a> {
    message: String,
    suggestion: Option<&'a str>,
}

impl MissingValue<'_> {
    fn new(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            suggestion: None,
        }
    }
}

/// The value at a path such as `with.port` or `executors[0].name`.
fn value_at(from: &YamlNode, path: &str) -> Result<String, MissingValue<'static>> {
    let mut node = from;
    for step in steps(path) {
        let next = match (step, &node.content) {
            (Step::Key(key), _) => node.get(key),
            (Step::Item(number), YamlContent::List(items)) => items.get(number),
            (Step::Item(_) | Step::Unreadable, _) => None,
        };
        node = next.ok_or_else(|| MissingValue::new(&format!("there is nothing at `{path}`")))?;
    }
    match &node.content {
        YamlContent::Scalar(scalar) if scalar.resolve() == Resolved::Null => Ok(String::new()),
        YamlContent::Scalar(scalar) => Ok(scalar.text.clone()),
        YamlContent::List(_) | YamlContent::Mapping(_) => {
            let message = format!("`{path}` is {}, not a single value", node.described());
            Err(MissingValue {
                message,
                suggestion: None,
            })
        }
    }
}

enum Step<'p> {
    Key(&'p str),
    Item(usize),
    Unreadable,
}

fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split('.').flat_map(|part| {
        let mut pieces = part.split('[');
        let key = pieces.next().filter(|key| !key.is_empty()).map(Step::Key);
        key.into_iter().chain(pieces.map(item))
    })
}

fn item(brackets: &str) -> Step<'_> {
    let number = brackets
        .strip_suffix(']')
        .and_then(|digits| digits.parse().ok());
    number.map_or(Step::Unreadable, Step::Item)
}

/// What a text is once its references are replaced: a number, a list, nothing, or a text.
fn cast(text: &str, at: Position) -> YamlContent {
    let trimmed = text.trim();
    if let Some(items) = trimmed
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'))
    {
        let item = |item| YamlNode::new(at, None, YamlContent::Scalar(cast_scalar(item)));
        return YamlContent::List(items.split_terminator(',').map(item).collect());
    }
    YamlContent::Scalar(cast_scalar(text))
}

fn cast_scalar(text: &str) -> Scalar {
    let trimmed = text.trim();
    for quote in ['"', '\''] {
        let inside = trimmed
            .strip_prefix(quote)
            .and_then(|it| it.strip_suffix(quote));
        if let Some(inside) = inside {
            return Scalar::quoted(inside);
        }
    }
    match Scalar::plain(trimmed).resolve() {
        Resolved::Text(_) => Scalar::plain(text),
        _ => Scalar::plain(trimmed),
    }
}

#[cfg(test)]
mod tests;
