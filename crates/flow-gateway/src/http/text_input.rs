//! The texts of a request: one, or a list, in the forms that APIs allow.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::api_error::ApiError;

/// Texts, or tokens in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextInput {
    pub(crate) texts: Vec<String>,
    /// Whether it was one text and not a list.
    pub(crate) is_single: bool,
    /// Whether there are token ids in it.
    has_tokens: bool,
}

/// One entry of a list.
enum TextEntry {
    Text(String),
    /// A token, or the tokens of a text.
    Tokens,
}

impl TextInput {
    /// The texts. Token ids are refused: they are numbers of a vocabulary, mostly OpenAI's, which the model does not have.
    pub(crate) fn texts(self, field: &'static str) -> Result<Vec<String>, ApiError> {
        if !self.has_tokens {
            return Ok(self.texts);
        }
        let message = format!(
            "`{field}` has token ids, and the model's vocabulary is not the one that they are from; send texts \
             (in LangChain's `OpenAIEmbeddings`, set `check_embedding_ctx_length=False`)"
        );
        Err(ApiError::invalid(field, message))
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
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextInput, E> {
        Ok(TextInput {
            texts: vec![text.to_owned()],
            is_single: true,
            has_tokens: false,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TextInput, A::Error> {
        let mut input = TextInput {
            texts: Vec::new(),
            is_single: false,
            has_tokens: false,
        };
        while let Some(entry) = list.next_element()? {
            match entry {
                TextEntry::Text(text) => input.texts.push(text),
                TextEntry::Tokens => input.has_tokens = true,
            }
        }
        Ok(input)
    }
}

impl<'de> Deserialize<'de> for TextEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = TextEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or `{\"text\": …}`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextEntry, E> {
        Ok(TextEntry::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<TextEntry, E> {
        Ok(TextEntry::Text(text))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<TextEntry, E> {
        Ok(TextEntry::Tokens)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut tokens: A) -> Result<TextEntry, A::Error> {
        while tokens.next_element::<u64>()?.is_some() {}
        Ok(TextEntry::Tokens)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TextEntry, A::Error> {
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
        text.map(TextEntry::Text)
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
    fn token_ids_are_refused_with_the_way_out() {
        for json in ["[1, 2]", "[[1, 2], [3]]", r#"["a", [1]]"#] {
            let error = read(json).texts("input").unwrap_err();
            assert_eq!(error.field, Some("input"));
            let message = &error.message;
            assert!(
                message.contains("check_embedding_ctx_length=False"),
                "{message}"
            );
        }
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
            r#"[{"image": "x"}]"#,
        ] {
            assert!(serde_json::from_str::<TextInput>(json).is_err(), "{json}");
        }
    }
}
