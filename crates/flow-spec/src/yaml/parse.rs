//! Events of the YAML parser → [`YamlNode`]s.
//!
//! Aliases and merge keys (`<<`) are resolved here. The values of a tree and their bytes are bounded before they are copied,
//! because eight lines of aliases can ask for more memory than there is.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::scalar::Scalar;
use super::tree::{PATH_BYTES_MAX, PATHS_TOO_LONG, YamlContent, YamlEntry, YamlNode};
use crate::diagnostics::{Position, SourceSpan};
use crate::error::SyntaxError;

/// Most values in one document, aliases and what they name counted: far more than a flow of thousands of nodes has.
const NODES_MAX: usize = 50_000;
/// Most bytes of keys, texts and tags in one document, aliases and what they name counted. A flow file has a few kilobytes.
const BYTES_MAX: usize = 16 << 20;
/// Deepest nesting, so that walking the tree cannot overflow a stack.
const DEPTH_MAX: usize = 64;

/// Reads one YAML document.
pub(crate) fn parse(text: &str) -> Result<YamlNode, SyntaxError> {
    let mut builder = Builder::new(text);
    builder.skip_while(|event| matches!(event, Event::StreamStart | Event::DocumentStart(_)))?;
    let (event, at) = builder.next()?;
    let mut root = match event {
        Event::StreamEnd => YamlNode::empty(),
        event => builder.node(event, at)?,
    };
    builder.skip_while(|event| matches!(event, Event::DocumentEnd))?;
    match builder.next()? {
        (Event::StreamEnd, _) => {}
        (_, at) => {
            return Err(error(
                at,
                "a second document starts here; only one is expected",
            ));
        }
    }
    locate(&mut root, "", Position::START)?;
    Ok(root)
}

/// Sets the paths of a tree, unless long keys would make them take more memory than a tree may.
fn locate(root: &mut YamlNode, path: &str, at: Position) -> Result<(), SyntaxError> {
    if root.path_bytes(path.len()) > PATH_BYTES_MAX {
        let message = format!("the keys are too long: {PATHS_TOO_LONG}");
        return Err(error(at, message));
    }
    root.locate(path);
    Ok(())
}

/// Reads one YAML document as JSON, with the scalars of flow files. References to variables stay as they are written.
///
/// # Errors
/// If the text is not YAML, or has a value that JSON does not have.
pub fn yaml_to_json(text: &str) -> Result<serde_json::Value, SyntaxError> {
    let root = parse(text)?;
    root.to_json()
        .map_err(|problem| error(problem.span.position, problem.message))
}

/// Reads a text in a value of the document as YAML of its own. All of it has the span of the value.
pub(crate) fn embedded(text: &str, at: &SourceSpan) -> Result<YamlNode, SyntaxError> {
    let mut node = parse(text)?;
    locate(&mut node, &at.path, at.position)?;
    node.for_each_span(&mut |span| {
        span.file.clone_from(&at.file);
        span.position = at.position;
    });
    Ok(node)
}

struct Builder<'t> {
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
    anchors: HashMap<usize, YamlNode>,
    depth: usize,
    nodes: usize,
    bytes: usize,
}

impl<'t> Builder<'t> {
    fn new(text: &'t str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let events = Parser::new_from_str(text);
        Self {
            events,
            anchors: HashMap::new(),
            depth: 0,
            nodes: 0,
            bytes: 0,
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Position), SyntaxError> {
        match self.events.next() {
            Some(event) => event
                .map(|(event, span)| (event, position(span)))
                .map_err(not_yaml),
            None => Ok((Event::StreamEnd, Position::START)),
        }
    }

    fn skip_while(&mut self, skip: impl Fn(&Event<'_>) -> bool) -> Result<(), SyntaxError> {
        while matches!(self.events.peek(), Some(Ok((event, _))) if skip(event)) {
            self.next()?;
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'t>, at: Position) -> Result<YamlNode, SyntaxError> {
        let (anchor, node) = match event {
            Event::Alias(anchor) => return self.alias(anchor, at),
            Event::Scalar(text, style, anchor, tag) => {
                self.take_room(1, text.len() + tag_len(tag.as_deref()), at)?;
                (anchor, scalar(text, style, tag, at)?)
            }
            Event::SequenceStart(anchor, tag) => {
                self.take_room(1, tag_len(tag.as_deref()), at)?;
                let items = self.nested(at, Self::items)?;
                (
                    anchor,
                    YamlNode::new(at, own_tag(tag), YamlContent::List(items)),
                )
            }
            Event::MappingStart(anchor, tag) => {
                self.take_room(1, tag_len(tag.as_deref()), at)?;
                let entries = self.nested(at, Self::entries)?;
                (
                    anchor,
                    YamlNode::new(at, own_tag(tag), YamlContent::Mapping(entries)),
                )
            }
            _ => return Err(error(at, "a value was expected here")),
        };
        // The parser numbers anchors from 1; 0 says that there is none.
        if anchor != 0 {
            self.take_room(count(&node), node.text_bytes(), at)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<YamlNode, SyntaxError> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(error(at, "an alias is inside the value that it names"));
        };
        let (nodes, bytes, depth) = (count(node), node.text_bytes(), depth(node));
        self.take_room(nodes, bytes, at)?;
        if self.depth + depth > DEPTH_MAX {
            return Err(too_deep(at));
        }
        Ok(self.anchors[&anchor].clone())
    }

    fn nested<T>(
        &mut self,
        at: Position,
        read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(at));
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn items(&mut self) -> Result<Vec<YamlNode>, SyntaxError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, at) => items.push(self.node(event, at)?),
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<YamlEntry>, SyntaxError> {
        let mut entries = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, at)?;
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at)?;
            match key.content {
                YamlContent::Scalar(key) if key.plain && key.text == "<<" => {
                    merged.extend(merge_sources(value)?);
                }
                YamlContent::Scalar(Scalar { text, .. }) => entries.push(entry(text, at, value)),
                _ => return Err(error(at, "a key must be a text")),
            }
        }
        add_missing(&mut entries, merged);
        Ok(entries)
    }

    /// Counts what is about to be stored.
    fn take_room(&mut self, nodes: usize, bytes: usize, at: Position) -> Result<(), SyntaxError> {
        self.nodes += nodes;
        self.bytes += bytes;
        if self.nodes > NODES_MAX {
            let message = format!("more than {NODES_MAX} values, aliases counted");
            return Err(error(at, message));
        }
        if self.bytes > BYTES_MAX {
            let max = BYTES_MAX >> 20;
            let message = format!("more than {max} MiB of text, aliases counted");
            return Err(error(at, message));
        }
        Ok(())
    }
}

fn entry(key: String, at: Position, mut value: YamlNode) -> YamlEntry {
    // The parser places an absent value wherever the next token is; its key is where to look.
    if value.content == YamlContent::Scalar(Scalar::plain("")) {
        value.span.position = at;
    }
    let span = SourceSpan::new(at, "");
    YamlEntry { key, span, value }
}

/// `<<: *base` or `<<: [*a, *b]`.
fn merge_sources(value: YamlNode) -> Result<Vec<YamlEntry>, SyntaxError> {
    match value.content {
        YamlContent::Mapping(entries) => Ok(entries),
        YamlContent::List(items) => {
            let merged: Result<Vec<_>, _> = items.into_iter().map(merge_sources).collect();
            Ok(merged?.into_iter().flatten().collect())
        }
        YamlContent::Scalar(_) => Err(error(value.span.position, "`<<` must name a mapping")),
    }
}

/// A mapping's own keys win, then those of the first mapping that is merged into it.
fn add_missing(entries: &mut Vec<YamlEntry>, merged: Vec<YamlEntry>) {
    let mut known: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    entries.extend(
        merged
            .into_iter()
            .filter(|entry| known.insert(entry.key.clone())),
    );
}

fn scalar(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<Cow<'_, Tag>>,
    at: Position,
) -> Result<YamlNode, SyntaxError> {
    let mut plain = style == ScalarStyle::Plain;
    let core = tag.as_ref().filter(|tag| tag.is_yaml_core_schema());
    match core.map(|tag| tag.suffix.as_str()) {
        None => {}
        Some("str") => plain = false,
        Some("int" | "float" | "bool" | "null") => plain = true,
        Some(other) => return Err(error(at, format!("there is no tag `!!{other}` here"))),
    }
    let scalar = Scalar {
        text: text.into_owned(),
        plain,
    };
    Ok(YamlNode::new(at, own_tag(tag), YamlContent::Scalar(scalar)))
}

fn own_tag(tag: Option<Cow<'_, Tag>>) -> Option<String> {
    tag.filter(|tag| !tag.is_yaml_core_schema())
        .map(|tag| tag.suffix.clone())
}

fn tag_len(tag: Option<&Tag>) -> usize {
    tag.map_or(0, |tag| tag.suffix.len())
}

fn count(node: &YamlNode) -> usize {
    1 + node.children().map(count).sum::<usize>()
}

fn depth(node: &YamlNode) -> usize {
    node.children()
        .map(|child| 1 + depth(child))
        .max()
        .unwrap_or(0)
}

fn position(span: saphyr_parser::Span) -> Position {
    Position {
        line: span.start.line().max(1),
        column: span.start.col() + 1,
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`map_err` hands it over by value"
)]
fn not_yaml(error: ScanError) -> SyntaxError {
    let at = error.marker();
    let position = Position {
        line: at.line().max(1),
        column: at.col() + 1,
    };
    SyntaxError {
        position,
        message: error.info().to_owned(),
    }
}

fn error(position: Position, message: impl Into<String>) -> SyntaxError {
    SyntaxError {
        position,
        message: message.into(),
    }
}

fn too_deep(at: Position) -> SyntaxError {
    error(at, format!("nested deeper than {DEPTH_MAX} levels"))
}
