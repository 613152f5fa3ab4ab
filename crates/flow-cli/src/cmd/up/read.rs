//! Reads a flow file, and all that it names, into a plan that can be started: once for the start, and again
//! whenever the running flow is to follow its file.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use flow_launch::{Reading, Source, Stamp};
use flow_spec::{Env, Plan, Run};

use super::{devices, uses, volumes};
use crate::flow_file;
use crate::shell::Shell;

/// A flow file and what was typed besides.
#[derive(Debug, Clone)]
pub(super) struct FlowFile {
    pub(super) path: PathBuf,
    /// Goes before the file's.
    pub(super) port: Option<u16>,
    pub(super) shell: Shell,
}

/// Files that were read, as they looked before.
#[derive(Debug)]
pub(super) struct Noted<'s> {
    pub(super) shell: &'s Shell,
    stamps: RefCell<Vec<Stamp>>,
}

impl<'s> Noted<'s> {
    /// None so far.
    pub(super) fn new(shell: &'s Shell) -> Self {
        Self {
            shell,
            stamps: RefCell::default(),
        }
    }

    pub(super) fn note(&self, path: &Path) {
        self.stamps.borrow_mut().push(Stamp::of(path.to_owned()));
    }
}

impl FlowFile {
    /// Reads it for the first time; gives the plan, and where to read it again.
    pub(super) fn start(self) -> anyhow::Result<(Plan, Source)> {
        let (plan, stamps) = self.read();
        let read = move || {
            let (plan, stamps) = self.read();
            Reading {
                plan: plan.map_err(|error| format!("{error:#}")),
                stamps,
            }
        };
        Ok((plan?, Source::new(stamps, read)))
    }

    fn read(&self) -> (anyhow::Result<Plan>, Vec<Stamp>) {
        let noted = Noted::new(&self.shell);
        noted.note(&self.path);
        let plan = self.plan(&noted);
        (plan, noted.stamps.into_inner())
    }

    fn plan(&self, noted: &Noted<'_>) -> anyhow::Result<Plan> {
        let shell = &self.shell;
        let note = |path: &Path| noted.note(path);
        let checked = flow_file::load_noting(&self.path, shell, &note)?;
        flow_file::warn(&self.path, &checked, shell);
        let mut plan = Plan::from(checked.flow);
        plan.gateway.port = self.port.or(plan.gateway.port);
        uses::resolve(&mut plan, &self.path, noted)?;
        volumes::resolve(&mut plan, &self.path, shell)?;
        devices::share(&mut plan, shell)?;
        for env in environments(&mut plan) {
            // What is logged is the same in every process, unless the file says otherwise.
            let filter = || shell.log.filter.clone();
            env.entry("FLOW_LOG".to_owned()).or_insert_with(filter);
        }
        Ok(plan)
    }
}

fn environments(plan: &mut Plan) -> impl Iterator<Item = &mut Env> {
    let nodes = plan
        .nodes
        .iter_mut()
        .filter_map(|node| match &mut node.run {
            Run::Local(run) => Some(&mut run.env),
            Run::External { .. } => None,
        });
    nodes.chain([&mut plan.gateway.env])
}
