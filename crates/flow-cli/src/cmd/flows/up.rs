//! `flow up`: starts the processes of a flow file, and serves until it is stopped.

mod addresses;
mod banner;
mod devices;
mod old_workspace;
mod printer;
mod read;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use flow_launch::registry::{self, Registration, RegistryEntry};
use flow_launch::{
    BuiltIn, DockerOptions, Launch, LaunchError, ProcessStartError, Programs, ReadyProcess,
    RunningFlow, StartedFlow, StateDirectory,
};
use flow_net::{Drain, Draining};
use flow_process::{LogFormat, ReadyEvent, on_termination};
use flow_spec::{Plan, Protocol, Run};

use self::banner::{Banner, Row};
use self::printer::{Printer, Recent};
use self::read::{FirstReading, FlowFile, Incomplete};
use crate::builtin::{BUILTIN, Builtin};
use crate::cmd::flows::running;
use crate::docker_config;
use crate::exit::{BadUsage, Exit};
use crate::flow_file::ReadOptions;
use crate::folder::builder::Builder;
use crate::log::log_formats;
use crate::output::{self, Painter};
use crate::paths;
use crate::port_owner;
use crate::shell::{self, Shell};

/// Options of `flow up`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow up flows/encode.yml
  flow up flows/encode.yml --port 8080
  flow up flows/encode.yml --host 0.0.0.0

The first Ctrl-C lets requests in progress finish; the second stops at once.

Exit codes: 0 stopped in order, 1 failure, 2 bad usage or a bad flow file, 130 stopped at once.")]
pub(crate) struct Up {
    /// Flow file to start
    #[arg(value_name = "FLOW.yml")]
    file: PathBuf,
    /// Listen for clients on this port instead of that of the file; 0 picks a free one
    #[arg(long)]
    port: Option<u16>,
    /// Listen for clients on this address instead of that of the file, such as 0.0.0.0 for clients on other
    /// machines [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Install the `requirements.txt` beside each Python executor in a virtual environment of its own, once; the
    /// environments are in ~/.cache/flow/python
    #[arg(long)]
    install: bool,
    /// Log requests that take at least this long, such as 500ms or 2s, with a breakdown of their time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    slow_request: Option<Duration>,
    /// Log every request
    #[arg(long)]
    access_log: bool,
    /// Time for requests in progress to finish when the flow stops, such as 10s or 1m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Format of the ready message on standard output: text, or json for one line with the
    /// address [default: that of --log]
    #[arg(long, value_name = "FORMAT", value_parser = log_formats(), hide_possible_values = true)]
    ready_format: Option<LogFormat>,
    /// Stop when standard input ends: a program that starts a flow keeps it open, and it ends with that program
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    #[command(flatten)]
    read_options: ReadOptions,
}

pub(crate) async fn run(up: Up, shell: &Shell) -> anyhow::Result<Exit> {
    let begun = Instant::now();
    // The sender is dropped first: the printer waits for that.
    let (mut printer, events) = printer::start(shell).context("cannot start a thread")?;
    let own_log = printer.own_log();
    shell
        .log
        .start_with(shell.wants_colour, move || own_log.clone());
    let builder = Builder::default();
    let launch = launch(&up, builder.clone(), shell)?;
    let directory = launch.state_directory.as_ref();
    let directory = directory.map(|it| it.path().to_owned());
    let drain = Drain::new(up.grace);
    let draining = drain.watch();
    let drain_of_signals = drain.clone();
    let signalled_twice = on_termination(move || drain_of_signals.begin());
    if up.until_stdin_ends {
        stop_at_end_of_stdin(drain.clone())?;
    }
    // `flow ps` lists the flow before its executors are built.
    let registration = directory.and_then(|directory| register(&up, directory, shell));
    let mut running = RunningFlow::launch(launch, events).context("cannot start the launcher")?;

    let show = |started: &StartedFlow| {
        let is_event = up.ready_format.unwrap_or(shell.log.format) == LogFormat::Json;
        let event = is_event.then(|| ready(started));
        let columns = output::columns(std::io::stdout());
        let text = banner(started, begun.elapsed()).text(Painter::stdout(shell), columns);
        // A terminal that is paused must not stop the program.
        let written = tokio::task::spawn_blocking(move || match event {
            Some(event) => event.report(LogFormat::Json),
            None => output::bytes(text.as_bytes()),
        });
        async { written.await.unwrap_or_else(|error| Err(error.into())) }
    };
    let exit = tokio::select! {
        exit = serve(&mut running, &draining, &mut printer, show) => exit,
        () = signalled_twice => {
            running.kill();
            Ok(Exit::Interrupted)
        }
    };
    drop(registration);
    // A reload may be building executors.
    builder.stop();
    // The last lines of processes are printed before ours.
    drop(running);
    let recent = printer.finish();
    exit.map_err(|error| without_repetition(error, &recent))
}

/// Stops the flow when standard input ends.
fn stop_at_end_of_stdin(drain: Drain) -> anyhow::Result<()> {
    let wait = move || {
        // Whatever is written there has no meaning, and an error is an end too.
        let _unread = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drain.begin();
    };
    let thread = std::thread::Builder::new().name("stdin".to_owned());
    thread.spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Removes the last lines of a process from the error that it did not start, if they are on the screen.
fn without_repetition(error: anyhow::Error, recent: &Recent) -> anyhow::Error {
    let Some(LaunchError::Start(start)) = error.downcast_ref::<LaunchError>() else {
        return error;
    };
    match &**start {
        ProcessStartError::Exited { name, exit }
            if !exit.last_lines.is_empty() && recent.ends_with(name, &exit.last_lines) =>
        {
            let cause = exit.cause;
            anyhow::anyhow!("`{name}` {cause}; its last lines are above")
        }
        _ => error,
    }
}

/// The flow to be started, from the file and the options.
fn launch(up: &Up, builder: Builder, shell: &Shell) -> anyhow::Result<Launch> {
    let file = FlowFile {
        path: up.file.clone(),
        port: up.port,
        host: up.host.clone(),
        slow_request: up.slow_request,
        access_log: up.access_log,
        options: up.read_options,
        installs: up.install,
        shell: shell.clone(),
        builder,
    };
    let FirstReading {
        draft,
        preparation,
        source,
    } = file.start()?;
    let programs = Programs {
        flow: std::env::current_exe().context("cannot find the program `flow` itself")?,
        built_in: BUILTIN.iter().map(launched).collect(),
    };
    Ok(Launch {
        grace: up.grace,
        log: match shell.log.format {
            LogFormat::Text => flow_spec::LogStyle::Text,
            LogFormat::Json => flow_spec::LogStyle::Json,
        },
        state_directory: state_directory(up, &draft, shell),
        source: Some(source),
        preparation: Some(preparation),
        environment: shell::environment(),
        docker: docker(shell),
        ..Launch::new(draft, programs)
    })
}

/// What the launcher knows of a built-in executor.
fn launched(builtin: &Builtin) -> BuiltIn {
    let variables = builtin.variables.iter();
    BuiltIn {
        name: builtin.name.to_owned(),
        variables: variables.map(|&name| name.to_owned()).collect(),
        uses_all_cores: builtin.uses_all_cores,
    }
}

/// The Docker engine of the environment.
fn docker(shell: &Shell) -> DockerOptions {
    let of_login = shell.clone();
    DockerOptions {
        host: shell.variable("DOCKER_HOST"),
        credentials: Some(Arc::new(move |image| {
            docker_config::image_credentials(image, &of_login)
        })),
    }
}

/// The folder for the log files and the control socket of the flow. The flow runs without one, too.
fn state_directory(up: &Up, plan: &Plan, shell: &Shell) -> Option<StateDirectory> {
    let folder = paths::flow_state_folder(&up.file, plan.workspace.as_deref(), shell);
    let Some(folder) = folder else {
        tracing::warn!("the flow has no log files and no control socket: HOME is not set");
        return None;
    };
    match StateDirectory::lock(&folder) {
        Ok(directory) => Some(directory),
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "the flow has no log files and no control socket");
            None
        }
    }
}

/// Registers the flow for `flow ps` and similar commands, until the result is dropped.
fn register(up: &Up, state_directory: PathBuf, shell: &Shell) -> Option<Registration> {
    let registry = running::registry_folder(shell)?;
    let file = up.file.canonicalize().unwrap_or_else(|_| up.file.clone());
    let pid = std::process::id();
    let entry = RegistryEntry {
        pid,
        file,
        state_directory,
    };
    let registration = registry::register(&registry, &entry);
    let cannot = |error: &std::io::Error| {
        let folder = registry.display();
        tracing::warn!(%folder, %error, "the flow is not on the list of running flows");
    };
    registration.inspect_err(cannot).ok()
}

/// Runs a flow from the start of its processes to their shutdown. `show` prints that it serves.
async fn serve<S: Future<Output = std::io::Result<()>>>(
    running: &mut RunningFlow,
    draining: &Draining,
    printer: &mut Printer,
    show: impl FnOnce(&StartedFlow) -> S,
) -> anyhow::Result<Exit> {
    let started = tokio::select! {
        started = running.started() => match started {
            // `flow down` has stopped it, which is not a failure.
            Err(stopped @ LaunchError::Stopped) => {
                tracing::info!("{stopped}");
                return Ok(Exit::Fine);
            }
            started => Some(started.map_err(explain)?),
        },
        () = draining.begun() => None,
    };
    if let Some(started) = started {
        let shown = async {
            printer.start_printed().await;
            match show(&started).await {
                Ok(()) => std::future::pending().await,
                Err(error) => error,
            }
        };
        tokio::select! {
            // Without an error it was stopped by `flow down`.
            ended = running.ended() => return ended.map(|()| Exit::Fine).map_err(explain),
            error = shown => return Err(error.into()),
            () = draining.begun() => {}
        }
    }
    tracing::info!("finishing requests in progress; a second signal stops at once");
    running.stop();
    running.ended().await?;
    Ok(Exit::Fine)
}

/// Adds the owner of a taken port, and the remedy, to the error of a flow.
fn explain(failed: LaunchError) -> anyhow::Error {
    let failed = match failed {
        LaunchError::Preparation(error) => return unprepared(error),
        failed => failed,
    };
    let (port, remedy) = match &failed {
        LaunchError::Port { port, .. } => (*port, "choose another port with `--port`"),
        LaunchError::MetricsPort { port, .. } => (*port, "write another `port_monitoring`"),
        _ => return failed.into(),
    };
    match (port_owner::find(port), failed) {
        (Some(owner), _) => {
            anyhow::anyhow!("port {port} is taken: {owner} listens there; stop it, or {remedy}")
        }
        (None, LaunchError::Port { source, .. }) => source.into(),
        (None, failed) => failed.into(),
    }
}

/// The error of a build, as it was before the launcher carried it.
fn unprepared(error: Box<dyn std::error::Error + Send + Sync>) -> anyhow::Error {
    match error.downcast::<Incomplete>() {
        Ok(error) if error.is_bad_usage => BadUsage(error.text).into(),
        Ok(error) => anyhow::Error::msg(error.text),
        Err(error) => anyhow::Error::from_boxed(error),
    }
}

/// The flow as a process of which clients see the gateway.
fn ready(started: &StartedFlow) -> ReadyEvent {
    ReadyEvent {
        more_addresses: {
            let addresses = started.gateway.more_addresses.iter();
            addresses.map(|it| addresses::local(*it)).collect()
        },
        metrics: started.gateway.metrics,
        ..ReadyEvent::new("flow", started.gateway.reachable())
    }
}

fn banner(started: &StartedFlow, took: Duration) -> Banner {
    let gateway = &started.gateway;
    let all = all_addresses(gateway);
    let plan = &started.placement.plan;
    Banner {
        protocol: protocols(&started.gateway, plan),
        local: all
            .clone()
            .map(|at| addresses::local(at).to_string())
            .collect(),
        private: all
            .flat_map(addresses::private)
            .map(|at| at.to_string())
            .collect(),
        metrics: started.gateway.metrics_url(),
        workspaces: workspaces(plan),
        executors: started
            .executors
            .iter()
            .map(row)
            .chain(external(started))
            .collect(),
        is_open: all_addresses(gateway).any(|it| !it.ip().is_loopback())
            && plan.gateway.tls.is_none()
            && plan.gateway.api_keys.is_none()
            && plan.gateway.jwt.is_none(),
        took,
    }
}

/// Every address on which a gateway listens.
fn all_addresses(gateway: &ReadyProcess) -> impl Iterator<Item = SocketAddr> + Clone {
    let more = gateway.more_addresses.iter().copied();
    gateway.address.tcp().into_iter().chain(more)
}

/// The protocols of the gateway; with several ports, also which port each is for.
fn protocols(gateway: &ReadyProcess, plan: &Plan) -> String {
    let names = |protocols: &[Protocol]| {
        let names: Vec<&str> = protocols.iter().map(|it| it.name()).collect();
        let tls = if plan.gateway.tls.is_some() {
            " with TLS"
        } else {
            ""
        };
        format!("{}{tls}", names.join(", "))
    };
    if gateway.more_addresses.is_empty() {
        return names(&plan.gateway.protocols);
    }
    let ports = plan.gateway.ports().zip(all_addresses(gateway));
    let each = ports.map(|(port, at)| format!("{} on {}", names(&port.protocols), at.port()));
    each.collect::<Vec<_>>().join(", ")
}

/// The workspaces of a plan, each once.
fn workspaces(plan: &Plan) -> Vec<String> {
    let own = plan.nodes.iter().filter_map(|node| match &node.run {
        Run::Local(run) => run.workspace.as_ref(),
        Run::External { .. } => None,
    });
    let mut all: Vec<String> = Vec::new();
    for folder in plan.workspace.iter().chain(own) {
        let folder = folder.display().to_string();
        if !all.contains(&folder) {
            all.push(folder);
        }
    }
    all
}

fn row(member: &ReadyProcess) -> Row {
    let metrics = member.metrics_url().map(|url| ("metrics".to_owned(), url));
    Row {
        name: member.name.to_string(),
        address: member.address.short(),
        facts: member.facts.clone().into_iter().chain(metrics).collect(),
    }
}

fn external(started: &StartedFlow) -> impl Iterator<Item = Row> {
    let plan = &started.placement.plan;
    let external = plan
        .nodes()
        .filter(|(_, node)| matches!(node.run, Run::External { .. }));
    external.flat_map(|(at, node)| {
        started.placement.addresses(at).all().map(|address| Row {
            name: node.name.to_string(),
            address: format!("{address} (external)"),
            facts: Vec::new(),
        })
    })
}
