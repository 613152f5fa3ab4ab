//! The reference page of flow files, in Markdown, made from the tables of keys.
//!
//! The page is `docs/src/flow-file-reference.md`; a test compares it with what this module returns.

use super::key::{Key, KeySupport};
use super::mappings::{PARTS, Part};
use crate::forms::{KWARGS, Shape};

const HEADER: &str = "\
# Flow file reference

<!-- Generated from the tables in crates/flow-spec/src/keys/tables. To generate it again:
     FLOW_GOLDEN=write cargo test --package flow-spec --test it reference -->

Every key of a flow file, with the form of its value, its default, an example, and what differs in Jina. \
[Writing flow files](flow-files.md) is the introduction.

Times are milliseconds, or a number with a unit such as `5s` or `2min`. A value may refer to the environment \
(`${{ ENV.NAME }}`) or to another part of the file (`${{root.with.port}}`). Where a list is allowed, a single value \
is a list of one. A key that is written with `null` counts as not written.

A key that is not on this page is an error.
";

/// The reference page of flow files, in Markdown.
#[must_use]
pub fn key_reference() -> String {
    let mut page = HEADER.to_owned();
    for part in PARTS {
        page += &format!("\n## {}\n\n{}\n", part.title, part.about);
        page += &supported(part);
        page += &others(part);
        if part.title == "Containers" {
            page += &docker_kwargs();
        }
    }
    page
}

fn supported(part: &Part) -> String {
    let entry = |key: &Key| match key.state {
        KeySupport::Supported(shape, about) => Some(describe(part, key, shape, about)),
        _ => None,
    };
    part.keys().filter_map(entry).collect()
}

fn describe(part: &Part, key: &Key, shape: Shape, about: &str) -> String {
    let path = match part.path {
        "" => key.name.to_owned(),
        path => format!("{path}.{}", key.name),
    };
    let jina = match key.jina {
        "" => "the same",
        differs => differs,
    };
    let Key {
        name,
        default,
        example,
        ..
    } = key;
    let value = value(shape);
    format!(
        "\n### `{path}`\n\n{about}\n\n- Value: {value}\n- Default: {default}\n- Example: `{name}: {example}`\n\
         - In Jina: {jina}\n"
    )
}

/// A table of other names of keys, and of keys that are not supported.
fn others(part: &Part) -> String {
    let rows: String = part.keys().map(other_rows).collect();
    if rows.is_empty() {
        return rows;
    }
    format!("\n| Other keys | |\n|---|---|\n{rows}")
}

fn other_rows(key: &Key) -> String {
    let what = match key.state {
        KeySupport::Supported(..) => {
            let row = |name: &str| {
                let whose = if key.old_names.contains(&name) {
                    "Jina 2's"
                } else {
                    "another"
                };
                format!("| `{name}` | {whose} name for `{}` |\n", key.name)
            };
            return key.names().skip(1).map(row).collect();
        }
        KeySupport::NotYet => "not supported yet".to_owned(),
        KeySupport::Refused(why) => format!("not supported: {why}"),
        KeySupport::WithoutEffect(why) => format!("accepted without effect: {why}"),
    };
    let unless = match key.state {
        KeySupport::WithoutEffect(_) => String::new(),
        _ => unless(key),
    };
    format!("| `{}` | {what}{unless} |\n", key.name)
}

/// The values with which a key that is not supported is accepted.
fn unless(key: &Key) -> String {
    if key.harmless.is_empty() {
        return String::new();
    }
    let values: Vec<String> = key.harmless.iter().map(|it| format!("`{it}`")).collect();
    format!("; accepted as {}", values.join(" or "))
}

fn docker_kwargs() -> String {
    let names: Vec<String> = KWARGS.iter().map(|it| format!("`{}`", it.name)).collect();
    format!(
        "\n`docker_kwargs` takes these options: {}. Options that flow sets itself, or that have a key of their own, \
         are errors that name the key.\n",
        names.join(", ")
    )
}

/// The form of a value, in words.
fn value(shape: Shape) -> String {
    let words = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        quoted.join(", ")
    };
    match shape {
        Shape::Text => "a text",
        Shape::Texts => "a text, or a list of texts",
        Shape::Name => "a name: a letter or `_`, then letters, digits, `_` and `-`, at most 63",
        Shape::Flag => "`true` or `false`",
        Shape::FlagOr(word) => return format!("`true`, `false` or `{word}`"),
        Shape::Origins => "`true` for all, `false`, or a list of origins",
        Shape::Variables => "`true` for all, `false`, or a list of names such as `AWS_*`",
        Shape::Count => "a whole number, at least 1",
        Shape::Window => "a whole number, at least 0",
        Shape::Workers => "a whole number, at least 1, or `auto` for one per core",
        Shape::Retries => "a whole number, at least -1",
        Shape::Time => "a time",
        Shape::Hedge => "a time, or a percentage of calls from `50%` to `99%`",
        Shape::Ports => "a port, or a list of ports",
        Shape::Word([one]) | Shape::Words([one]) => return format!("`{one}`"),
        Shape::Word(these) => return format!("one of {}, in capitals or not", words(these)),
        Shape::Words(these) => {
            return format!("one or several of {}, in capitals or not", words(these));
        }
        Shape::Version => "`1`",
        Shape::Mapping => "a mapping, or its JSON as a text",
        Shape::Values => "a mapping of names to single values",
        Shape::Requests => "a mapping of endpoints to methods",
        Shape::Batching => "a mapping of endpoints or methods to rules, or its JSON as a text",
        Shape::Bytes => "a number of bytes, or a number with a unit (`512MiB`, `2GiB`)",
        Shape::Cpus => "a number, at least 0.01",
        Shape::Sandbox => "a mapping of limits, or its JSON as a text",
        Shape::Polling => {
            "`ANY`, `ALL`, or a mapping of endpoints to one of them, where `*` means all others"
        }
        Shape::Query => "a condition in DocArray's query language, or its JSON as a text",
        Shape::Gpus => "`all`, a number, or a text as Docker's `--gpus` takes it",
        Shape::Docker => "a mapping, or its JSON as a text",
        Shape::Volumes => "a text or a mapping, or a list of them",
        Shape::Uses => "a name, a path, a URI, or an executor's config",
        Shape::With | Shape::Gateway => "a mapping of options",
        Shape::DeploymentOptions => "a mapping of the options of an executor",
        Shape::Executors => "a list",
    }
    .to_owned()
}

#[cfg(test)]
mod tests;
