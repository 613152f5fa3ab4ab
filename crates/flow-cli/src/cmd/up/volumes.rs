//! Folders that a flow file names, as absolute paths: workspaces, and the volumes of containers.
//!
//! A relative path begins at the flow file, so a flow finds its files wherever it is started from.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{LocalRun, Plan, Run, Uses};

use crate::exit::BadUsage;
use crate::places;
use crate::shell::Shell;

/// Makes the paths of every folder in a plan absolute.
pub(in crate::cmd) fn resolve(
    plan: &mut Plan,
    flow_file: &Path,
    shell: &Shell,
) -> anyhow::Result<()> {
    let full = |written: &Path| places::named_in(flow_file, written, shell);
    if let Some(workspace) = &mut plan.workspace {
        let wrong = || BadUsage("the flow cannot have its `workspace`".to_owned());
        *workspace = full(workspace).with_context(wrong)?;
    }
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run {
            let wrong = || BadUsage(format!("`{}` cannot have its folders", node.name));
            resolve_run(run, &full).with_context(wrong)?;
        }
    }
    Ok(())
}

fn resolve_run(
    run: &mut LocalRun,
    full: &dyn Fn(&Path) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<()> {
    let volumes = run.container.volumes.iter_mut();
    for volume in volumes.filter(|volume| !volume.is_named) {
        volume.host = mountable(&full(Path::new(&volume.host))?)?;
    }
    if let Some(workspace) = &mut run.workspace {
        *workspace = full(workspace)?;
        let is_mounted = matches!(run.uses, Uses::Image(_)) && !run.container.without_workspace;
        if is_mounted {
            mountable(workspace)?;
        }
    }
    Ok(())
}

/// The path as an engine takes it.
fn mountable(path: &Path) -> anyhow::Result<String> {
    let text = path.to_string_lossy().into_owned();
    anyhow::ensure!(
        !text.contains(':'),
        "an engine takes no folder with a `:` in its path, as `{text}`"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use flow_spec::{TextFile, Variables};

    use super::*;

    /// The plan of a flow file in `/flows`, with its folders resolved.
    fn resolved(flow: &str) -> Result<Plan, String> {
        let path = Path::new("/flows/flow.yml");
        let file = TextFile { path, text: flow };
        let checked = flow_spec::load(file, &Variables::default()).unwrap();
        let mut plan = Plan::from(checked.flow);
        let shell = Shell::of([].into());
        resolve(&mut plan, path, &shell).map_err(|error| format!("{error:#}"))?;
        Ok(plan)
    }

    fn local(plan: &Plan) -> &LocalRun {
        match &plan.nodes[0].run {
            Run::Local(run) => run,
            Run::External { .. } => panic!("{plan:?}"),
        }
    }

    #[test]
    fn workspaces_and_volumes_begin_at_the_flow_file() {
        let plan = resolved(
            "jtype: Flow\nwith: {workspace: all}\nexecutors:\n\
             - {uses: 'docker://a', volumes: ['data:/data'], workspace: own/b}\n\
             - {uses: echo}\n",
        );
        let plan = plan.unwrap();
        assert_eq!(plan.workspace.as_deref(), Some(Path::new("/flows/all")));
        let run = local(&plan);
        assert_eq!(run.container.volumes[0].host, "/flows/data");
        assert_eq!(run.workspace.as_deref(), Some(Path::new("/flows/own/b")));
    }

    #[test]
    fn an_executor_inherits_the_workspace_of_the_flow() {
        let plan = resolved("jtype: Flow\nwith: {workspace: w}\nexecutors: [{uses: echo}]");
        let plan = plan.unwrap();
        assert_eq!(
            local(&plan).workspace.as_deref(),
            Some(Path::new("/flows/w"))
        );
    }

    #[test]
    fn a_path_that_an_engine_would_misread_is_told() {
        let check = |options: &str, expected: Option<&str>| {
            let flow = format!("jtype: Flow\nexecutors: [{{name: a, {options}}}]");
            let error = resolved(&flow).err();
            assert_eq!(error.as_deref(), expected, "{options}");
        };
        let colon = "`a` cannot have its folders: an engine takes no folder with a `:` in its \
                     path, as `/flows/w:x`";
        check("uses: 'docker://x', workspace: 'w:x'", Some(colon));
        check("uses: echo, workspace: 'w:x'", None);
        check(
            "uses: 'docker://x', volumes: ['~/x:/x']",
            Some("`a` cannot have its folders: `~` in `~/x` means nothing: HOME is not set"),
        );
    }
}
