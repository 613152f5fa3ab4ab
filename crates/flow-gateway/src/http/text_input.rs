//! The texts of a request: one, or a list, in the forms that APIs allow.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::api_error::ApiError;

/// Texts, or token ids in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextInput {
    pub(crate) entries: Vec<TextEntry>,
    /// Whether it was one text, or the ids of one text, and not a list.
    pub(crate) is_single: bool,
}

/// A text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextEntry {
    Text(String),
    /// The ids of its tokens.
    Tokens(Vec<u32>),
}

impl TextInput {
    pub(crate) fn has_tokens(&self) -> bool {
        self.entries
            .iter()
            .any(|it| matches!(it, TextEntry::Tokens(_)))
    }

    /// The texts, for routes that take no token ids.
    pub(crate) fn texts(self, field: &'static str) -> Result<Vec<String>, ApiError> {
        let text = |entry| match entry {
            TextEntry::Text(text) => Ok(text),
            TextEntry::Tokens(_) => {
                let message = format!("`{field}` has token ids, and this route takes texts only");
                Err(ApiError::invalid(field, message))
            }
        };
        self.entries.into_iter().map(text).collect()
    }
}

impl<'de> Deserialize<'de> for TextInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InputVisitor)
    }
}

struct InputVisitor;

impl<'de> Visitor<'de> for InputVisitor {
    type Value = TextInput;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of texts, or token ids")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextInput, E> {
        Ok(TextInput {
            entries: vec![TextEntry::Text(text.to_owned())],
            is_single: true,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TextInput, A::Error> {
        let (mut entries, mut ids) = (Vec::new(), Vec::new());
        while let Some(entry) = list.next_element()? {
            match entry {
                Element::Text(text) => entries.push(TextEntry::Text(text)),
                Element::Tokens(ids) => entries.push(TextEntry::Tokens(ids)),
                Element::Token(id) => ids.push(id),
            }
        }
        let is_single = !ids.is_empty();
        if is_single && !entries.is_empty() {
            let text = "token ids stand beside texts; write the ids of each text as a list";
            return Err(Error::custom(text));
        }
        if is_single {
            entries.push(TextEntry::Tokens(ids));
        }
        Ok(TextInput { entries, is_single })
    }
}

/// An element of a list.
enum Element {
    Text(String),
    Tokens(Vec<u32>),
    /// One of the tokens of a text, which the whole list is.
    Token(u32),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, `{\"text\": …}`, or token ids")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Element, E> {
        Ok(Element::Text(text))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Element, E> {
        let id = u32::try_from(id);
        id.map(Element::Token)
            .map_err(|_| Error::custom("a token id is at most 4294967295"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
        let mut ids = Vec::new();
        while let Some(id) = list.next_element()? {
            ids.push(id);
        }
        Ok(Element::Tokens(ids))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Element, A::Error> {
        let mut text = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "text" => text = Some(map.next_value()?),
                // Cohere's `{"type": "text", "text": …}`.
                "type" => drop(map.next_value::<IgnoredAny>()?),
                other => {
                    let text = format!("an entry with `{other}` is not supported, only `text`");
                    return Err(Error::custom(text));
                }
            }
        }
        text.map(Element::Text)
            .ok_or_else(|| Error::missing_field("text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> TextInput {
        serde_json::from_str(json).unwrap()
    }

    #[track_caller]
    fn check(json: &str, texts: &[&str], is_single: bool) {
        let input = read(json);
        assert_eq!(input.is_single, is_single, "{json}");
        assert_eq!(input.texts("input").unwrap(), texts, "{json}");
    }

    #[test]
    fn texts_come_alone_in_lists_and_in_objects() {
        check(r#""a""#, &["a"], true);
        check(r#"["a", "b"]"#, &["a", "b"], false);
        check(r#"[{"text": "a"}, "b"]"#, &["a", "b"], false);
        check(r#"[{"type": "text", "text": "ä\n"}]"#, &["ä\n"], false);
        check("[]", &[], false);
    }

    #[test]
    fn token_ids_stand_for_one_text_or_for_each_of_several() {
        let check = |json: &str, lists: &[&[u32]], is_single: bool| {
            let input = read(json);
            let expected: Vec<TextEntry> = lists
                .iter()
                .map(|ids| TextEntry::Tokens(ids.to_vec()))
                .collect();
            assert_eq!(
                (input.entries, input.is_single),
                (expected, is_single),
                "{json}"
            );
        };
        check("[1, 2]", &[&[1, 2]], true);
        check("[[1, 2], [3]]", &[&[1, 2], &[3]], false);
        check("[[]]", &[&[]], false);
        let mixed = read(r#"["a", [1]]"#);
        assert_eq!(mixed.entries[1], TextEntry::Tokens(vec![1]));
        let error = mixed.texts("input").unwrap_err();
        assert_eq!(error.field, Some("input"));
        assert!(error.message.contains("token ids"), "{}", error.message);
    }

    #[test]
    fn other_values_are_not_texts() {
        for json in [
            "1",
            "null",
            "{}",
            "[null]",
            "[-1]",
            "[[\"a\"]]",
            "[1, \"a\"]",
            "[1, [2]]",
            "[4294967296]",
            "[[-1]]",
            r#"[{"image": "x"}]"#,
        ] {
            assert!(serde_json::from_str::<TextInput>(json).is_err(), "{json}");
        }
    }
}
