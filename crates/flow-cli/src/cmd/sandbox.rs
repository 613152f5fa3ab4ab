//! `flow sandbox`: limits itself and then becomes another program. For internal use: `flow up` puts it in front of the
//! command line of an executor with a `sandbox`.
//!
//! The process stays the same, so that its parent, its id, its process group and its open files are those of the executor.
//! What an executor is built with waits unread at the standard input.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use flow_process::{LISTEN_SOCKET_VARIABLE, STATUS_SOCKET_VARIABLE, flush_log};
use flow_sandbox::{Applied, WritableFiles};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// Only the owner may enter a folder of the process.
const FOLDER_MODE: u32 = 0o700;

/// Where programs create temporary files.
const TEMPORARY_VARIABLES: [&str; 3] = ["TMPDIR", "TEMP", "TMP"];

/// Options of `flow sandbox`.
#[derive(Debug, Args)]
pub(crate) struct Sandbox {
    /// Most memory in bytes
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// Most processors in thousandths
    #[arg(long, value_name = "NUMBER")]
    millicpus: Option<u32>,
    /// Allow Unix sockets only
    #[arg(long)]
    no_network: bool,
    /// Allow changes of files only in the workspace and in the own folder
    #[arg(long)]
    read_only: bool,
    /// Folder of the executor's files
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
    /// Folder of this process, which may exist, for its socket and its temporary files
    #[arg(long, value_name = "FOLDER")]
    own_folder: Option<PathBuf>,
    /// Control group that the process enters
    #[arg(long, value_name = "FOLDER")]
    control_group: Option<PathBuf>,
    /// Program to run, with its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Does not return if it succeeds.
pub(crate) fn run(sandbox: &Sandbox, shell: &Shell) -> anyhow::Result<Infallible> {
    shell.log.start_service(true, shell.wants_colour, None);
    let Some((program, arguments)) = sandbox.program.split_first() else {
        bail!(BadUsage("no program is named".to_owned()));
    };
    let socket = shell.variable(LISTEN_SOCKET_VARIABLE).map(PathBuf::from);
    if sandbox.no_network && socket.is_none() {
        bail!(
            "`no_network` allows Unix sockets only, and the flow has no folder in which executors can have them: its state \
             folder cannot be written, or its file system has no sockets; set XDG_STATE_HOME to another folder"
        );
    }
    let files = sandbox
        .read_only
        .then(|| sandbox.writable(shell))
        .transpose()?;
    let limits = flow_sandbox::ProcessLimits {
        memory: sandbox.memory,
        millicpus: sandbox.millicpus,
        no_network: sandbox.no_network,
        files,
        control_group: sandbox.control_group.clone(),
    };
    if let (Some(folder), false) = (&sandbox.own_folder, sandbox.read_only) {
        create(folder).with_context(|| cannot_create(folder))?;
    }
    let applied = limits.apply().context("the sandbox cannot be applied")?;
    report(&applied);
    let mut command = Command::new(program);
    command.args(arguments);
    if let (Some(folder), true) = (&sandbox.own_folder, sandbox.read_only) {
        let temporary = temporary(folder);
        command.envs(TEMPORARY_VARIABLES.map(|name| (name, &temporary)));
    }
    // The thread that writes the log ends with this program.
    flush_log();
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run `{}`", program.display()))
}

impl Sandbox {
    /// Creates the folders in which the process may change files.
    fn writable(&self, shell: &Shell) -> anyhow::Result<WritableFiles> {
        let Some(own) = &self.own_folder else {
            bail!(
                "`read_only` needs a folder for temporary files, and the flow has none, because its state folder cannot be \
                 written; set XDG_STATE_HOME to another folder"
            );
        };
        let temporary = temporary(own);
        create(own).with_context(|| cannot_create(own))?;
        remove_all(&temporary)
            .with_context(|| format!("cannot empty `{}`", temporary.display()))?;
        let status = shell.variable(STATUS_SOCKET_VARIABLE).map(PathBuf::from);
        let status = status.as_deref().and_then(Path::parent);
        let files = self.files.as_deref();
        let folders = [Some(own.as_path()), Some(&temporary), status, files];
        for folder in folders.into_iter().flatten() {
            create(folder).with_context(|| cannot_create(folder))?;
        }
        let folders = [Some(own.as_path()), status, files];
        let folders = folders.into_iter().flatten().map(Path::to_owned);
        Ok(WritableFiles {
            folders: folders.collect(),
        })
    }
}

fn temporary(own_folder: &Path) -> PathBuf {
    own_folder.join("tmp")
}

fn create(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .mode(FOLDER_MODE)
        .recursive(true)
        .create(folder)
}

fn cannot_create(folder: &Path) -> String {
    format!("cannot create the folder `{}`", folder.display())
}

/// Removes what an earlier run of the process left.
fn remove_all(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn report(applied: &Applied) {
    let limits = applied.limits.join("; ");
    if applied.gaps.is_empty() {
        tracing::info!(limits, "sandbox applied");
    } else {
        let gaps = applied.gaps.join("; ");
        tracing::warn!(
            limits,
            gaps,
            "sandbox applied, and this kernel cannot do all of it"
        );
    }
}
