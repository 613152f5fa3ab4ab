//! `flow executor`: starts one of the built-in executors. What it does then is `flow-executor`'s.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use clap::builder::PossibleValuesParser;
use flow_executor::ExecutorArgs;

use crate::builtin::{self, BUILTIN};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow executor --uses echo --port 54400
  flow executor --uses sentence-encoder --uses-with device:cpu --uses-with normalize:true
  flow executor --uses sentence-encoder --uses-with '{\"model\": \"all-MiniLM-L6-v2\"}'";

/// Options of `flow executor`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Executor {
    /// Which of the built-in executors
    #[arg(long, value_name = "NAME", hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(BUILTIN.iter().map(|it| it.name)))]
    uses: String,
    #[command(flatten)]
    args: ExecutorArgs,
}

fn after_help() -> String {
    format!("{}\n\n{EXAMPLES}", builtin::listing())
}

/// Serves until a signal ends it. `run_with` starts a log too, but the first one counts: ours knows
/// `--log-level`.
pub(crate) fn run(executor: Executor, shell: &Shell) -> ExitCode {
    shell.log.start(shell.wants_colour);
    // clap lets nothing else pass.
    let Some(builtin) = builtin::find(&executor.uses) else {
        return ExitCode::from(2);
    };
    let unset = |variable: &&(&str, &str)| shell.variable(variable.0).is_none();
    let missing: Vec<_> = builtin.variables.iter().filter(unset).copied().collect();
    if missing.is_empty() {
        return (builtin.run)(executor.args);
    }
    // Comes back only if it failed: then the executor runs slower, and no worse.
    let error = begin_again(missing);
    tracing::warn!(%error, "the process cannot be started with its variables");
    (builtin.run)(executor.args)
}

/// The same program with the same arguments takes this process's place, its number included.
fn begin_again(variables: Vec<(&str, &str)>) -> std::io::Error {
    match std::env::current_exe() {
        Ok(program) => Command::new(program)
            .args(std::env::args_os().skip(1))
            .envs(variables)
            .exec(),
        Err(error) => error,
    }
}
