//! What `flow --version` prints: the version, the commit, the Cargo features and the target.
//!
//! `cargo xtask dist` and the release workflow pass the commit in the variable FLOW_COMMIT. No build script asks git, because
//! then each commit would compile the program again.

use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

/// The commit that the program was built from.
const COMMIT: Option<&str> = option_env!("FLOW_COMMIT");

/// The Cargo features, and whether this program has them.
const FEATURES: &[(&str, bool)] = &[
    ("launch", cfg!(feature = "launch")),
    ("top", cfg!(feature = "top")),
    ("kubernetes", cfg!(feature = "kubernetes")),
    ("hub", cfg!(feature = "hub")),
    ("candle", cfg!(feature = "candle")),
    ("download", cfg!(feature = "download")),
    ("pgvector", cfg!(feature = "pgvector")),
];

static LONG: LazyLock<String> = LazyLock::new(|| describe(COMMIT, FEATURES));

/// The text after the program's name for `--version`; `-V` prints only the first line.
pub(crate) fn long() -> &'static str {
    &LONG
}

fn describe(commit: Option<&str>, features: &[(&str, bool)]) -> String {
    let commit = commit.unwrap_or("unknown");
    let enabled = features.iter().filter(|(_, enabled)| *enabled);
    let enabled: Vec<&str> = enabled.map(|(name, _)| *name).collect();
    let enabled = match enabled.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let version = env!("CARGO_PKG_VERSION");
    let target = target();
    format!("{version}\ncommit: {commit}\nfeatures: {enabled}\ntarget: {target}")
}

/// The target's name as rustc writes it, for the targets that flow is made for.
fn target() -> String {
    let library = match () {
        () if cfg!(target_env = "gnu") => "-gnu",
        () if cfg!(target_env = "musl") => "-musl",
        () => "",
    };
    format!("{ARCH}-unknown-{OS}{library}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_the_commit_and_the_features() {
        let text = describe(Some("0123abc-dirty"), &[("launch", true), ("hub", false)]);
        let lines: Vec<&str> = text.lines().collect();
        let [version, commit, features, target] = lines.as_slice() else {
            panic!("{text}");
        };
        assert_eq!(*version, env!("CARGO_PKG_VERSION"));
        assert_eq!(*commit, "commit: 0123abc-dirty");
        assert_eq!(*features, "features: launch");
        assert!(target.starts_with("target: "), "{target}");
    }

    #[test]
    fn a_program_without_commit_and_features_says_so() {
        let text = describe(None, &[("launch", false)]);
        assert!(text.contains("commit: unknown\nfeatures: none\n"), "{text}");
    }

    #[test]
    fn every_feature_of_the_package_is_named() {
        let manifest = include_str!("../Cargo.toml");
        let (_, features) = manifest.split_once("[features]\n").unwrap();
        let (features, _) = features.split_once("\n\n").unwrap();
        let lines = features.lines().filter(|line| !line.starts_with('#'));
        let names = lines.filter_map(|line| Some(line.split_once(" = ")?.0));
        let names: Vec<&str> = names.filter(|name| *name != "default").collect();
        let named: Vec<&str> = FEATURES.iter().map(|(name, _)| *name).collect();
        assert_eq!(named, names);
    }
}
