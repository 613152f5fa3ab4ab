//! Mappings of single values: environments and gRPC metadata.

use super::{entries, loose_text, reject};
use crate::problem::{Findings, Problem};
use crate::settings::Env;
use crate::yaml::{Entry, Node};

pub(crate) fn env(node: &Node, findings: &mut Findings) -> Option<Env> {
    let entries = entries(node, findings)?;
    Some(
        entries
            .iter()
            .filter_map(|entry| variable(entry, findings))
            .collect(),
    )
}

fn variable(entry: &Entry, findings: &mut Findings) -> Option<(String, String)> {
    if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
        let message = format!(
            "`{}` cannot be the name of an environment variable",
            entry.key
        );
        findings.problem(Problem::new(&entry.place, message));
        return None;
    }
    let value = loose_text(&entry.value, findings)?;
    Some((entry.key.clone(), value))
}

/// gRPC metadata: lower-case names and printable ASCII, or a call would fail with it.
pub(crate) fn metadata(node: &Node, findings: &mut Findings) -> Option<Vec<(String, String)>> {
    let entries = entries(node, findings)?;
    Some(
        entries
            .iter()
            .filter_map(|entry| metadata_entry(entry, findings))
            .collect(),
    )
}

fn metadata_entry(entry: &Entry, findings: &mut Findings) -> Option<(String, String)> {
    let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.".contains(&b);
    let reserved = entry.key.starts_with("grpc-") || entry.key.ends_with("-bin");
    if entry.key.is_empty() || !entry.key.bytes().all(is_name) || reserved {
        let message = format!(
            "`{}` cannot be the name of gRPC metadata: lower-case letters, digits, `_`, `-` and `.`, \
             not `grpc-…` or `…-bin`",
            entry.key
        );
        let lower = entry.key.to_ascii_lowercase();
        let meant = (lower != entry.key && lower.bytes().all(is_name)).then_some(lower);
        findings.problem(Problem::new(&entry.place, message).suggest(meant.as_deref()));
        return None;
    }
    let value = loose_text(&entry.value, findings)?;
    if !value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return reject(&entry.value, "printable ASCII", findings);
    }
    Some((entry.key.clone(), value))
}
