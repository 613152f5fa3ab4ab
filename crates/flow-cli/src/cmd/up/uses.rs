//! Finds what `uses:` names where it is a path: a program, or a folder or `config.yml` that names one.
//!
//! A relative path is looked for from where the command was typed, and then beside the flow file.
//! What a `config.yml` says is what an executor is built with where the flow says nothing.

use std::path::Path;

use anyhow::Context;
use flow_spec::{Env, ExecutorConfig, LocalRun, Plan, Run, Uses};

use super::read::Noted;
use crate::exit::BadUsage;
use crate::folder::python::Jina;
use crate::folder::{self, Found, package};
use crate::shell::Shell;

/// Puts programs in the place of paths, where nobody waits for the files to change.
pub(crate) fn resolve_once(plan: &mut Plan, flow_file: &Path, shell: &Shell) -> anyhow::Result<()> {
    resolve(plan, flow_file, &Noted::new(shell))
}

/// Puts programs in the place of paths, and takes note of every `config.yml` that it reads. Packages of
/// Rust are built on the way.
pub(super) fn resolve(plan: &mut Plan, flow_file: &Path, noted: &Noted<'_>) -> anyhow::Result<()> {
    let beside = flow_file.parent().unwrap_or(Path::new(""));
    let places = [Path::new(""), beside];
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run {
            let name = &node.name;
            resolve_run(run, &places, noted)
                .with_context(|| BadUsage(format!("cannot run what `{name}` uses")))?;
        }
    }
    Ok(())
}

fn resolve_run(run: &mut LocalRun, places: &[&Path], noted: &Noted<'_>) -> anyhow::Result<()> {
    for around in [&mut run.before, &mut run.after].into_iter().flatten() {
        resolve_around(around, &run.env, places, noted)?;
    }
    if let Some((uses, config)) = program(&run.uses, &run.env, places, noted)? {
        config.overlay(run);
        run.uses = uses;
    }
    Ok(())
}

/// What is called around shards is given by its name alone, so its config may say no more than that.
fn resolve_around(
    around: &mut Uses,
    env: &Env,
    places: &[&Path],
    noted: &Noted<'_>,
) -> anyhow::Result<()> {
    if let Some((uses, config)) = program(around, env, places, noted)? {
        let says_more = !config.with.is_empty() || !config.requests.is_empty();
        anyhow::ensure!(
            !says_more,
            "the config of `{}` says `with` or `requests`, which flow does not hand to `uses_before` and \
             `uses_after`",
            folder::name(&config)
        );
        *around = uses;
    }
    Ok(())
}

/// What runs where a path stands, and its config; none: it is no path.
fn program(
    uses: &Uses,
    env: &Env,
    places: &[&Path],
    noted: &Noted<'_>,
) -> anyhow::Result<Option<(Uses, ExecutorConfig)>> {
    let Uses::Path(written) = uses else {
        return Ok(None);
    };
    let shell = noted.shell;
    let note = |path: &Path| noted.note(path);
    Ok(Some(match folder::look(written, places, shell, &note)? {
        Found::Program(path) => (Uses::Path(path), ExecutorConfig::default()),
        Found::Named(config) => (config.uses(), config),
        Found::Package { manifest, config } => {
            let program = package::build(&manifest, &folder::name(&config), shell)?;
            (Uses::Path(program), config)
        }
        // Jina reads the config by itself; the launcher calls `flow executor --uses CONFIG`.
        Found::Python(path) => {
            let variable = |name: &str| env.get(name).cloned().or_else(|| shell.variable(name));
            Jina::find(&path, variable)?;
            (Uses::Path(path), ExecutorConfig::default())
        }
    }))
}
