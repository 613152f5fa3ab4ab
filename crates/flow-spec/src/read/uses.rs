//! What an executor runs: the forms of `uses` that flow takes, and why it does not take the others.

use super::{reject, text};
use crate::problem::{Findings, Problem};
use crate::settings::Uses;
use crate::yaml::{Content, Node};

/// The built-in executor that gives documents back unchanged, as Jina's `BaseExecutor` does.
const PASSES_THROUGH: &str = "echo";

/// What runs where no `uses` is written, as in Jina.
pub(crate) fn gives_documents_back() -> Uses {
    Uses::Named(PASSES_THROUGH.to_owned())
}

pub(crate) fn uses(node: &Node, findings: &mut Findings) -> Option<Uses> {
    if let Content::Mapping(_) = node.content {
        let message = "an executor's config inside a flow file is not supported yet";
        findings.problem(Problem::new(&node.place, message).remedy("name a program or a folder"));
        return None;
    }
    if let Content::List(_) = node.content {
        return reject(node, "a program or a folder", findings);
    }
    let text = text(node, findings)?;
    match refusal(&text) {
        None if text == "BaseExecutor" => Some(gives_documents_back()),
        None if is_path(&text) => Some(Uses::Path(text.into())),
        None => Some(Uses::Named(text)),
        Some((why, remedy)) => {
            let message = format!("`{}` {why}", first_line(&text));
            findings.problem(Problem::new(&node.place, message).remedy(remedy));
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
    const PYTHON: &str = "start it with Jina and add it as `external`";
    if text.starts_with('!') || text.starts_with("jtype") || text.contains('\n') {
        return Some((
            "is an executor's config, which flow does not read from here yet",
            INSTEAD,
        ));
    }
    if text.to_ascii_lowercase().ends_with(".py") {
        return Some(("is a Python file, and flow runs no Python", PYTHON));
    }
    let (scheme, _) = text.split_once("://")?;
    Some(match scheme {
        "docker" => ("is a container, which flow does not start yet", INSTEAD),
        _ if scheme.starts_with("jinahub") || scheme.starts_with("jinaai") => {
            ("is of Jina's hub, which flow does not use", INSTEAD)
        }
        _ => ("is a URL, and flow fetches no executors", INSTEAD),
    })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}
