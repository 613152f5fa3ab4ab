//! Finds the references in a text.

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Text(&'t str),
    Reference {
        written: &'t str,
        reference: Reference<'t>,
    },
}

/// What a reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference<'t> {
    /// `${{ ENV.X }}`
    Env(&'t str),
    /// `$X` or `${X}`: the old form, which any text with a dollar may hold by accident.
    OldEnv(&'t str),
    /// `${{ x }}` or `${{ CONTEXT.x }}`
    Context(&'t str),
    /// `${{root.a.b}}`
    Root(&'t str),
    /// `${{this.x}}`
    This(&'t str),
    /// Braces around something else, such as a name with two blanks.
    Unreadable,
}

/// Cuts a text into what stays and what is to be replaced.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(dollar) = text[at..].find('$').map(|found| at + found) {
        at = dollar + 1;
        let Some((len, reference)) = reference(&text[dollar..]) else {
            continue;
        };
        pieces.push(Piece::Text(&text[kept..dollar]));
        at = dollar + len;
        kept = at;
        pieces.push(Piece::Reference {
            written: &text[dollar..at],
            reference,
        });
    }
    pieces.push(Piece::Text(&text[kept..]));
    pieces
}

/// The reference that a text begins with, and how many bytes of the text it takes.
fn reference(text: &str) -> Option<(usize, Reference<'_>)> {
    if let Some(rest) = text.strip_prefix("${{") {
        let inside = &rest[..rest.find("}}")?];
        return Some((inside.len() + "${{}}".len(), in_braces(inside)));
    }
    if let Some(rest) = text.strip_prefix("${") {
        let inside = &rest[..rest.find('}')?];
        let is_name = name_len(inside) == inside.len() && !inside.is_empty();
        return is_name.then_some((inside.len() + "${}".len(), Reference::OldEnv(inside)));
    }
    let name = &text[1..=name_len(&text[1..])];
    (!name.is_empty()).then_some((1 + name.len(), Reference::OldEnv(name)))
}

fn in_braces(inside: &str) -> Reference<'_> {
    let name = match inside.strip_prefix(' ').and_then(|it| it.strip_suffix(' ')) {
        Some(name) => name,
        None => inside,
    };
    let is_path = |c: char| c.is_alphanumeric() || "_-.[]".contains(c);
    if name.is_empty() || !name.chars().all(is_path) {
        return Reference::Unreadable;
    }
    match name.split_once('.') {
        Some(("ENV" | "env", name)) => Reference::Env(name),
        Some(("CONTEXT" | "context", name)) => Reference::Context(name),
        Some(("root", path)) => Reference::Root(path),
        Some(("this", path)) => Reference::This(path),
        _ => Reference::Context(name),
    }
}

/// Bytes at the start of a text that can be the name of an environment variable.
fn name_len(text: &str) -> usize {
    let is_name = |(at, c): (usize, char)| {
        c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit())
    };
    text.char_indices()
        .take_while(|found| is_name(*found))
        .count()
}
