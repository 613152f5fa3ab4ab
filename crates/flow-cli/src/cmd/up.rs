//! `flow up`: starts everything that a flow file names, and serves until told to end.

mod addresses;
mod devices;
mod port_owner;
mod read;
mod tell;
pub(super) mod uses;
pub(super) mod volumes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use flow_launch::registry::{self, Entered, Entry};
use flow_launch::{Docker, Failed, Home, Launch, Member, Programs, Running, Started};
use flow_net::{Drain, Draining};
use flow_spec::{Plan, Protocol, Run};

use self::read::{FirstReading, FlowFile, Incomplete};
use self::tell::Teller;
use crate::banner::{Banner, Row};
use crate::builtin::BUILTIN;
use crate::exit::{BadUsage, Exit};
use crate::folder::package::Builder;
use crate::login;
use crate::output::{self, Painter};
use crate::places;
use crate::shell::Shell;

/// Options of `flow up`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow up flows/encode.yml
  flow up flows/encode.yml --port 8080

The first Ctrl-C lets requests under way finish; the second stops at once.")]
pub(crate) struct Up {
    /// Flow file to start
    #[arg(value_name = "FLOW.yml")]
    file: PathBuf,
    /// Listen for clients on this port instead of the file's; 0 picks a free one
    #[arg(long)]
    port: Option<u16>,
    /// Time that requests under way get to finish when the flow stops, such as 10s or 1m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    grace: Duration,
}

pub(crate) async fn run(up: Up, shell: &Shell) -> anyhow::Result<Exit> {
    let begun = Instant::now();
    shell.log.start(shell.wants_colour);
    let builder = Builder::default();
    let launch = launch(&up, builder.clone(), shell)?;
    let folder = launch.home.as_ref().map(|home| home.folder().to_owned());
    let (events, mut teller) = tell::start(shell).context("cannot start a thread")?;
    let drain = Drain::new(up.grace);
    let draining = drain.watch();
    let signalled_twice = drain.clone().follow_signals();
    // The flow is on the list before its executors are built.
    let entered = folder.and_then(|folder| enter(&up, folder, shell));
    let mut running = Running::launch(launch, events).context("cannot start the launcher")?;

    let show = |started: &Started| {
        let columns = output::columns(std::io::stdout());
        let text = banner(started, begun.elapsed()).text(Painter::stdout(shell), columns);
        output::bytes(text.as_bytes())
    };
    let exit = tokio::select! {
        exit = serve(&mut running, &draining, &mut teller, show) => exit,
        () = signalled_twice => {
            running.kill();
            Ok(Exit::Interrupted)
        }
    };
    drop(entered);
    // Executors may be being built for a reload.
    builder.stop();
    // The last words of processes come before ours.
    drop(running);
    teller.finish();
    exit
}

/// What is to be started, from the file and the options.
fn launch(up: &Up, builder: Builder, shell: &Shell) -> anyhow::Result<Launch> {
    let file = FlowFile {
        path: up.file.clone(),
        port: up.port,
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
        built_in: BUILTIN.iter().map(|it| it.name.to_owned()).collect(),
    };
    Ok(Launch {
        grace: up.grace,
        log: match shell.log.format {
            flow_executor::Log::Text => flow_spec::Log::Text,
            flow_executor::Log::Json => flow_spec::Log::Json,
        },
        home: home(up, &draft, shell),
        source: Some(source),
        preparation: Some(preparation),
        docker: docker(shell),
        ..Launch::new(draft, programs)
    })
}

/// The engine that the user's other programs talk to.
fn docker(shell: &Shell) -> Docker {
    let of_login = shell.clone();
    Docker {
        host: shell.variable("DOCKER_HOST"),
        credentials: Some(Arc::new(move |image| login::of_image(image, &of_login))),
    }
}

/// The folder for the flow's log files and its control socket. Without one it runs all the same.
fn home(up: &Up, plan: &Plan, shell: &Shell) -> Option<Home> {
    let folder = places::folder(&up.file, plan.workspace.as_deref(), shell);
    let Some(folder) = folder else {
        tracing::warn!("the flow has no log files and no control socket: HOME is not set");
        return None;
    };
    match Home::take(&folder) {
        Ok(home) => Some(home),
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "the flow has no log files and no control socket");
            None
        }
    }
}

/// Puts the flow on the list that `flow ps` and its like look at, for as long as the entry is kept.
fn enter(up: &Up, folder: PathBuf, shell: &Shell) -> Option<Entered> {
    let registry = places::registry(shell)?;
    let file = places::full(&up.file).unwrap_or_else(|_| up.file.clone());
    let pid = std::process::id();
    let entry = Entry { pid, file, folder };
    let entered = registry::enter(&registry, &entry);
    let cannot = |error: &std::io::Error| {
        let folder = registry.display();
        tracing::warn!(%folder, %error, "the flow is not on the list of running flows");
    };
    entered.inspect_err(cannot).ok()
}

/// From the start of the processes to their orderly end.
async fn serve(
    running: &mut Running,
    draining: &Draining,
    teller: &mut Teller,
    show: impl FnOnce(&Started) -> std::io::Result<()>,
) -> anyhow::Result<Exit> {
    let started = tokio::select! {
        started = running.started() => match started {
            // `flow down` has stopped it, which is no failure.
            Err(stopped @ Failed::Stopped) => {
                tracing::info!("{stopped}");
                return Ok(Exit::Fine);
            }
            started => Some(started.map_err(explain)?),
        },
        () = draining.begun() => None,
    };
    if let Some(started) = started {
        teller.has_told_start().await;
        show(&started)?;
        tokio::select! {
            // It ends well by itself only where somebody has told it to.
            ended = running.ended() => return ended.map(|()| Exit::Fine).map_err(explain),
            () = draining.begun() => {}
        }
    }
    tracing::info!("finishing what is under way; a second signal ends it at once");
    running.stop();
    running.ended().await?;
    Ok(Exit::Fine)
}

/// Adds what only this program knows to why a flow does not run.
fn explain(failed: Failed) -> anyhow::Error {
    let failed = match failed {
        Failed::Unprepared(error) => return unprepared(error),
        failed => failed,
    };
    let (port, remedy) = match &failed {
        Failed::Port { port, .. } => (*port, "choose another port with `--port`"),
        Failed::MetricsPort { port, .. } => (*port, "write another `port_monitoring`"),
        _ => return failed.into(),
    };
    match (port_owner::find(port), failed) {
        (Some(owner), _) => {
            anyhow::anyhow!("port {port} is taken: {owner} listens there; stop it, or {remedy}")
        }
        (None, Failed::Port { source, .. }) => source.into(),
        (None, failed) => failed.into(),
    }
}

/// Why executors could not be built, as it was before the launcher carried it.
fn unprepared(error: Box<dyn std::error::Error + Send + Sync>) -> anyhow::Error {
    match error.downcast::<Incomplete>() {
        Ok(error) if error.is_users => BadUsage(error.text).into(),
        Ok(error) => anyhow::Error::msg(error.text),
        Err(error) => anyhow::Error::from_boxed(error),
    }
}

fn banner(started: &Started, took: Duration) -> Banner {
    let at = started.gateway.address;
    let plan = &started.placement.plan;
    Banner {
        protocol: match plan.gateway.protocol {
            Protocol::Grpc => "GRPC".to_owned(),
        },
        local: vec![addresses::local(at).to_string()],
        private: addresses::private(at)
            .iter()
            .map(ToString::to_string)
            .collect(),
        metrics: started.gateway.metrics_url(),
        workspaces: workspaces(plan),
        executors: started
            .executors
            .iter()
            .map(row)
            .chain(external(started))
            .collect(),
        took,
    }
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

fn row(member: &Member) -> Row {
    let metrics = member.metrics_url().map(|url| ("metrics".to_owned(), url));
    Row {
        name: member.name.to_string(),
        address: member.address.to_string(),
        facts: member.facts.clone().into_iter().chain(metrics).collect(),
    }
}

fn external(started: &Started) -> impl Iterator<Item = Row> {
    let plan = &started.placement.plan;
    let external = plan
        .nodes()
        .filter(|(_, node)| matches!(node.run, Run::External { .. }));
    external.flat_map(|(at, node)| {
        started.placement.places(at).all().map(|address| Row {
            name: node.name.to_string(),
            address: format!("{address} (external)"),
            facts: Vec::new(),
        })
    })
}
