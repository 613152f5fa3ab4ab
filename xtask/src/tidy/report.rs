//! `cargo xtask tidy --report`: figures about the shape of the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::tidy::links::Packages;
use crate::tidy::source::Token;
use crate::tidy::tree::Tree;
use crate::tidy::{cycles, imports, item_docs};

/// Functions with more lines are counted as long.
const LONG_LINES: usize = 70;

/// The figures as text.
pub(super) fn text(tree: &Tree, packages: &Packages) -> String {
    let functions = Lengths::new(tree.sources().flat_map(|file| functions(file.code())));
    let program = || tree.sources().filter(|file| !file.is_test());
    let files = Lengths::new(program().map(|file| file.text.lines().count() - file.test_lines()));
    let circular = circular_crates(tree);
    let repeated = repeated_types(tree);
    let mut text = format!(
        "functions: {functions}, {} longer than {LONG_LINES}\n",
        functions.above(LONG_LINES)
    );
    text += &format!("files, without tests: {files}\n");
    text += &lines(tree);
    text += &format!("crates with circular imports: {}\n", listed(&circular));
    let undocumented = listed(&item_docs::undocumented(tree));
    text += &format!("public items without docs: {undocumented}\n");
    text += &format!(
        "type names defined in more than one crate: {}\n",
        repeated.len()
    );
    for (name, crates) in &repeated {
        // Writing to a String cannot fail.
        let _infallible = writeln!(
            text,
            "  {name}: {}",
            crates.iter().copied().collect::<Vec<_>>().join(", ")
        );
    }
    text += "packages that a crate links:\n";
    for (name, count) in packages.linked_by_own_crates() {
        let _infallible = writeln!(text, "  {name}: {count}");
    }
    text
}

/// Lengths in lines, sorted.
struct Lengths(Vec<usize>);

impl Lengths {
    fn new(lengths: impl Iterator<Item = usize>) -> Self {
        let mut lengths: Vec<usize> = lengths.collect();
        lengths.sort_unstable();
        Self(lengths)
    }

    fn above(&self, limit: usize) -> usize {
        self.0.iter().filter(|length| limit < **length).count()
    }

    fn percentile(&self, percent: usize) -> usize {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get(last * percent / 100)
            .copied()
            .unwrap_or_default()
    }
}

impl std::fmt::Display for Lengths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, p90, max] = [50, 90, 100].map(|percent| self.percentile(percent));
        write!(
            f,
            "{}, lines median {median}, p90 {p90}, max {max}",
            self.0.len()
        )
    }
}

/// The lengths of the functions with a body, nested ones counted too.
fn functions(code: &[Token]) -> Vec<usize> {
    let starts = code.windows(2).enumerate().filter(|(_, pair)| {
        pair[0].text == "fn"
            && pair[1]
                .text
                .starts_with(|it: char| it.is_alphabetic() || it == '_')
    });
    starts.filter_map(|(at, _)| length(&code[at..])).collect()
}

/// The lines from `fn` to the brace that closes the body; none if there is no body.
fn length(code: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut in_body = false;
    for token in code {
        match token.text.as_str() {
            ";" if depth == 0 => return None,
            "(" | "[" | "{" => {
                in_body |= depth == 0 && token.text == "{";
                depth += 1;
            }
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && in_body {
                    return Some(token.line + 1 - code[0].line);
                }
            }
            _ => {}
        }
    }
    None
}

/// Lines of Rust, and how many of them are tests and comments.
fn lines(tree: &Tree) -> String {
    let (mut all, mut tests, mut comments) = (0, 0, 0);
    for file in tree.sources() {
        let count = file.text.lines().count();
        all += count;
        tests += if file.is_test() {
            count
        } else {
            file.test_lines()
        };
        comments += file
            .text
            .lines()
            .filter(|line| line.trim_start().starts_with("//"))
            .count();
    }
    let percent = |part: usize| part * 100 / all.max(1);
    format!(
        "lines: {all}, tests {} %, comments {} %\n",
        percent(tests),
        percent(comments)
    )
}

fn circular_crates(tree: &Tree) -> Vec<String> {
    let crates = imports::crates(tree);
    let circular = crates.iter().filter_map(|(folder, files)| {
        let (_, size) = cycles::largest_circle(&files.imports())?;
        Some(format!("{folder} ({size} files)"))
    });
    circular.collect()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "0".to_owned();
    }
    format!("{}: {}", names.len(), names.join(", "))
}

/// Names of types that several crates define, with the folders of these crates.
fn repeated_types(tree: &Tree) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.sources() {
        let folder = file.crate_folder();
        for name in defined_types(file.code()) {
            types.entry(name).or_default().insert(folder);
        }
    }
    types.retain(|_, crates| crates.len() > 1);
    types
}

fn defined_types(code: &[Token]) -> impl Iterator<Item = &str> {
    let definitions = code
        .windows(2)
        .filter(|pair| matches!(pair[0].text.as_str(), "struct" | "enum" | "trait"));
    definitions.map(|pair| pair[1].text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        crate::tidy::source::Source::read(text).unwrap().code
    }

    #[track_caller]
    fn expect_functions(text: &str, expected: &[usize]) {
        assert_eq!(functions(&tokens(text)), expected, "{text}");
    }

    #[test]
    fn a_function_is_as_long_as_its_signature_and_its_body() {
        expect_functions("fn a() {}", &[1]);
        expect_functions("fn a(\n    b: [u8; 2],\n) -> u8 {\n    b[0]\n}", &[5]);
        expect_functions("trait A {\n    fn a();\n    fn b() {\n    }\n}", &[2]);
        expect_functions("fn a() {\n    fn b() {}\n    if c {}\n}", &[4, 1]);
        expect_functions("fn a(f: fn(u8) -> u8) {}", &[1]);
    }

    #[test]
    fn percentiles_are_taken_from_the_sorted_lengths() {
        let lengths = Lengths::new((1..=100).rev());
        assert_eq!(lengths.to_string(), "100, lines median 50, p90 90, max 100");
        assert_eq!(lengths.above(70), 30);
        assert_eq!(
            Lengths::new([].into_iter()).to_string(),
            "0, lines median 0, p90 0, max 0"
        );
    }

    #[test]
    fn a_type_name_in_two_crates_is_listed() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "struct Entry; enum Reply {}"),
            ("crates/a/src/b.rs", "struct Reply;"),
            ("crates/b/src/lib.rs", "trait Entry {}"),
        ]);
        let found = repeated_types(&tree);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["Entry"]);
    }
}
