//! Rust as a flat list of tokens: without comments, and with tests marked.
//!
//! Tokens and not lines, because a rule about `println!` must find it in a macro's body and must not
//! find it in a comment or in a string.

use std::str::FromStr;

use proc_macro2::{Delimiter, Group, LexError, Spacing, TokenStream, TokenTree};

/// A word, a mark or a literal, and its line. `::` is one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

#[derive(Debug, Default)]
pub(super) struct Source {
    /// What is compiled into programs.
    pub(super) code: Vec<Token>,
    /// Lines from `#[cfg(test)]` to the end of its item.
    pub(super) test_lines: usize,
}

/// Why a file was not understood.
#[derive(Debug)]
pub(super) struct BadSource {
    pub(super) line: usize,
    why: String,
}

impl std::fmt::Display for BadSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "this is not Rust: {}", self.why)
    }
}

impl Source {
    pub(super) fn read(text: &str) -> Result<Self, BadSource> {
        let stream = TokenStream::from_str(text).map_err(|error| bad(&error))?;
        let mut source = Self::default();
        source.take(stream);
        Ok(source)
    }

    fn take(&mut self, stream: TokenStream) {
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            let attribute = match (&tree, trees.peek()) {
                (TokenTree::Punct(mark), Some(TokenTree::Group(group)))
                    if mark.as_char() == '#' =>
                {
                    is_cfg_test(group)
                }
                _ => false,
            };
            if attribute {
                self.skip_item(line_of(&tree), &mut trees);
            } else {
                self.push(tree);
            }
        }
    }

    /// Passes over one item: up to its `;` or its braces.
    fn skip_item(&mut self, from: usize, trees: &mut impl Iterator<Item = TokenTree>) {
        for tree in trees {
            let ends = match &tree {
                TokenTree::Punct(mark) => mark.as_char() == ';',
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                TokenTree::Ident(_) | TokenTree::Literal(_) => false,
            };
            if ends {
                self.test_lines += tree.span().end().line + 1 - from;
                return;
            }
        }
    }

    fn push(&mut self, tree: TokenTree) {
        let line = line_of(&tree);
        match tree {
            TokenTree::Group(group) => self.push_group(&group),
            TokenTree::Punct(mark) if mark.as_char() == ':' => {
                self.push_colon(line, mark.spacing())
            }
            tree => self.code.push(Token {
                text: tree.to_string(),
                line,
            }),
        }
    }

    /// `::` comes as two marks, of which the first is joint.
    fn push_colon(&mut self, line: usize, spacing: Spacing) {
        match self.code.last_mut() {
            Some(last) if last.text == ":+" => last.text = "::".to_owned(),
            _ => {
                let text = if spacing == Spacing::Joint { ":+" } else { ":" };
                self.code.push(Token {
                    text: text.to_owned(),
                    line,
                });
            }
        }
    }

    fn push_group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        let line = group.span_open().start().line;
        self.code.push(Token {
            text: open.to_owned(),
            line,
        });
        self.take(group.stream());
        let line = group.span_close().start().line;
        self.code.push(Token {
            text: close.to_owned(),
            line,
        });
    }
}

/// Lines on which a sequence of tokens begins, which is written with spaces between them.
pub(super) fn lines_with(code: &[Token], row: &str) -> Vec<usize> {
    let row: Vec<&str> = row.split(' ').collect();
    let windows = code.windows(row.len());
    let matching = windows.filter(|window| window.iter().map(|token| &token.text).eq(row.iter()));
    matching.map(|window| window[0].line).collect()
}

fn is_cfg_test(attribute: &Group) -> bool {
    let words: Vec<String> = attribute
        .stream()
        .into_iter()
        .map(|tree| tree.to_string())
        .collect();
    matches!(words.as_slice(), [cfg, condition] if cfg == "cfg" && condition == "(test)")
}

fn line_of(tree: &TokenTree) -> usize {
    tree.span().start().line
}

fn bad(error: &LexError) -> BadSource {
    BadSource {
        line: error.span().start().line,
        why: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, row: &str, lines: &[usize]) {
        let source = Source::read(text).expect("Rust");
        assert_eq!(lines_with(&source.code, row), lines, "`{row}` in:\n{text}");
    }

    #[test]
    fn rows_are_found_in_code_and_in_macros_only() {
        check(
            "fn f() {\n    tokio::spawn(g());\n}",
            "tokio :: spawn",
            &[2],
        );
        check(
            "select! {\n x = y => { tokio::spawn(x) }\n}",
            "tokio :: spawn",
            &[2],
        );
        check("// tokio::spawn\nfn f() {}", "tokio :: spawn", &[]);
        check("const A: &str = \"tokio::spawn\";", "tokio :: spawn", &[]);
        check("fn f() { a::tokio_spawn() }", "tokio :: spawn", &[]);
        check("fn f(a: u8) {}\nfn g(b: ::std::u8) {}", "b : :: std", &[2]);
    }

    #[test]
    fn code_that_is_compiled_only_for_tests_is_left_out() {
        check(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}",
            "fn b",
            &[],
        );
        check(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}",
            "fn c",
            &[4],
        );
        check("#[cfg(test)]\nuse a::b;\nfn c() {}", "fn c", &[3]);
        check("#[cfg(feature = \"x\")]\nfn c() {}", "fn c", &[2]);
    }

    #[test]
    fn the_lines_of_tests_are_counted() {
        let source = Source::read("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n");
        assert_eq!(source.expect("Rust").test_lines, 4);
    }
}
