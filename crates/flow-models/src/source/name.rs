//! Names of models: a folder, or a repository on the Hugging Face hub.

use std::path::{Path, PathBuf};

/// The default model, and the only one that can be fetched without the hub.
pub const DEFAULT_MODEL: &str = "sentence-transformers/all-MiniLM-L6-v2";
/// The default revision.
pub const DEFAULT_REVISION: &str = "main";
/// The owner of a name without owner, as in sentence-transformers.
const DEFAULT_OWNER: &str = "sentence-transformers";

/// A requested model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A repository on the hub.
    Hub(HubModel),
}

/// A repository on the hub at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubModel {
    /// `owner/name`.
    pub id: String,
    /// Branch, tag or commit.
    pub revision: String,
}

/// A model's name or revision is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModelName {
    /// The name is neither a path nor a name on the hub.
    #[error(
        "`{0}` is not the name of a model: give a folder, or a name on the hub such as `{DEFAULT_MODEL}`"
    )]
    Form(String),
    /// The revision is not a valid path within the cache.
    #[error("`{0}` is not a revision: give a branch, a tag or a commit")]
    Revision(String),
}

impl ModelName {
    /// Parses a model's name.
    ///
    /// A text that begins like a path, or that is the path of a folder, is a folder. Anything else is a name on the hub.
    ///
    /// # Errors
    ///
    /// If the text is neither, or the revision is invalid.
    pub fn parse(text: &str, revision: Option<&str>) -> Result<Self, InvalidModelName> {
        let starts_like_path = ["/", "./", "../"]
            .iter()
            .any(|start| text.starts_with(start));
        if starts_like_path || Path::new(text).is_dir() {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        let revision = revision.unwrap_or(DEFAULT_REVISION);
        if !is_revision(revision) {
            return Err(InvalidModelName::Revision(revision.to_owned()));
        }
        let id = hub_id(text).ok_or_else(|| InvalidModelName::Form(text.to_owned()))?;
        Ok(Self::Hub(HubModel {
            id,
            revision: revision.to_owned(),
        }))
    }
}

impl HubModel {
    /// The name of its folder in the Hugging Face cache.
    #[must_use]
    pub fn folder_name(&self) -> String {
        format!("models--{}", self.id.replace('/', "--"))
    }
}

fn hub_id(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('/').collect();
    if !parts.iter().all(|part| is_component(part)) {
        return None;
    }
    match parts[..] {
        [name] => Some(format!("{DEFAULT_OWNER}/{name}")),
        [owner, name] => Some(format!("{owner}/{name}")),
        _ => None,
    }
}

fn is_revision(text: &str) -> bool {
    text.split('/').all(is_component)
}

/// Whether the text is a path component of letters, digits, `.`, `_` and `-` that stays within its folder.
fn is_component(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let name = ModelName::parse(text, None).unwrap();
        let id = expected.to_owned();
        assert_eq!(
            name,
            ModelName::Hub(HubModel {
                id,
                revision: "main".to_owned()
            })
        );
    }

    #[test]
    fn a_name_without_owner_belongs_to_sentence_transformers() {
        check("all-MiniLM-L6-v2", DEFAULT_MODEL);
        check("BAAI/bge-small-en-v1.5", "BAAI/bge-small-en-v1.5");
    }

    #[test]
    fn a_text_that_begins_like_a_path_is_a_folder_even_if_it_does_not_exist() {
        for text in ["/no/such", "./model", "../model"] {
            assert_eq!(
                ModelName::parse(text, None),
                Ok(ModelName::Folder(text.into()))
            );
        }
    }

    #[test]
    fn names_of_models_cannot_leave_the_cache_folder() {
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
