//! Resolves `uses:` where it is a path or a folder beside the flow file, and applies the `config.yml` of executors.
//!
//! A relative path is relative to the current folder or, if nothing is there, to the flow file. `executors.rs` says what
//! a name means. The values of a `config.yml` apply where the flow file has none.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{Env, ExecutorConfig, LocalRun, Plan, Run, Secret, Uses};

use super::files_read::FilesRead;
use crate::executors::folder_of;
use crate::exit::BadUsage;
use crate::flow_file::beside;
use crate::folder::builder::Builder;
use crate::folder::python::{self, PythonRuntime};
use crate::folder::{self, ExecutorFolder};
use crate::shell::Shell;

/// What a start does besides resolving.
pub(crate) struct Start<'s> {
    /// Builds packages.
    pub(crate) builder: &'s Builder,
    /// Whether the requirements of all Python executors are installed.
    pub(crate) installs: bool,
    /// Records every `config.yml` that is read.
    pub(crate) files_read: &'s FilesRead,
}

/// Resolves every `uses:` of a plan for a start: builds Rust packages, and looks for the interpreters of Python modules.
pub(crate) fn resolve_uses(
    plan: &mut Plan,
    flow_file: &Path,
    start: &Start<'_>,
    shell: &Shell,
) -> anyhow::Result<()> {
    let lookup = Lookup {
        flow_folder: beside(flow_file),
        builder: Some(start.builder),
        installs: start.installs,
        files_read: start.files_read,
        shell,
    };
    resolve_plan(plan, &lookup)
}

/// Resolves every `uses:` of a plan that starts elsewhere: builds nothing, and leaves the paths of packages and Python
/// modules as they are.
pub(crate) fn resolve_uses_unbuilt(
    plan: &mut Plan,
    flow_file: &Path,
    shell: &Shell,
) -> anyhow::Result<()> {
    let lookup = Lookup {
        flow_folder: beside(flow_file),
        builder: None,
        installs: false,
        files_read: &FilesRead::default(),
        shell,
    };
    resolve_plan(plan, &lookup)
}

/// Where executors are looked for, and how they are built.
struct Lookup<'l> {
    /// The folder of the flow file.
    flow_folder: &'l Path,
    /// Builds packages; `None` leaves their paths.
    builder: Option<&'l Builder>,
    /// Whether the requirements of all Python executors are installed.
    installs: bool,
    files_read: &'l FilesRead,
    shell: &'l Shell,
}

fn resolve_plan(plan: &mut Plan, lookup: &Lookup<'_>) -> anyhow::Result<()> {
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run {
            let name = &node.name;
            resolve_run(run, lookup)
                .with_context(|| BadUsage(format!("cannot run the executor `{name}`")))?;
        }
    }
    Ok(())
}

fn resolve_run(run: &mut LocalRun, lookup: &Lookup<'_>) -> anyhow::Result<()> {
    for around in [&mut run.before, &mut run.after].into_iter().flatten() {
        resolve_around(around, &run.env, lookup)?;
    }
    install(run, lookup)?;
    if let Some((uses, config)) = resolve(&run.uses, &run.env, lookup)? {
        config.overlay(run);
        run.uses = uses;
    }
    Ok(())
}

/// Installs the requirements of a Python executor, if that is wanted. From then on `FLOW_PYTHON` names its interpreter.
fn install(run: &mut LocalRun, lookup: &Lookup<'_>) -> anyhow::Result<()> {
    let wanted = lookup.installs || run.install_requirements;
    let Some(builder) = lookup.builder.filter(|_| wanted) else {
        return Ok(());
    };
    if let Some((_, ExecutorFolder::Python(path))) = find(&run.uses, &run.env, lookup)? {
        let variable = variables(&run.env, lookup.shell);
        let installed = python::install(&path, variable, builder, lookup.shell)?;
        let installed = installed.into_iter();
        run.env
            .extend(installed.map(|(name, value)| (name, Secret::new(value))));
    }
    Ok(())
}

/// The variables that an executor will have.
fn variables<'v>(env: &'v Env, shell: &'v Shell) -> impl Fn(&str) -> Option<String> + 'v {
    |name| {
        env.reveal(name)
            .map(str::to_owned)
            .or_else(|| shell.variable(name))
    }
}

/// Resolves `uses_before` or `uses_after`. These have no options, so their config must not need any.
fn resolve_around(around: &mut Uses, env: &Env, lookup: &Lookup<'_>) -> anyhow::Result<()> {
    if let Some((uses, config)) = resolve(around, env, lookup)? {
        let has_options = !config.with.reveal().is_empty() || !config.requests.is_empty();
        anyhow::ensure!(
            !has_options,
            "the config of `{}` has `with` or `requests`, which `uses_before` and `uses_after` do not support",
            folder::name(&config)
        );
        *around = uses;
    }
    Ok(())
}

/// The program behind `uses`, and its config. `None` if `uses` is neither a path nor a folder beside the flow file.
fn resolve(
    uses: &Uses,
    env: &Env,
    lookup: &Lookup<'_>,
) -> anyhow::Result<Option<(Uses, ExecutorConfig)>> {
    let shell = lookup.shell;
    let Some((path, found)) = find(uses, env, lookup)? else {
        return Ok(None);
    };
    Ok(Some(match (found, lookup.builder) {
        (ExecutorFolder::Program(path), _) => (Uses::Path(path), ExecutorConfig::default()),
        (ExecutorFolder::Named(config), _) => (config.uses(), config),
        (ExecutorFolder::Package { config, .. }, None) => (Uses::Path(path), config),
        (ExecutorFolder::Python(_), None) => (Uses::Path(path), ExecutorConfig::default()),
        (ExecutorFolder::Package { manifest, config }, Some(builder)) => {
            let name = folder::name(&config);
            let program = builder.build(&manifest, &name, shell)?;
            (Uses::Path(program), config)
        }
        // Python reads the config itself: the launcher starts `flow executor --uses CONFIG`.
        (ExecutorFolder::Python(path), Some(_)) => {
            PythonRuntime::find(&path, variables(env, shell))?;
            (Uses::Path(path), ExecutorConfig::default())
        }
    }))
}

/// The path behind `uses`, and what is there. `None` if `uses` is neither a path nor a folder beside the flow file.
fn find(
    uses: &Uses,
    env: &Env,
    lookup: &Lookup<'_>,
) -> anyhow::Result<Option<(PathBuf, ExecutorFolder)>> {
    let shell = lookup.shell;
    let record = |path: &Path| lookup.files_read.record(path);
    let here = Path::new("");
    let (path, places) = match uses {
        Uses::Path(path) => (path.clone(), vec![here, lookup.flow_folder]),
        Uses::Named(name) => match folder_of(name, env, lookup.flow_folder, shell) {
            Some(folder) => (folder, vec![here]),
            None => return Ok(None),
        },
        Uses::Image(_) => return Ok(None),
    };
    let found = folder::look(&path, &places, shell, &record)?;
    Ok(Some((path, found)))
}
