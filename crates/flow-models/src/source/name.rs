//! What a user calls a model: a folder, or a name on the hub.

use std::path::{Path, PathBuf};

/// The model that is used if none is named, and the only one that does not need the hub.
pub const DEFAULT_MODEL: &str = "sentence-transformers/all-MiniLM-L6-v2";
/// The revision that is used if none is named.
pub const DEFAULT_REVISION: &str = "main";
/// Who a bare name belongs to, as in sentence-transformers.
const DEFAULT_OWNER: &str = "sentence-transformers";

/// A model as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A repository on the hub.
    Hub(HubName),
}

/// A repository on the hub at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// `owner/name`.
    pub id: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

/// The text names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadModelName {
    /// Neither a path nor a name on the hub.
    #[error("`{0}` names no model: give a folder, or a name on the hub such as `{DEFAULT_MODEL}`")]
    Form(String),
    /// The revision would lead out of the cache.
    #[error("`{0}` is not a revision: give a branch, a tag or a commit")]
    Revision(String),
}

impl ModelName {
    /// Takes a user's words for a model apart.
    ///
    /// What begins like a path is a folder, and so is what is one; all else is a name on the hub.
    ///
    /// # Errors
    ///
    /// If the text is neither.
    pub fn parse(text: &str, revision: Option<&str>) -> Result<Self, BadModelName> {
        let starts_like_path = ["/", "./", "../"]
            .iter()
            .any(|start| text.starts_with(start));
        if starts_like_path || Path::new(text).is_dir() {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        let revision = revision.unwrap_or(DEFAULT_REVISION);
        if !is_revision(revision) {
            return Err(BadModelName::Revision(revision.to_owned()));
        }
        let id = hub_id(text).ok_or_else(|| BadModelName::Form(text.to_owned()))?;
        Ok(Self::Hub(HubName {
            id,
            revision: revision.to_owned(),
        }))
    }
}

impl HubName {
    /// The name as one part of a path, as the Hugging Face cache writes it.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("models--{}", self.id.replace('/', "--"))
    }
}

fn hub_id(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('/').collect();
    if !parts.iter().all(|part| is_word(part)) {
        return None;
    }
    match parts[..] {
        [name] => Some(format!("{DEFAULT_OWNER}/{name}")),
        [owner, name] => Some(format!("{owner}/{name}")),
        _ => None,
    }
}

fn is_revision(text: &str) -> bool {
    text.split('/').all(is_word)
}

/// Letters, digits, `.`, `_` and `-`, but nothing that means another folder.
fn is_word(text: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: &str) {
        let name = ModelName::parse(text, None).unwrap();
        let id = wanted.to_owned();
        assert_eq!(
            name,
            ModelName::Hub(HubName {
                id,
                revision: "main".to_owned()
            })
        );
    }

    #[test]
    fn a_bare_name_belongs_to_sentence_transformers() {
        check("all-MiniLM-L6-v2", DEFAULT_MODEL);
        check("BAAI/bge-small-en-v1.5", "BAAI/bge-small-en-v1.5");
    }

    #[test]
    fn what_begins_like_a_path_is_a_folder_even_if_it_is_not_there() {
        for text in ["/no/such", "./model", "../model"] {
            assert_eq!(
                ModelName::parse(text, None),
                Ok(ModelName::Folder(text.into()))
            );
        }
    }

    #[test]
    fn names_cannot_lead_out_of_the_cache() {
        for text in ["", "a/b/c", "a b", "a/..", "...", "a//b", "http://x/y"] {
            assert!(ModelName::parse(text, None).is_err(), "{text:?}");
        }
        for revision in ["", "..", "a/../b", "/etc"] {
            assert!(
                ModelName::parse("a/b", Some(revision)).is_err(),
                "{revision:?}"
            );
        }
        assert!(ModelName::parse("a/b", Some("refs/pr/7")).is_ok());
    }
}
