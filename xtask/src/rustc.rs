//! What this machine's rustc says about itself.

use std::process::Command;

use anyhow::Context;

use crate::shell;

/// rustc, as cargo would call it.
pub(crate) fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// The target that it compiles for by default, such as `x86_64-unknown-linux-gnu`.
pub(crate) fn host() -> anyhow::Result<String> {
    let version = shell::output(rustc().arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}
