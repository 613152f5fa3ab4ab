//! The executors that run in the process of the gateway.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use flow_core::NodeName;
use flow_executor::{ColocatedExecutor, ExecutorArgs};
use flow_net::LocalService;
use flow_spec::{LocalRun, Placement, Uses};
use futures_util::future::select_all;

use crate::builtin;

/// The arguments of an executor, as on the command line of a process of its own.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: ExecutorArgs,
}

/// Executors that are loaded in this process.
#[derive(Debug, Default)]
pub(super) struct ColocatedExecutors(Vec<(NodeName, ColocatedExecutor)>);

impl ColocatedExecutors {
    /// Loads those of a placement, one after another. The values of their options leave the placement.
    pub(super) async fn load(placement: &mut Placement, grace: Duration) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for (node, run) in placement.take_colocated() {
            let executor = load(&node, &run, grace).await;
            let executor =
                executor.with_context(|| format!("cannot run `{node}` in the gateway"))?;
            let facts = executor.facts().iter();
            let mut facts: Vec<String> = facts.map(|(name, it)| format!(" {name}={it}")).collect();
            let metrics = executor.metrics_address();
            facts.extend(metrics.map(|at| format!(" metrics=http://{at}/metrics")));
            tracing::info!("`{node}` runs in this process{}", facts.concat());
            all.0.push((node, executor));
        }
        Ok(all)
    }

    /// What the gateway calls, by node.
    pub(super) fn services(&self) -> HashMap<NodeName, LocalService> {
        let all = self.0.iter();
        all.map(|(node, executor)| (node.clone(), executor.service()))
            .collect()
    }

    /// Serves the metrics of all. Returns when one of them has failed.
    pub(super) async fn failed(&mut self) {
        match self.0.is_empty() {
            true => std::future::pending().await,
            false => {
                let all = self
                    .0
                    .iter_mut()
                    .map(|(_, executor)| Box::pin(executor.failed()));
                select_all(all).await;
            }
        }
    }

    /// Ends all, after the last request. An error is the failure of one of them.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for (_, executor) in self.0 {
            if let Some(failure) = executor.end().await {
                outcome = Err(failure.into());
            }
        }
        outcome
    }
}

async fn load(
    node: &NodeName,
    run: &LocalRun,
    grace: Duration,
) -> anyhow::Result<ColocatedExecutor> {
    let name = match &run.uses {
        Uses::Named(name) => name.as_str(),
        Uses::Path(_) | Uses::Image(_) => "",
    };
    let builtin = builtin::find(name).context("it is not a built-in executor")?;
    let mut args = Line::try_parse_from(line(node, run))?.args;
    args.uses_with.extend(run.with_as_json());
    args.workspace.clone_from(&run.workspace);
    args.grace = grace;
    let variables = run
        .env
        .iter()
        .map(|(name, value)| (name.clone(), value.reveal().clone()));
    Ok((builtin.colocate)(args, variables.collect()).await?)
}

/// The command line of a process of its own, as far as it matters here.
fn line(node: &NodeName, run: &LocalRun) -> Vec<String> {
    let line = [
        "executor",
        "--name",
        node.as_str(),
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    ];
    let mut line = line.map(str::to_owned).to_vec();
    line.extend(run.arguments());
    if let Some(monitoring) = &run.monitoring {
        let port = monitoring.port(0).to_string();
        line.extend([
            "--monitoring".to_owned(),
            "--port-monitoring".to_owned(),
            port,
        ]);
    }
    line.extend(run.telemetry.arguments());
    line
}
