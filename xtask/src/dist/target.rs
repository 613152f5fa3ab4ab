//! The targets that releases are made for, and whether this machine can compile for one.

use std::path::Path;

use anyhow::{Context, bail};

use crate::{rustc, shell};

/// A target by rustc's name, such as `x86_64-unknown-linux-gnu`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target(String);

impl Target {
    /// The target of this machine's rustc.
    pub(super) fn of_host() -> anyhow::Result<Self> {
        Ok(Self(rustc::host()?))
    }

    pub(super) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// Debian's name of the architecture. Only programs with glibc get a package: that is what Debian has.
    pub(super) fn debian(&self) -> Option<&'static str> {
        match self.name() {
            "x86_64-unknown-linux-gnu" => Some("amd64"),
            "aarch64-unknown-linux-gnu" => Some("arm64"),
            _ => None,
        }
    }

    /// Fails if Rust's standard library is not installed for the target.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let name = self.name();
        let folder =
            shell::output(rustc::rustc().args(["--print", "target-libdir", "--target", name]))
                .with_context(|| {
                    format!(
                        "rustc knows no target `{name}`; `rustc --print target-list` lists them"
                    )
                })?;
        if !Path::new(folder.trim()).exists() {
            bail!(
                "Rust's standard library for `{name}` is not installed: run `rustup target add {name}`"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_has_packages_for_two_targets() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(Target::named(name).debian(), expected, "{name}");
        };
        check("x86_64-unknown-linux-gnu", Some("amd64"));
        check("aarch64-unknown-linux-gnu", Some("arm64"));
        check("x86_64-unknown-linux-musl", None);
    }

    #[test]
    fn a_target_that_rustc_does_not_know_is_named() {
        let error = Target::named("z80-unknown-cpm").check().unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("no target `z80-unknown-cpm`"), "{text}");
    }

    /// Rust distributes no standard library for this target, so it is installed nowhere.
    #[test]
    fn a_target_without_standard_library_says_what_to_install() {
        let error = Target::named("mipsel-sony-psp").check().unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("rustup target add mipsel-sony-psp"), "{text}");
    }

    #[test]
    fn this_machine_can_compile_for_itself() {
        Target::of_host().unwrap().check().unwrap();
    }
}
