//! The form of log messages and errors: they begin in lower case and end without a full stop.
//!
//! A name in capitals, such as SIGTERM, may come first.

use crate::tidy::finding::Finding;
use crate::tidy::source::Token;
use crate::tidy::tree::{File, Tree};

const LEVELS: &[&str] = &["trace", "debug", "info", "warn", "error"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let code = file.code();
    let starts = (0..code.len()).filter_map(|at| arguments(&code[at..]));
    let messages = starts.flat_map(messages);
    messages
        .filter_map(|token| Some(file.finding(token.line, &fault(&token.text)?)))
        .collect()
}

/// The tokens after `warn!(` or a similar macro, or after `#[error(`, if the tokens begin with one.
fn arguments(row: &[Token]) -> Option<&[Token]> {
    let texts: Vec<&str> = row
        .iter()
        .take(4)
        .map(|token| token.text.as_str())
        .collect();
    match texts[..] {
        [level, "!", "(", ..] if LEVELS.contains(&level) => Some(&row[3..]),
        ["#", "[", "error", "("] => Some(&row[4..]),
        _ => None,
    }
}

/// String literals that stand alone between commas, up to the closing parenthesis.
fn messages(row: &[Token]) -> Vec<&Token> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    let mut before = ",";
    for (at, token) in row.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" if depth == 0 => break,
            ")" | "]" | "}" => depth -= 1,
            text if depth == 0 && text.starts_with('"') && before == "," => {
                let after = row.get(at + 1).map_or(")", |token| token.text.as_str());
                if matches!(after, "," | ")") {
                    found.push(token);
                }
            }
            _ => {}
        }
        before = &token.text;
    }
    found
}

fn fault(literal: &str) -> Option<String> {
    let message = literal.trim_matches('"');
    let mut letters = message.chars();
    let (first, second) = (letters.next()?, letters.next());
    if first.is_uppercase() && second.is_none_or(|letter| letter.is_lowercase() || letter == ' ') {
        return Some(format!("the message {literal} begins with a capital"));
    }
    let stops = message.ends_with('.') && !message.ends_with("..");
    stops.then(|| format!("the message {literal} ends with a full stop"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(code: &str, findings: usize) {
        let tree = Tree::of(&[("crates/a/src/b.rs", &format!("fn f() {{ {code} }}"))]);
        let found = check(&tree);
        assert_eq!(found.len(), findings, "{code}\n{found:?}");
    }

    #[test]
    fn messages_begin_small_and_end_open() {
        expect(r#"info!("gateway is listening");"#, 0);
        expect(r#"info!("Gateway is listening");"#, 1);
        expect(r#"info!("gateway is listening.");"#, 1);
        expect(r#"info!("waiting ...");"#, 0);
        expect(r#"warn!("SIGTERM came twice");"#, 0);
        expect(r#"warn!("A replica left");"#, 1);
        expect(r#"warn!("`Encoder` left");"#, 0);
    }

    #[test]
    fn fields_and_arguments_are_not_messages() {
        expect(
            r#"tracing::warn!(target: "Flow", name = "Echo.", f("X y"), "went away");"#,
            0,
        );
        expect(r#"tracing::warn!(error = %Chain(&error), "Went away");"#, 1);
        expect(r#"debug!(at, "{} came", "Somebody".len());"#, 0);
    }

    #[test]
    fn errors_are_worded_like_messages() {
        let check_error = |text: &str, findings| {
            let code = format!("#[error({text})]\nstruct Bad;");
            let found = check(&Tree::of(&[("crates/a/src/b.rs", &code)]));
            assert_eq!(found.len(), findings, "{text}");
        };
        check_error(r#""cannot read `{path}`""#, 0);
        check_error(r#""Cannot read `{path}`""#, 1);
        check_error(r#""cannot read `{path}`.""#, 1);
        check_error("transparent", 0);
    }
}
