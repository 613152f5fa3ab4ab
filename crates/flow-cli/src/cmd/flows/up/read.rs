//! Reads a flow file into a plan that can be started: once at the start, and again when the running flow reloads.
//!
//! A draft is the plan of the file. It is complete when its executors are built.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flow_launch::{PlanReading, PlanSource, Preparation};
use flow_spec::{Checked, Env, Plan, Run, Secret};

use super::{devices, old_workspace};
use crate::credentials;
use crate::exit;
use crate::flow_file::{self, ReadOptions};
use crate::folder::builder::Builder;
use crate::resolve::{FilesRead, Start, resolve_folders, resolve_uses};
use crate::shell::Shell;

/// The variable with the address on which a flow listens that names none.
const HOST_VARIABLE: &str = "FLOW_LISTEN_HOST";

/// A flow file and the options of the command line.
#[derive(Debug, Clone)]
pub(super) struct FlowFile {
    pub(super) path: PathBuf,
    /// Overrides the port of the file.
    pub(super) port: Option<u16>,
    /// Overrides the address of the file.
    pub(super) host: Option<String>,
    /// Overrides `slow_request` of the file.
    pub(super) slow_request: Option<Duration>,
    /// Logs every request, even if the file does not ask for it.
    pub(super) access_log: bool,
    pub(super) options: ReadOptions,
    /// Whether the requirements of Python executors are installed.
    pub(super) installs: bool,
    pub(super) shell: Shell,
    /// Builds the executors.
    pub(super) builder: Builder,
}

/// The result of reading a flow file for the first time.
pub(super) struct FirstReading {
    /// The plan, in which executors are not built yet.
    pub(super) draft: Plan,
    /// Builds them, and returns the complete plan.
    pub(super) preparation: Preparation,
    /// Reads the file again.
    pub(super) source: PlanSource,
}

/// A draft could not be completed. Carries the message through the launcher.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct Incomplete {
    pub(super) text: String,
    /// Whether the user has to correct a file or the command.
    pub(super) is_bad_usage: bool,
}

impl FlowFile {
    /// Reads and checks the file for the first time. Reports everything that is wrong with it before anything is built.
    pub(super) fn start(self) -> anyhow::Result<FirstReading> {
        let files_read = FilesRead::default();
        let draft = self.draft(&files_read)?;
        old_workspace::warn(&draft, &self.path);
        let stamps = files_read.into_stamps();
        let (again, check) = (self.clone(), self.clone());
        let read = move || again.read();
        let source = PlanSource::new(stamps.clone(), read, move || check.check());
        let builder = self.builder.clone();
        let (plan, read_source) = (draft.clone(), source.clone());
        let complete = move || {
            let files_read = FilesRead::from(stamps);
            let completed = self.complete(plan, &files_read);
            read_source.set_stamps(files_read.into_stamps());
            completed.map_err(|error| incomplete(&error).into())
        };
        Ok(FirstReading {
            draft,
            preparation: Preparation::new(complete, move || builder.stop()),
            source,
        })
    }

    /// Reads the file, and builds its executors.
    fn read(&self) -> PlanReading {
        let files_read = FilesRead::default();
        let draft = self.draft(&files_read);
        let plan = draft.and_then(|draft| self.complete(draft, &files_read));
        PlanReading {
            plan: plan.map_err(|error| format!("{error:#}")),
            stamps: files_read.into_stamps(),
        }
    }

    /// Reads and checks the file. Builds and prints nothing.
    fn check(&self) -> PlanReading {
        let files_read = FilesRead::default();
        let checked = self.checked(&files_read);
        let plan = checked.map(|checked| self.plan_of(checked));
        PlanReading {
            plan: plan.map_err(|error| format!("{error:#}")),
            stamps: files_read.into_stamps(),
        }
    }

    /// Reads and checks the file, and prints the warnings about it.
    fn draft(&self, files_read: &FilesRead) -> anyhow::Result<Plan> {
        let checked = self.checked(files_read)?;
        flow_file::warn(&self.path, &checked, &self.shell);
        Ok(self.plan_of(checked))
    }

    fn checked(&self, files_read: &FilesRead) -> anyhow::Result<Checked> {
        files_read.record(&self.path);
        let record = |path: &Path| files_read.record(path);
        flow_file::load_to_start(&self.path, self.options, &self.shell, &record)
    }

    /// The plan of the file with the options of the command line.
    fn plan_of(&self, checked: Checked) -> Plan {
        let mut plan = Plan::from(checked.flow);
        plan.gateway.port = self.port.or(plan.gateway.port);
        self.set_host(&mut plan.gateway.host);
        let logging = &mut plan.gateway.logging;
        logging.slow = self.slow_request.or(logging.slow);
        logging.all |= self.access_log;
        plan
    }

    /// The option wins over the file. An image opens what neither of them sets.
    fn set_host(&self, host: &mut Option<String>) {
        let written = self.host.clone().or_else(|| host.take());
        *host = written.or_else(|| self.shell.variable(HOST_VARIABLE));
    }

    fn complete(&self, mut plan: Plan, files_read: &FilesRead) -> anyhow::Result<Plan> {
        let shell = &self.shell;
        let start = Start {
            builder: &self.builder,
            installs: self.installs,
            files_read,
        };
        resolve_uses(&mut plan, &self.path, &start, shell)?;
        resolve_folders(&mut plan, &self.path, shell)?;
        credentials::check(&plan)?;
        devices::share(&mut plan, shell)?;
        for env in environments(&mut plan) {
            // Every process logs with the same filter, unless the file sets another one.
            let filter = || Secret::new(shell.log.filter.to_string());
            env.entry("FLOW_LOG".to_owned()).or_insert_with(filter);
        }
        Ok(plan)
    }
}

fn incomplete(error: &anyhow::Error) -> Incomplete {
    Incomplete {
        text: format!("{error:#}"),
        is_bad_usage: exit::is_bad_usage(error),
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
