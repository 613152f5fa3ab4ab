//! Finds what `uses:` names where it is a path: a program, or a folder or `config.yml` that names one.
//!
//! A relative path is looked for from where the command was typed, and then beside the flow file.
//! What a `config.yml` says is what an executor is built with where the flow says nothing.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{ExecutorConfig, LocalRun, Plan, Run, TextFile, Uses, Variables};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// The file that a folder of an executor is known by.
const CONFIG: &str = "config.yml";

/// Puts programs in the place of paths.
pub(super) fn resolve(plan: &mut Plan, flow_file: &Path, shell: &Shell) -> anyhow::Result<()> {
    let beside = flow_file.parent().unwrap_or(Path::new(""));
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run {
            let name = &node.name;
            resolve_run(run, beside, shell)
                .with_context(|| BadUsage(format!("cannot find what `{name}` uses")))?;
        }
    }
    Ok(())
}

fn resolve_run(run: &mut LocalRun, beside: &Path, shell: &Shell) -> anyhow::Result<()> {
    let Uses::Path(written) = &run.uses else {
        return Ok(());
    };
    let found = find(written, beside)?;
    let is_config = found
        .extension()
        .is_some_and(|it| it == "yml" || it == "yaml");
    if is_config {
        let config = load(&found, shell)?;
        config.overlay(run);
    } else {
        run.uses = Uses::Path(found);
    }
    Ok(())
}

fn find(written: &Path, beside: &Path) -> anyhow::Result<PathBuf> {
    let places = [written.to_owned(), beside.join(written)];
    let exists = places.iter().find(|path| path.exists());
    let path = exists.with_context(|| format!("there is no `{}`", written.display()))?;
    let config = path.join(CONFIG);
    match (path.is_dir(), config.is_file()) {
        (false, _) => Ok(path.clone()),
        (true, true) => Ok(config),
        (true, false) => anyhow::bail!("folder `{}` holds no `{CONFIG}`", path.display()),
    }
}

fn load(path: &Path, shell: &Shell) -> anyhow::Result<ExecutorConfig> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let variables = Variables {
        env: shell.variables.clone().into_iter().collect(),
        ..Variables::default()
    };
    let (config, _warnings) = ExecutorConfig::load(TextFile { path, text: &text }, &variables)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_path_is_looked_for_here_and_then_beside_the_flow_file() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path();
        fs::create_dir_all(beside.join("with")).unwrap();
        fs::create_dir_all(beside.join("without")).unwrap();
        fs::write(beside.join("with/config.yml"), "jtype: Echo").unwrap();
        fs::write(beside.join("program"), "").unwrap();

        let found = |written: &str| find(Path::new(written), beside).map_err(|it| it.to_string());
        assert_eq!(found("./program"), Ok(beside.join("./program")));
        assert_eq!(found("./with"), Ok(beside.join("./with/config.yml")));
        assert_eq!(
            found("./nothing"),
            Err("there is no `./nothing`".to_owned())
        );
        let without = found("./without").unwrap_err();
        assert!(without.ends_with("holds no `config.yml`"), "{without}");
    }
}
