//! A child that is a process of this machine.
//!
//! It leads its own process group. A Ctrl-C at the terminal therefore reaches only the supervisor, which decides the
//! order of the shutdown; and the processes that a child starts end with it.

use std::io;
use std::process::Stdio;

use flow_process::{
    FILTER_FILE_VARIABLE, LISTEN_SOCKET_VARIABLE, STATUS_SOCKET_VARIABLE, in_memory_file,
};
use futures_util::future::BoxFuture;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::process::backend::{ChildControl, ChildStdin, StartRequest, StartedChild};
use crate::process::control_group::{ControlGroup, ControlGroups};
use crate::process::error::ProcessStartError;
use crate::process::exit_status::ExitCause;
use crate::process::output::ChildOutput;
use crate::spec::environment::Environment;
use crate::spec::invocation::Invocation;

/// What processes of this machine get of it.
#[derive(Debug)]
pub(crate) struct Machine {
    /// What they may inherit.
    pub(crate) environment: Environment,
    /// What limits the sandboxed ones.
    pub(crate) control_groups: ControlGroups,
}

/// Starts a process, which inherits of the machine's environment what its invocation says. The kernel ends it when the
/// calling thread ends.
pub(crate) fn start(
    request: &StartRequest<'_>,
    machine: &Machine,
    output: ChildOutput,
) -> Result<StartedChild, ProcessStartError> {
    let invocation = request.invocation;
    let failed = |source: io::Error| ProcessStartError::Spawn {
        name: request.name.clone(),
        program: invocation.program.display().to_string(),
        remedy: invocation.remedy.clone().filter(|_| is_missing(&source)),
        source,
    };
    let sandbox = invocation.sandbox.as_ref();
    let control_group =
        sandbox.and_then(|it| machine.control_groups.create(request.name, &it.limits));
    let mut command = program(request, control_group.as_ref());
    command
        .env_clear()
        .envs(machine.environment.inherited(&invocation.inherits));
    complete(&mut command, request);
    command.stdin(stdin(invocation).map_err(failed)?);
    let mut process = command.spawn().map_err(failed)?;
    let piped = "both output streams of a child are pipes";
    let stdout = process.stdout.take().expect(piped);
    let stderr = process.stderr.take().expect(piped);
    let stdin = process.stdin.take();
    let group = ProcessGroup::of(&process);
    Ok(StartedChild {
        control: Box::new(LocalProcess {
            process,
            group,
            control_group,
        }),
        stdin: stdin.map(|it| -> ChildStdin { Box::new(it) }),
        readers: output.read(stdout, stderr),
    })
}

/// A process that was started.
#[derive(Debug)]
struct LocalProcess {
    process: Child,
    group: ProcessGroup,
    /// That of its sandbox.
    control_group: Option<ControlGroup>,
}

impl ChildControl for LocalProcess {
    fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    fn exited(&mut self) -> BoxFuture<'_, ExitCause> {
        Box::pin(async {
            // Waiting fails only for a process that is not a child of this one.
            let status = self.process.wait().await;
            let cause = status.map_or(ExitCause::Code(-1), ExitCause::from);
            match &self.control_group {
                Some(group) if cause == KILLED && group.ran_out_of_memory() => {
                    ExitCause::OverMemoryLimit
                }
                _ => cause,
            }
        })
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        self.group.signal(Signal::TERM);
        Box::pin(std::future::ready(()))
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        self.group.signal(Signal::KILL);
        Box::pin(std::future::ready(()))
    }

    /// The group's id is in use while one of its processes lives, and the kernel does not assign an id again right
    /// after its use.
    fn release(&mut self) {
        self.group.signal(Signal::KILL);
        if let Some(group) = &self.control_group {
            group.kill();
        }
    }

    fn remove(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(group) = &self.control_group {
                group.remove().await;
            }
        })
    }
}

/// How the kernel ends a process when memory runs out.
const KILLED: ExitCause = ExitCause::Signal(Signal::KILL.as_raw());

/// Keeps the allocator of flow's programs from reserving a gibibyte of writable memory, which counts as data (`RLIMIT_DATA`).
/// `flow sandbox` needs the variable too, because it limits itself before it becomes the program.
const RESERVE_UNWRITABLE: (&str, &str) = ("MIMALLOC_ARENA_EAGER_COMMIT", "0");

/// The program of a process, or `flow sandbox`, which limits itself and becomes that program.
fn program(request: &StartRequest<'_>, control_group: Option<&ControlGroup>) -> Command {
    let program = &request.invocation.program;
    let Some(sandbox) = &request.invocation.sandbox else {
        return Command::new(program);
    };
    let own_folder = request.sandbox_folder.as_deref();
    let group = control_group.map(ControlGroup::folder);
    let mut command = Command::new(&sandbox.program);
    command
        .args(sandbox.arguments(own_folder, group))
        .arg(program);
    command
}

/// Sets what every process gets.
fn complete(command: &mut Command, request: &StartRequest<'_>) {
    let invocation = request.invocation;
    command
        .args(&invocation.arguments)
        .args(invocation.at_start(request.name, request.ports, std::process::id()))
        .envs(invocation.env.revealed())
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let sandbox = invocation.sandbox.as_ref();
    if sandbox.is_some_and(|it| it.limits.memory.is_some()) {
        command.env(RESERVE_UNWRITABLE.0, RESERVE_UNWRITABLE.1);
    }
    if let Some(file) = &request.filter_file {
        command.env(FILTER_FILE_VARIABLE, file);
    }
    match &request.listen_socket {
        Some(socket) => command.env(LISTEN_SOCKET_VARIABLE, socket),
        // A flow may be started by a process of another one.
        None => command.env_remove(LISTEN_SOCKET_VARIABLE),
    };
    if let Some(socket) = &request.status_socket {
        command.env(STATUS_SOCKET_VARIABLE, socket);
    }
}

fn stdin(invocation: &Invocation) -> io::Result<Stdio> {
    Ok(match &invocation.with {
        Some(with) => in_memory_file(with.reveal())?.into(),
        None if invocation.reads_stdin => Stdio::piped(),
        None => Stdio::null(),
    })
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The process group of a child and all that it started.
#[derive(Debug, Clone, Copy)]
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(process: &Child) -> Self {
        let id = process.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn signal(self, signal: Signal) {
        let Some(leader) = self.0 else { return };
        match kill_process_group(leader, signal) {
            // The group is empty: nothing is left to signal.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => tracing::warn!(%error, group = %leader, "cannot signal a process group"),
        }
    }
}
