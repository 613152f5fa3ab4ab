//! Finds what `uses:` names where it is a path: a program, or a folder or `config.yml` that names one.
//!
//! A relative path is looked for from where the command was typed, and then beside the flow file.
//! What a `config.yml` says is what an executor is built with where the flow says nothing.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{ExecutorConfig, LocalRun, Plan, Run, TextFile, Uses, Variables};

use super::read::Noted;
use crate::exit::BadUsage;

/// The file that a folder of an executor is known by.
const CONFIG: &str = "config.yml";

/// Puts programs in the place of paths, and takes note of every `config.yml` that it reads.
pub(super) fn resolve(plan: &mut Plan, flow_file: &Path, noted: &Noted<'_>) -> anyhow::Result<()> {
    let beside = flow_file.parent().unwrap_or(Path::new(""));
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run {
            let name = &node.name;
            resolve_run(run, beside, noted)
                .with_context(|| BadUsage(format!("cannot find what `{name}` uses")))?;
        }
    }
    Ok(())
}

fn resolve_run(run: &mut LocalRun, beside: &Path, noted: &Noted<'_>) -> anyhow::Result<()> {
    for uses in [&mut run.before, &mut run.after].into_iter().flatten() {
        resolve_around(uses, beside, noted)?;
    }
    match found(&run.uses, beside)? {
        Some(Found::Config(path)) => load(&path, noted)?.overlay(run),
        Some(Found::Program(path)) => run.uses = Uses::Path(path),
        None => {}
    }
    Ok(())
}

/// What is called around shards is given by its name alone, so its config may say no more than that.
fn resolve_around(uses: &mut Uses, beside: &Path, noted: &Noted<'_>) -> anyhow::Result<()> {
    match found(uses, beside)? {
        Some(Found::Config(path)) => {
            let config = load(&path, noted)?;
            let says_more = !config.with.is_empty() || !config.requests.is_empty();
            anyhow::ensure!(
                !says_more,
                "`{}` says `with` or `requests`, which flow does not hand to `uses_before` and `uses_after`",
                path.display()
            );
            *uses = config.uses();
        }
        Some(Found::Program(path)) => *uses = Uses::Path(path),
        None => {}
    }
    Ok(())
}

enum Found {
    Program(PathBuf),
    Config(PathBuf),
}

/// What a path leads to; none: it is a name.
fn found(uses: &Uses, beside: &Path) -> anyhow::Result<Option<Found>> {
    let Uses::Path(written) = uses else {
        return Ok(None);
    };
    let path = find(written, beside)?;
    let extension = path.extension();
    let is_config = extension.is_some_and(|it| it == "yml" || it == "yaml");
    Ok(Some(if is_config {
        Found::Config(path)
    } else {
        Found::Program(path)
    }))
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

fn load(path: &Path, noted: &Noted<'_>) -> anyhow::Result<ExecutorConfig> {
    noted.note(path);
    let shell = noted.shell;
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
