//! A picture as a Mermaid flowchart, for README files and issues.

use std::fmt::Write as _;

use super::picture::{Card, CardKind, Picture};

pub(super) fn write(picture: &Picture) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (at, card) in picture.cards.iter().enumerate() {
        let label = label(card);
        let shape = match card.kind {
            CardKind::Start | CardKind::End => format!("([\"{label}\"])"),
            _ if card.is_stack => format!("[[\"{label}\"]]"),
            CardKind::Local | CardKind::External => format!("[\"{label}\"]"),
        };
        writeln!(text, "  n{at}{shape}{}", class(card)).expect("writing to a String cannot fail");
    }
    for link in &picture.links {
        let condition = picture.cards[link.to].when.as_ref();
        let condition = condition.map(|it| format!("|\"{}\"|", escape(it)));
        let arrow = if link.is_aside { "-.->" } else { "-->" };
        let condition = condition.unwrap_or_default();
        writeln!(text, "  n{} {arrow}{condition} n{}", link.from, link.to)
            .expect("writing to a String cannot fail");
    }
    text += "  classDef aside stroke-dasharray: 5 4\n";
    text += "  classDef external stroke-dasharray: 5 4,stroke:#0d9488\n";
    text
}

fn class(card: &Card) -> &'static str {
    match card.kind {
        CardKind::Start | CardKind::End => "",
        _ if card.is_aside => ":::aside",
        CardKind::External => ":::external",
        CardKind::Local => "",
    }
}

fn label(card: &Card) -> String {
    let mut label = format!("<b>{}</b>", escape(&card.title));
    for line in [&card.program].into_iter().chain(&card.details) {
        label += "<br/>";
        label += &escape(line);
    }
    label
}

/// Mermaid takes HTML's names of letters, written with `#`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            'a'..='z'
            | 'A'..='Z'
            | '0'..='9'
            | ' '
            | '.'
            | ','
            | '-'
            | '_'
            | '/'
            | ':'
            | '('
            | ')' => {
                escaped.push(letter);
            }
            letter => {
                write!(escaped, "#{};", u32::from(letter)).expect("writing to a String cannot fail")
            }
        }
    }
    escaped
}
