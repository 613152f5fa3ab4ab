//! `flow up`: starts everything that a flow file names, and serves until told to end.

mod addresses;
mod port_owner;
mod tell;
mod uses;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use flow_launch::{Failed, Launch, Member, Programs, Restarts, Running, Started};
use flow_net::{Drain, Draining};
use flow_spec::{Env, Plan, Protocol, Run};

use crate::banner::{Banner, Row};
use crate::builtin::BUILTIN;
use crate::exit::Exit;
use crate::flow_file;
use crate::output::{self, Painter};
use crate::shell::Shell;

/// Options of `flow up`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  flow up flows/encode.yml
  flow up flows/encode.yml --port 8080

The first Ctrl-C finishes what is under way, the second ends at once.")]
pub(crate) struct Up {
    /// The flow file.
    #[arg(value_name = "FLOW.yml")]
    file: PathBuf,
    /// Port for clients, in place of the file's; 0 takes any that is free.
    #[arg(long)]
    port: Option<u16>,
    /// How long requests under way may take when the flow is told to end.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    grace: Duration,
}

pub(crate) async fn run(up: Up, shell: &Shell) -> anyhow::Result<Exit> {
    let begun = Instant::now();
    shell.log.start(shell.wants_colour);
    let launch = launch(&up, shell)?;
    let (events, teller) = tell::start(shell).context("cannot start a thread")?;
    let drain = Drain::new(up.grace);
    let draining = drain.watch();
    let signalled_twice = drain.clone().follow_signals();
    let mut running = Running::launch(launch, events).context("cannot start the launcher")?;

    let show = |started: &Started| {
        let text = banner(started, begun.elapsed()).text(Painter::stdout(shell));
        output::bytes(text.as_bytes())
    };
    let exit = tokio::select! {
        exit = serve(&mut running, &draining, show) => exit,
        () = signalled_twice => {
            running.kill();
            Ok(Exit::Interrupted)
        }
    };
    // The last words of processes come before ours.
    drop(running);
    teller.finish();
    exit
}

/// What is to be started, from the file and the options.
fn launch(up: &Up, shell: &Shell) -> anyhow::Result<Launch> {
    let checked = flow_file::load(&up.file, shell)?;
    flow_file::warn(&up.file, &checked, shell);
    let mut plan = Plan::from(checked.flow);
    plan.gateway.port = up.port.or(plan.gateway.port);
    uses::resolve(&mut plan, &up.file, shell)?;
    for env in environments(&mut plan) {
        // What is logged is the same in every process, unless the file says otherwise.
        let filter = || shell.log.filter.clone();
        env.entry("FLOW_LOG".to_owned()).or_insert_with(filter);
    }
    Ok(Launch {
        plan,
        programs: Programs {
            flow: std::env::current_exe().context("cannot find the program `flow` itself")?,
            built_in: BUILTIN.iter().map(|it| it.name.to_owned()).collect(),
        },
        grace: up.grace,
        log: match shell.log.format {
            flow_executor::Log::Text => flow_spec::Log::Text,
            flow_executor::Log::Json => flow_spec::Log::Json,
        },
        restarts: Restarts::default(),
    })
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

/// From the start of the processes to their orderly end.
async fn serve(
    running: &mut Running,
    draining: &Draining,
    show: impl FnOnce(&Started) -> std::io::Result<()>,
) -> anyhow::Result<Exit> {
    let started = tokio::select! {
        started = running.started() => Some(started.map_err(explain)?),
        () = draining.begun() => None,
    };
    if let Some(started) = started {
        show(&started)?;
        tokio::select! {
            // It never ends well by itself.
            ended = running.ended() => return ended.map(|()| Exit::Failed).map_err(explain),
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
    let Failed::Port { port, source } = failed else {
        return failed.into();
    };
    match port_owner::find(port) {
        Some(owner) => anyhow::anyhow!(
            "port {port} is taken: {owner} listens there; stop it, or choose another port with `--port`"
        ),
        None => source.into(),
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
        executors: started
            .executors
            .iter()
            .map(row)
            .chain(external(started))
            .collect(),
        took,
    }
}

fn row(member: &Member) -> Row {
    Row {
        name: member.name.to_string(),
        address: member.address.to_string(),
        facts: member.facts.clone().into_iter().collect(),
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
