//! Where a written package finds flow's SDK.

use std::path::Path;

use serde_json::json;

use super::draft::bad_source;

/// The SDK's folder in a checkout.
const SDK: &str = "crates/flow-executor";

/// Where whoever has no checkout gets it from.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The dependency as Cargo.toml has it.
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

/// The checkout that this program was built in, if it still lies there: `target/<profile>/flow`.
fn own_checkout() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let root = program.ancestors().nth(3)?;
    checkout(root)
}

fn checkout(root: &Path) -> Option<String> {
    let sdk = root.join(SDK).canonicalize().ok()?;
    let is_there = sdk.join("Cargo.toml").is_file();
    // Texts of JSON are texts of TOML.
    is_there.then(|| format!("path = {}", json!(sdk.to_string_lossy())))
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
        let told = dependency(Some(shown)).unwrap_err().to_string();
        assert!(
            told.ends_with("is no checkout of flow, and no URL"),
            "{told}"
        );
        std::fs::write(root.join(SDK).join("Cargo.toml"), "").unwrap();
        let found = dependency(Some(shown)).unwrap();
        assert_eq!(found, format!("path = \"{shown}/crates/flow-executor\""));
        let fetched = dependency(Some("https://example.com/x")).unwrap();
        assert_eq!(fetched, "git = \"https://example.com/x\"");
    }
}
