//! The dependency of a new package on flow's SDK.

use std::path::Path;

use serde_json::json;

use crate::exit::BadUsage;

/// The SDK's folder in a checkout.
const SDK: &str = "crates/flow-executor";

/// The default source without a checkout.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The dependency in the notation of Cargo.toml.
///
/// # Errors
///
/// If `given` is neither a checkout nor a URL.
pub(super) fn dependency(given: Option<&str>) -> anyhow::Result<String> {
    match given {
        Some(url) if url.contains("://") => Ok(git(url)),
        Some(path) => checkout(Path::new(path)).ok_or_else(|| bad_source(path)),
        None => Ok(own_checkout().unwrap_or_else(|| git(REPOSITORY))),
    }
}

/// The checkout that this program was built in, if it still exists: the program is `target/<profile>/flow`.
fn own_checkout() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let root = program.ancestors().nth(3)?;
    checkout(root)
}

fn checkout(root: &Path) -> Option<String> {
    let sdk = root.join(SDK).canonicalize().ok()?;
    let is_there = sdk.join("Cargo.toml").is_file();
    // Strings of JSON are valid in TOML.
    is_there.then(|| format!("path = {}", json!(sdk.to_string_lossy())))
}

fn bad_source(text: &str) -> anyhow::Error {
    BadUsage(format!(
        "`--flow-source`: `{text}` is neither a checkout of flow nor a URL"
    ))
    .into()
}

fn git(url: &str) -> String {
    format!("git = {}", json!(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_comes_from_a_checkout_or_from_git() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(SDK)).unwrap();
        let shown = root.to_str().unwrap();
        let error = dependency(Some(shown)).unwrap_err().to_string();
        assert!(
            error.ends_with("is neither a checkout of flow nor a URL"),
            "{error}"
        );
        std::fs::write(root.join(SDK).join("Cargo.toml"), "").unwrap();
        let found = dependency(Some(shown)).unwrap();
        assert_eq!(found, format!("path = \"{shown}/crates/flow-executor\""));
        let fetched = dependency(Some("https://example.com/x")).unwrap();
        assert_eq!(fetched, "git = \"https://example.com/x\"");
    }
}
