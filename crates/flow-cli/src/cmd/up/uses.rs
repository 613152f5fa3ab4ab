//! Finds what `uses:` names where it is a path or a folder beside the flow file: a program, or a folder or
//! `config.yml` that names one.
//!
//! A relative path is looked for from where the command was typed, and then beside the flow file. What a
//! name means, `executors.rs` says. What a `config.yml` says is what an executor is built with where the flow
//! says nothing.

use std::path::Path;

use anyhow::Context;
use flow_spec::{Env, ExecutorConfig, LocalRun, Plan, Run, Uses};

use super::read::Noted;
use crate::executors::folder_of;
use crate::exit::BadUsage;
use crate::flow_file::beside;
use crate::folder::python::Jina;
use crate::folder::{self, Found};
use crate::shell::Shell;

/// Puts programs in the place of paths, where nobody waits for the files to change. Nodes that run
/// `elsewhere` are left as they are.
pub(crate) fn resolve_once(
    plan: &mut Plan,
    flow_file: &Path,
    shell: &Shell,
    elsewhere: &dyn Fn(&str) -> bool,
) -> anyhow::Result<()> {
    resolve_some(plan, flow_file, &Noted::new(shell), elsewhere)
}

/// Puts programs in the place of paths, and takes note of every `config.yml` that it reads. Packages of
/// Rust are built on the way.
pub(super) fn resolve(plan: &mut Plan, flow_file: &Path, noted: &Noted<'_>) -> anyhow::Result<()> {
    resolve_some(plan, flow_file, noted, &|_| false)
}

fn resolve_some(
    plan: &mut Plan,
    flow_file: &Path,
    noted: &Noted<'_>,
    elsewhere: &dyn Fn(&str) -> bool,
) -> anyhow::Result<()> {
    let beside = beside(flow_file);
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run
            && !elsewhere(node.name.as_str())
        {
            let name = &node.name;
            resolve_run(run, beside, noted)
                .with_context(|| BadUsage(format!("cannot run what `{name}` uses")))?;
        }
    }
    Ok(())
}

fn resolve_run(run: &mut LocalRun, beside: &Path, noted: &Noted<'_>) -> anyhow::Result<()> {
    for around in [&mut run.before, &mut run.after].into_iter().flatten() {
        resolve_around(around, &run.env, beside, noted)?;
    }
    if let Some((uses, config)) = program(&run.uses, &run.env, beside, noted)? {
        config.overlay(run);
        run.uses = uses;
    }
    Ok(())
}

/// What is called around shards is given by its name alone, so its config may say no more than that.
fn resolve_around(
    around: &mut Uses,
    env: &Env,
    beside: &Path,
    noted: &Noted<'_>,
) -> anyhow::Result<()> {
    if let Some((uses, config)) = program(around, env, beside, noted)? {
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

/// What runs where a path or a folder is named, and its config; none: neither is.
fn program(
    uses: &Uses,
    env: &Env,
    beside: &Path,
    noted: &Noted<'_>,
) -> anyhow::Result<Option<(Uses, ExecutorConfig)>> {
    let shell = noted.shell;
    let note = |path: &Path| noted.note(path);
    let here = Path::new("");
    let found = match uses {
        Uses::Path(path) => folder::look(path, &[here, beside], shell, &note)?,
        Uses::Named(name) => match folder_of(name, env, beside, shell) {
            Some(folder) => folder::look(&folder, &[here], shell, &note)?,
            None => return Ok(None),
        },
        Uses::Image(_) => return Ok(None),
    };
    Ok(Some(match found {
        Found::Program(path) => (Uses::Path(path), ExecutorConfig::default()),
        Found::Named(config) => (config.uses(), config),
        Found::Package { manifest, config } => {
            let name = folder::name(&config);
            let program = noted.builder.build(&manifest, &name, shell)?;
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
