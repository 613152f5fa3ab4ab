//! Finds data in the workspaces of earlier versions of flow, where a relative `workspace` was relative to the current folder
//! and not to the flow file.

use std::fs;
use std::path::{Path, PathBuf};

use flow_spec::{Plan, Run};

use crate::flow_file::beside;

/// Files of a running flow, which every workspace may contain.
const STATE_FOLDER: &str = ".flow";

/// A workspace without data, and the folder that an earlier version used in its place.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    new: PathBuf,
    old: PathBuf,
}

/// Logs a warning for each workspace whose data is still in the folder of an earlier version. The paths of the plan are those
/// of the flow file.
pub(super) fn warn(plan: &Plan, flow_file: &Path) {
    let Ok(current) = std::env::current_dir() else {
        return;
    };
    let flow_folder = current.join(beside(flow_file));
    let flow_folder = flow_folder.canonicalize().unwrap_or(flow_folder);
    for Moved { new, old } in find(plan, &flow_folder, &current) {
        tracing::warn!(
            workspace = %new.display(),
            old_workspace = %old.display(),
            "the workspace has no data, but the one of earlier versions of flow has: move it, or write its absolute path \
             in the flow file"
        );
    }
}

fn find(plan: &Plan, flow_folder: &Path, current: &Path) -> Vec<Moved> {
    let own = plan.nodes.iter().filter_map(|node| match &node.run {
        Run::Local(run) => run.workspace.as_deref(),
        Run::External { .. } => None,
    });
    let mut found: Vec<Moved> = Vec::new();
    for written in plan.workspace.as_deref().into_iter().chain(own) {
        let (new, old) = (flow_folder.join(written), current.join(written));
        let is_relative = written.is_relative() && !written.starts_with("~");
        let is_known = found.iter().any(|it| it.new == new);
        if is_relative && !is_known && !is_same(&new, &old) && has_data(&old) && !has_data(&new) {
            found.push(Moved { new, old });
        }
    }
    found
}

fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    absolute(one) == absolute(other)
}

/// Whether a folder has anything but the files of a running flow.
fn has_data(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.file_name() != STATE_FOLDER)
}

#[cfg(test)]
mod tests {
    use flow_spec::{TextFile, Variables};

    use super::*;

    /// The workspaces that have moved, relative to the root, of a flow file in `flows/` that is started in `here/`.
    #[track_caller]
    fn check(files: &[&str], flow: &str, expected: &[(&str, &str)]) {
        let root = tempfile::tempdir().unwrap();
        let (flows, here) = (root.path().join("flows"), root.path().join("here"));
        for folder in [&flows, &here] {
            fs::create_dir(folder).unwrap();
        }
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let path = flows.join("flow.yml");
        let file = TextFile {
            path: &path,
            text: flow,
        };
        let checked = flow_spec::load(file, &Variables::default()).unwrap();
        let found = find(&Plan::from(checked.flow), &flows, &here);
        let moved = expected.iter().map(|(new, old)| Moved {
            new: root.path().join(new),
            old: root.path().join(old),
        });
        assert_eq!(found, moved.collect::<Vec<_>>());
    }

    const FLOW: &str = "jtype: Flow\nwith: {workspace: data}\nexecutors: [{uses: echo}]\n";

    #[test]
    fn data_in_the_current_folder_is_found_if_the_flow_has_none() {
        let moved = [("flows/data", "here/data")];
        check(&["here/data/index/0"], FLOW, &moved);
        check(&["here/data/index/0", "flows/data/.flow/log"], FLOW, &moved);
        check(&["here/data/index/0", "flows/data/index/0"], FLOW, &[]);
        check(&["here/data/.flow/log"], FLOW, &[]);
        check(&[], FLOW, &[]);
    }

    #[test]
    fn the_workspaces_of_executors_are_checked_too() {
        let flow = "jtype: Flow\nexecutors:\n- {uses: echo, workspace: a}\n- {uses: echo, workspace: /b}\n";
        check(&["here/a/x"], flow, &[("flows/a", "here/a")]);
    }
}
