//! Folders that containers are to see, as whoever types `flow up` means them: `~` is his home, and a
//! relative path begins at the flow file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{Plan, Run};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// Writes out the paths of every folder.
pub(in crate::cmd) fn resolve(
    plan: &mut Plan,
    flow_file: &Path,
    shell: &Shell,
) -> anyhow::Result<()> {
    let home = shell.variable("HOME").map(PathBuf::from);
    let beside = flow_file.parent().unwrap_or(Path::new(""));
    for node in &mut plan.nodes {
        let Run::Local(run) = &mut node.run else {
            continue;
        };
        let volumes = run.container.volumes.iter_mut();
        for volume in volumes.filter(|volume| !volume.is_named) {
            let full = full(&volume.host, home.as_deref(), beside);
            let full = full.with_context(|| {
                BadUsage(format!("`{}` cannot have `{}`", node.name, volume.host))
            })?;
            volume.host = full.to_string_lossy().into_owned();
        }
        if let Some(workspace) = &mut run.workspace {
            // An engine takes no other paths; to a process it is the same folder.
            *workspace = std::path::absolute(&*workspace)?;
        }
    }
    Ok(())
}

fn full(written: &str, home: Option<&Path>, beside: &Path) -> anyhow::Result<PathBuf> {
    let path = match written.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = home.context("`~` means nothing: HOME is not set")?;
            home.join(rest.trim_start_matches('/'))
        }
        _ => beside.join(written),
    };
    let full = std::path::absolute(path)?;
    anyhow::ensure!(
        !full.to_string_lossy().contains(':'),
        "an engine takes no folder with a `:` in its path, as `{}`",
        full.display()
    );
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_a_relative_and_an_absolute_path_become_absolute() {
        let check = |written: &str, expected: &str| {
            let found = full(written, Some(Path::new("/home/me")), Path::new("/flows"));
            assert_eq!(found.unwrap(), Path::new(expected), "{written}");
        };
        check("~/.cache", "/home/me/.cache");
        check("~", "/home/me");
        check("~other/x", "/flows/~other/x");
        check("data/x", "/flows/data/x");
        check("./data", "/flows/data");
        check("/data", "/data");
    }

    #[test]
    fn a_path_that_an_engine_would_misread_is_told() {
        let error = |written: &str, home| full(written, home, Path::new("/flows")).unwrap_err();
        let text = error("a:b", None).to_string();
        assert!(text.contains("takes no folder with a `:`"), "{text}");
        assert!(error("~/x", None).to_string().contains("HOME is not set"));
    }
}
