//! Executors by name: what `hub://` and Jina's forms of it mean, and which image of a registry that is.
//!
//! | written                             | image in the hub `registry.example.com/team`       |
//! |-------------------------------------|----------------------------------------------------|
//! | `hub://SentenceEncoder`             | `registry.example.com/team/sentence-encoder:latest` |
//! | `hub://sentence-encoder:gpu`        | `registry.example.com/team/sentence-encoder:gpu`    |
//! | `jinahub+docker://SentenceEncoder/gpu` | the same                                        |
//! | `jinaai+docker://user/SentenceEncoder:gpu` | `registry.example.com/team/user/sentence-encoder:gpu` |
//!
//! Without `+docker` Jina would run an executor's source here; flow runs its image all the same. Registries know
//! small letters only, so capitals begin words.

use std::fmt;

/// Names the hub where a flow file does not.
pub const HUB_VARIABLE: &str = "FLOW_HUB";

/// The tag that is meant where none is written.
const TAG_DEFAULT: &str = "latest";

/// The longest tag that registries take.
const TAG_LENGTH_MAX: usize = 128;

/// An executor of a hub, by its name and tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// The path below the hub, in lower case; a user's executors have a folder.
    repository: String,
    tag: String,
}

/// Why a text is no executor of a hub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHubName {
    /// A name that no registry takes.
    #[error(
        "`{0}` is not a valid name of an executor: write letters and digits, with single hyphens between them, as in \
         `SentenceEncoder` or `sentence-encoder`"
    )]
    Name(String),
    /// A tag that no registry takes.
    #[error(
        "`{0}` is not a valid tag: write letters, digits, dots and hyphens, as in `v1` or `gpu`"
    )]
    Tag(String),
    /// A private executor of Jina's hub.
    #[error(
        "`{0}` contains a secret of Jina's own hub, which other registries do not use: leave it out"
    )]
    Secret(String),
    /// Jina's hosted executors.
    #[error(
        "`{0}` is Jina's sandbox, a service that flow does not use: name the executor with `hub://`"
    )]
    Sandbox(String),
    /// The text is not a registry.
    #[error(
        "`{0}` is not a registry: write `HOST[:PORT][/FOLDER]`, without `https://`, as in `registry.example.com/team`"
    )]
    Hub(String),
}

/// A registry, or a folder in it, that executors' names are looked up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub(String);

impl Hub {
    /// Reads `HOST[:PORT][/FOLDER]`.
    ///
    /// # Errors
    /// If it is a URL, or no name of folders.
    pub fn parse(text: &str) -> Result<Self, BadHubName> {
        let wrong = || BadHubName::Hub(text.to_owned());
        let hub = text.trim_end_matches('/');
        let (first, folders) = match hub.split_once('/') {
            Some((first, folders)) => (first, Some(folders)),
            None => (hub, None),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:_".contains(c);
        let is_named = !first.is_empty() && first.chars().all(is_host);
        let is_below = folders.is_none_or(|it| it.split('/').all(is_component));
        match is_named && is_below {
            true => Ok(Self(hub.to_owned())),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HubName {
    /// Parses `hub://NAME[:TAG]` and Jina's forms. Returns `None` for other kinds of text.
    ///
    /// # Errors
    /// If it is an executor of a hub, but none that a registry can have.
    #[must_use]
    pub fn parse(uses: &str) -> Option<Result<Self, BadHubName>> {
        let (scheme, name) = uses.split_once("://")?;
        Some(match scheme {
            "hub" | "hub+docker" | "jinaai" | "jinaai+docker" => Self::named(name),
            "jinahub" | "jinahub+docker" => Self::of_jina_hub(uses, name),
            "jinahub+sandbox" | "jinaai+sandbox" => Err(BadHubName::Sandbox(uses.to_owned())),
            _ => return None,
        })
    }

    /// Reads `NAME[:TAG]`, as commands take it.
    ///
    /// # Errors
    /// If a registry can have no such name or tag.
    pub fn named(text: &str) -> Result<Self, BadHubName> {
        match text.rsplit_once(':') {
            Some((name, tag)) => Self::new(name, Some(tag)),
            None => Self::new(text, None),
        }
    }

    /// `Name[:secret][/tag]`.
    fn of_jina_hub(uses: &str, text: &str) -> Result<Self, BadHubName> {
        if text.contains(':') {
            return Err(BadHubName::Secret(uses.to_owned()));
        }
        match text.split_once('/') {
            Some((name, tag)) => Self::new(name, Some(tag)),
            None => Self::new(text, None),
        }
    }

    /// A name, and its tag or `latest`.
    ///
    /// # Errors
    /// If a registry can have no such name or tag.
    pub fn new(name: &str, tag: Option<&str>) -> Result<Self, BadHubName> {
        let components: Vec<String> = name.split('/').map(component).collect();
        if !components.iter().all(|it| is_component(it)) {
            return Err(BadHubName::Name(name.to_owned()));
        }
        let tag = tag.unwrap_or(TAG_DEFAULT);
        if !is_tag(tag) {
            return Err(BadHubName::Tag(tag.to_owned()));
        }
        Ok(Self {
            repository: components.join("/"),
            tag: tag.to_owned(),
        })
    }

    /// The name below the hub.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The image that this name means in a hub.
    #[must_use]
    pub fn image(&self, hub: &Hub) -> String {
        format!("{hub}/{}:{}", self.repository, self.tag)
    }
}

/// `SentenceEncoder` → `sentence-encoder`. Adjacent capitals are one word, so that `CLIPEncoder`
/// does not become letters.
fn component(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut kebab = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|it| letters[it]);
        let is_after_word = before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        let is_before_word = letters.get(at + 1).is_some_and(char::is_ascii_lowercase)
            && before.is_some_and(|it| it.is_ascii_uppercase());
        if letter.is_ascii_uppercase() && (is_after_word || is_before_word) {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

/// Words of small letters and digits, with one hyphen, dot or underscore between; what every registry takes.
fn is_component(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split(['-', '_', '.'])
        .all(|word| !word.is_empty() && word.chars().all(is_plain))
}

fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(is_word)
        && text.len() <= TAG_LENGTH_MAX
        && text.chars().all(|c| is_word(c) || c == '-' || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(uses: &str) -> String {
        let hub = Hub::parse("registry.example.com/team").unwrap();
        match HubName::parse(uses).unwrap() {
            Ok(name) => name.image(&hub),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_form_of_a_name_is_an_image_of_the_hub() {
        let check = |uses: &str, below: &str| {
            let expected = format!("registry.example.com/team/{below}");
            assert_eq!(image(uses), expected, "{uses}");
        };
        check("hub://SentenceEncoder", "sentence-encoder:latest");
        check("hub://sentence-encoder:v1.2", "sentence-encoder:v1.2");
        check("hub://me/SentenceEncoder:gpu", "me/sentence-encoder:gpu");
        check(
            "jinahub://TransformerTorchEncoder",
            "transformer-torch-encoder:latest",
        );
        check(
            "jinahub+docker://TransformerTorchEncoder/gpu",
            "transformer-torch-encoder:gpu",
        );
        check(
            "jinaai://jina-ai/CLIPEncoder",
            "jina-ai/clip-encoder:latest",
        );
        check(
            "jinaai+docker://jina-ai/Clip2Encoder:v1-gpu",
            "jina-ai/clip2-encoder:v1-gpu",
        );
    }

    #[test]
    fn names_that_no_registry_can_have_are_refused() {
        let check = |uses: &str, part: &str| {
            let output = image(uses);
            assert!(output.contains(part), "{uses}: {output}");
        };
        check("hub://", "is not a valid name");
        check("hub://a--b", "`a--b` is not a valid name");
        check("hub://a b", "is not a valid name");
        check("hub://a/", "is not a valid name");
        check("hub://a:", "`` is not a valid tag");
        check("hub://a:-x", "`-x` is not a valid tag");
        check("jinahub+docker://A/v1/v2", "`v1/v2` is not a valid tag");
        check("jinahub+docker://A:secret/v1", "leave it out");
        check("jinaai+sandbox://a/B", "sandbox");
    }

    #[test]
    fn other_schemes_are_not_hub_names() {
        for uses in ["docker://a", "echo", "https://x/y", "./hub"] {
            assert_eq!(HubName::parse(uses), None, "{uses}");
        }
    }

    #[test]
    fn a_hub_is_a_host_with_optional_folders() {
        for good in [
            "localhost:5000",
            "registry.example.com",
            "r.example.com/a/b-c/",
            "team",
        ] {
            assert!(Hub::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "https://r.example.com",
            "r.example.com/A",
            "r.example.com//a",
        ] {
            assert!(Hub::parse(bad).is_err(), "{bad}");
        }
    }
}
