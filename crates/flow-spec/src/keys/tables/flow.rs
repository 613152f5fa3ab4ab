//! Options of the flow itself, which are written in `with`.

use super::unsupported::{NO_STACKS, OWN, OWN_FOLDERS};
use crate::forms;
use crate::keys::{Key, options, refused, row, without_effect};
use crate::spec::hub::Hub;
use crate::values::{Env, Inspect};

const ONE_FOR_ALL: &str = "here it reaches neither the gateway nor an executor";

options! {
    /// Options of the flow itself.
    struct FlowOptions, FlowTable FLOW {
        name: String = row(forms::TEXT, "The flow's name.").example("search");
        workspace: String = row(
            forms::TEXT,
            "Folder for files of the flow and of its executors; a relative path starts at the flow file.",
        )
            .default("none; the state of the running flow is below `~/.local/state/flow`")
            .example("data")
            .jina("a relative path starts at the current folder; the default is below `~/.cache/jina`");
        env: Env = row(forms::ENV, "Environment variables of every process.")
            .default("empty")
            .example("{HF_HUB_OFFLINE: 1}");
        reload: bool = row(forms::FLAG, "The running flow follows changes of its file.")
            .default("`false`")
            .example("true");
        inspect: Inspect = row(
            forms::INSPECT,
            "Handling of nodes with `method: inspect`: the reply waits for them (`COLLECT`), \
             they only run (`HANG`), or they are left out (`REMOVE`).",
        )
            .default("`COLLECT`")
            .example("REMOVE");
        lenient: bool = row(
            forms::FLAG,
            "Keys that flow does not know are warnings instead of errors.",
        )
            .default("`false`")
            .example("true")
            .jina("unknown keys are always ignored");
        hub: Hub = row(
            forms::HUB,
            "Registry, and folder in it, in which `hub://NAME` is looked up.",
        )
            .default("the environment variable `FLOW_HUB`")
            .example("registry.example.com/team")
            .jina(OWN);
    }
}

pub(crate) const FLOW_UNSUPPORTED: &[&Key] = &[
    &without_effect("quiet_error", NO_STACKS),
    &without_effect("workspace_id", OWN_FOLDERS),
    &without_effect("suppress_root_logging", "flow has one log only"),
    &refused("uses", &[], ONE_FOR_ALL),
    &refused("uses_with", &[], ONE_FOR_ALL),
];
