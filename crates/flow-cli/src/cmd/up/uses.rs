//! Finds what `uses:` names where it is a path or a folder beside the flow file: a program, or a folder or
//! `config.yml` that names one.
//!
//! A relative path is looked for from where the command was typed, and then beside the flow file. What a
//! name means, `executors.rs` says. What a `config.yml` says is what an executor is built with where the flow
//! says nothing.
//!
//! Commands that start executors build them; commands that only describe the flow need neither a build nor an
//! interpreter.

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

/// Whether the sources of an executor become a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sources {
    /// A Rust package is built, and the interpreter of a Python module is looked for.
    Built,
    /// They stay paths.
    Untouched,
}

/// Where executors are looked for, and whether they are built.
struct Lookup<'l> {
    beside: &'l Path,
    sources: Sources,
    noted: &'l Noted<'l>,
}

/// Applies every `config.yml`, and puts the names of built-in executors in the place of paths. Builds nothing.
pub(crate) fn resolve_unbuilt(
    plan: &mut Plan,
    flow_file: &Path,
    shell: &Shell,
) -> anyhow::Result<()> {
    resolve_all(plan, flow_file, Sources::Untouched, &Noted::new(shell))
}

/// Puts programs in the place of paths, and takes note of every `config.yml` that it reads. Packages of
/// Rust are built on the way.
pub(super) fn resolve(plan: &mut Plan, flow_file: &Path, noted: &Noted<'_>) -> anyhow::Result<()> {
    resolve_all(plan, flow_file, Sources::Built, noted)
}

fn resolve_all(
    plan: &mut Plan,
    flow_file: &Path,
    sources: Sources,
    noted: &Noted<'_>,
) -> anyhow::Result<()> {
    let lookup = Lookup {
        beside: beside(flow_file),
        sources,
        noted,
    };
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run {
            let name = &node.name;
            resolve_run(run, &lookup)
                .with_context(|| BadUsage(format!("cannot run what `{name}` uses")))?;
        }
    }
    Ok(())
}

fn resolve_run(run: &mut LocalRun, lookup: &Lookup<'_>) -> anyhow::Result<()> {
    for around in [&mut run.before, &mut run.after].into_iter().flatten() {
        resolve_around(around, &run.env, lookup)?;
    }
    if let Some((uses, config)) = program(&run.uses, &run.env, lookup)? {
        config.overlay(run);
        run.uses = uses;
    }
    Ok(())
}

/// What is called around shards is given by its name alone, so its config may say no more than that.
fn resolve_around(around: &mut Uses, env: &Env, lookup: &Lookup<'_>) -> anyhow::Result<()> {
    if let Some((uses, config)) = program(around, env, lookup)? {
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
    lookup: &Lookup<'_>,
) -> anyhow::Result<Option<(Uses, ExecutorConfig)>> {
    let Lookup {
        beside,
        sources,
        noted,
    } = *lookup;
    let shell = noted.shell;
    let note = |path: &Path| noted.note(path);
    let here = Path::new("");
    let (path, found) = match uses {
        Uses::Path(path) => (
            path.clone(),
            folder::look(path, &[here, beside], shell, &note)?,
        ),
        Uses::Named(name) => match folder_of(name, env, beside, shell) {
            Some(folder) => {
                let found = folder::look(&folder, &[here], shell, &note)?;
                (folder, found)
            }
            None => return Ok(None),
        },
        Uses::Image(_) => return Ok(None),
    };
    Ok(Some(match (found, sources) {
        (Found::Program(path), _) => (Uses::Path(path), ExecutorConfig::default()),
        (Found::Named(config), _) => (config.uses(), config),
        (Found::Package { config, .. }, Sources::Untouched) => (Uses::Path(path), config),
        (Found::Python(_), Sources::Untouched) => (Uses::Path(path), ExecutorConfig::default()),
        (Found::Package { manifest, config }, Sources::Built) => {
            let name = folder::name(&config);
            let program = noted.builder.build(&manifest, &name, shell)?;
            (Uses::Path(program), config)
        }
        // Jina reads the config by itself; the launcher calls `flow executor --uses CONFIG`.
        (Found::Python(path), Sources::Built) => {
            let variable = |name: &str| env.get(name).cloned().or_else(|| shell.variable(name));
            Jina::find(&path, variable)?;
            (Uses::Path(path), ExecutorConfig::default())
        }
    }))
}
