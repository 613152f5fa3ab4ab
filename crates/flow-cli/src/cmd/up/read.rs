//! Reads a flow file, and all that it names, into a plan that can be started: once for the start, and again
//! whenever the running flow is to follow its file.
//!
//! A draft is the plan that the file says. It becomes complete when its executors are built.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use flow_launch::{Preparation, Reading, Source, Stamp};
use flow_spec::{Env, Plan, Run};

use super::{devices, uses, volumes};
use crate::exit;
use crate::flow_file;
use crate::folder::package::Builder;
use crate::shell::Shell;

/// A flow file and what was typed besides.
#[derive(Debug, Clone)]
pub(super) struct FlowFile {
    pub(super) path: PathBuf,
    /// Goes before the file's.
    pub(super) port: Option<u16>,
    pub(super) shell: Shell,
    /// Builds the executors.
    pub(super) builder: Builder,
}

/// A flow file that was read for the first time.
pub(super) struct FirstReading {
    /// The plan, in which executors are not built yet.
    pub(super) draft: Plan,
    /// Builds them, and gives the complete plan.
    pub(super) preparation: Preparation,
    /// Where to read the file again.
    pub(super) source: Source,
}

/// Why a draft was not completed, in words, on its way through the launcher.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct Incomplete {
    pub(super) text: String,
    /// It is the user's to repair.
    pub(super) is_users: bool,
}

/// Files that were read, as they looked before.
#[derive(Debug)]
pub(super) struct Noted<'s> {
    pub(super) shell: &'s Shell,
    pub(super) builder: Builder,
    stamps: RefCell<Vec<Stamp>>,
}

impl<'s> Noted<'s> {
    /// None so far.
    pub(super) fn new(shell: &'s Shell) -> Self {
        Self {
            shell,
            builder: Builder::default(),
            stamps: RefCell::default(),
        }
    }

    pub(super) fn note(&self, path: &Path) {
        self.stamps.borrow_mut().push(Stamp::of(path.to_owned()));
    }
}

impl FlowFile {
    /// Reads and checks the file for the first time. Everything that is wrong with it is told here, before
    /// anything is built.
    pub(super) fn start(self) -> anyhow::Result<FirstReading> {
        let noted = self.noted();
        let draft = self.draft(&noted)?;
        let stamps = noted.stamps.into_inner();
        let again = self.clone();
        let source = Source::new(stamps.clone(), move || again.read());
        let builder = self.builder.clone();
        let (plan, known) = (draft.clone(), source.clone());
        let complete = move || {
            let noted = Noted {
                stamps: RefCell::new(stamps),
                ..self.noted()
            };
            let completed = self.complete(plan, &noted);
            known.was_read(noted.stamps.into_inner());
            completed.map_err(|error| incomplete(&error).into())
        };
        Ok(FirstReading {
            draft,
            preparation: Preparation::new(complete, move || builder.stop()),
            source,
        })
    }

    /// Reads the file, and builds its executors.
    fn read(&self) -> Reading {
        let noted = self.noted();
        let draft = self.draft(&noted);
        let plan = draft.and_then(|draft| self.complete(draft, &noted));
        Reading {
            plan: plan.map_err(|error| format!("{error:#}")),
            stamps: noted.stamps.into_inner(),
        }
    }

    fn noted(&self) -> Noted<'_> {
        Noted {
            builder: self.builder.clone(),
            ..Noted::new(&self.shell)
        }
    }

    fn draft(&self, noted: &Noted<'_>) -> anyhow::Result<Plan> {
        noted.note(&self.path);
        let note = |path: &Path| noted.note(path);
        let checked = flow_file::load_to_start(&self.path, &self.shell, &note)?;
        flow_file::warn(&self.path, &checked, &self.shell);
        let mut plan = Plan::from(checked.flow);
        plan.gateway.port = self.port.or(plan.gateway.port);
        Ok(plan)
    }

    fn complete(&self, mut plan: Plan, noted: &Noted<'_>) -> anyhow::Result<Plan> {
        let shell = &self.shell;
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

fn incomplete(error: &anyhow::Error) -> Incomplete {
    Incomplete {
        text: format!("{error:#}"),
        is_users: exit::is_users(error),
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
