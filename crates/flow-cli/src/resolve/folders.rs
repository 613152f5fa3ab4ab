//! Makes the paths of a flow file absolute: workspaces, the volumes of containers, certificates and API keys.
//!
//! A relative path is relative to the flow file, so that a flow finds its files wherever it is started from.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{CallTls, GatewayTls, Jwt, LocalRun, Plan, Run, Uses};

use crate::exit::BadUsage;
use crate::paths;
use crate::shell::Shell;

/// Makes the path of every folder and file in a plan absolute.
pub(crate) fn resolve_folders(
    plan: &mut Plan,
    flow_file: &Path,
    shell: &Shell,
) -> anyhow::Result<()> {
    let absolute = |written: &Path| paths::resolve_in_flow(flow_file, written, shell);
    if let Some(workspace) = &mut plan.workspace {
        let wrong = || BadUsage("cannot use the `workspace` of the flow".to_owned());
        *workspace = absolute(workspace).with_context(wrong)?;
    }
    let files = plan.gateway.tls.iter_mut().flat_map(GatewayTls::paths_mut);
    let calls = plan.nodes.iter_mut().map(|node| &mut node.calls);
    let calls = calls.flat_map(|calls| calls.tls.iter_mut().flat_map(CallTls::paths_mut));
    let keys = plan.gateway.api_keys.iter_mut().map(|keys| &mut keys.file);
    let tokens = plan.gateway.jwt.iter_mut().flat_map(Jwt::paths_mut);
    for path in files.chain(calls).chain(keys).chain(tokens) {
        let wrong = || BadUsage("cannot use a file of the gateway".to_owned());
        *path = absolute(path).with_context(wrong)?;
    }
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run {
            let wrong = || BadUsage(format!("cannot use the folders of `{}`", node.name));
            resolve_run(run, &absolute).with_context(wrong)?;
        }
    }
    Ok(())
}

fn resolve_run(
    run: &mut LocalRun,
    absolute: &dyn Fn(&Path) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<()> {
    let volumes = run.container.volumes.iter_mut();
    for volume in volumes.filter(|volume| !volume.is_named) {
        volume.host = mountable(&absolute(Path::new(&volume.host))?)?;
    }
    if let Some(workspace) = &mut run.workspace {
        *workspace = absolute(workspace)?;
        let is_mounted = matches!(run.uses, Uses::Image(_)) && !run.container.without_workspace;
        if is_mounted {
            mountable(workspace)?;
        }
    }
    Ok(())
}

/// The path as text for the Docker engine.
fn mountable(path: &Path) -> anyhow::Result<String> {
    let text = path.to_string_lossy().into_owned();
    anyhow::ensure!(
        !text.contains(':'),
        "Docker cannot mount `{text}`: the path contains a `:`"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use flow_spec::{TextFile, Variables};

    use super::*;

    /// The plan of a flow file in `/flows`, with its folders resolved.
    fn resolve(flow: &str) -> Result<Plan, String> {
        let path = Path::new("/flows/flow.yml");
        let file = TextFile { path, text: flow };
        let checked = flow_spec::load(file, &Variables::default()).unwrap();
        let mut plan = Plan::from(checked.flow);
        let shell = Shell::of([].into());
        resolve_folders(&mut plan, path, &shell).map_err(|error| format!("{error:#}"))?;
        Ok(plan)
    }

    fn local(plan: &Plan) -> &LocalRun {
        match &plan.nodes[0].run {
            Run::Local(run) => run,
            Run::External { .. } => panic!("{plan:?}"),
        }
    }

    #[test]
    fn workspaces_and_volumes_are_relative_to_the_flow_file() {
        let plan = resolve(
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
    fn certificates_are_relative_to_the_flow_file() {
        let plan = resolve(
            "jtype: Flow\nwith: {ssl_certfile: c.pem, ssl_keyfile: /k.pem}\nexecutors:\n\
             - {external: true, host: 'grpcs://h:1', tls_ca_certs: r.pem}\n",
        );
        let mut plan = plan.unwrap();
        let own = plan.gateway.tls.take().unwrap().own;
        assert_eq!(own.certificate, Path::new("/flows/c.pem"));
        assert_eq!(own.key, Path::new("/k.pem"));
        let roots = plan.nodes[0].calls.tls.take().unwrap().roots;
        assert_eq!(roots.as_deref(), Some(Path::new("/flows/r.pem")));
    }

    #[test]
    fn an_executor_inherits_the_workspace_of_the_flow() {
        let plan = resolve("jtype: Flow\nwith: {workspace: w}\nexecutors: [{uses: echo}]");
        let plan = plan.unwrap();
        assert_eq!(
            local(&plan).workspace.as_deref(),
            Some(Path::new("/flows/w"))
        );
    }

    #[test]
    fn a_path_that_cannot_be_mounted_is_an_error() {
        let check = |options: &str, expected: Option<&str>| {
            let flow = format!("jtype: Flow\nexecutors: [{{name: a, {options}}}]");
            let error = resolve(&flow).err();
            assert_eq!(error.as_deref(), expected, "{options}");
        };
        let colon = "cannot use the folders of `a`: Docker cannot mount `/flows/w:x`: the path contains a `:`";
        check("uses: 'docker://x', workspace: 'w:x'", Some(colon));
        check("uses: echo, workspace: 'w:x'", None);
        check(
            "uses: 'docker://x', volumes: ['~/x:/x']",
            Some("cannot use the folders of `a`: cannot replace `~` in `~/x`: HOME is not set"),
        );
    }
}
