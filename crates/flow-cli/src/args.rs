//! What can be typed: the program's own options and its commands.
//!
//! Each command's options stand in its own file under `cmd/`. The help of the program lists the commands in
//! groups, which `clap` does not know: [`GROUPS`].

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cmd::{
    announce, bench, change, check, completions, devices, executor, export, gateway, hub, logs,
    model, new, ping, plot, post, ps, up,
};
use crate::log::LogArgs;

/// Serve pipelines of machine-learning executors from one YAML file
#[derive(Debug, Parser)]
#[command(name = "flow", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
EXAMPLES:
  flow up flows/encode.yml
  flow post grpc://127.0.0.1:54321 --on /encode --text \"hello world\"
  flow post grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --output out.jsonl

Run `flow help COMMAND` for the options of a command.
Exit codes: 0 success, 1 failure, 2 bad usage or a bad file.";

/// The commands of the help, by what they are for.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run", &["up", "post", "ping", "gateway", "executor"]),
    (
        "Operate",
        &["ps", "logs", "restart", "scale", "reload", "down"],
    ),
    ("Build and share", &["new", "hub", "model", "export"]),
    ("Inspect", &["check", "plot", "devices", "bench"]),
    ("Other", &["completions", HELP]),
];

/// A command that `clap` adds by itself.
const HELP: &str = "help";
const HELP_ABOUT: &str = "Print the help of a command";

/// What was typed. Wrong usage, and questions for help, end the program.
pub(crate) fn parse() -> Args {
    let matches = command().get_matches();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The command line of the program.
pub(crate) fn command() -> clap::Command {
    let command = Args::command();
    let groups = groups(&command);
    let heading = heading(&command, "Options");
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{heading}\n{{options}}{{after-help}}"
    ))
}

/// The commands with what they do, group by group.
fn groups(command: &clap::Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let literal = command.get_styles().get_literal();
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("\n{}\n", heading(command, title)));
        for name in *names {
            let about = about(command, name);
            text.push_str(&format!("  {literal}{name:width$}{literal:#}  {about}\n"));
        }
    }
    text
}

fn heading(command: &clap::Command, title: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{title}:{style:#}")
}

fn about(command: &clap::Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(|it| it.get_about());
    about.map_or_else(|| HELP_ABOUT.to_owned(), ToString::to_string)
}

/// The commands. A new one also has a place in [`GROUPS`].
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a flow and serve it until Ctrl-C
    Up(up::Up),
    /// List running flows and their processes
    Ps(ps::Ps),
    /// Show the logs of a flow's processes, merged by time
    Logs(logs::Logs),
    /// Replace an executor's processes without losing requests
    Restart(change::Restart),
    /// Change how many replicas an executor has
    Scale(change::Scale),
    /// Apply the changes in a flow file to the running flow
    Reload(change::Reload),
    /// Stop a running flow, letting requests under way finish
    Down(change::Down),
    /// Check flow files without starting anything
    Check(check::Check),
    /// Draw a flow as an SVG or Mermaid picture
    Plot(plot::Plot),
    /// Send documents to a flow, and print or save what comes back
    Post(post::Post),
    /// Check whether a flow or an executor is ready
    Ping(ping::Ping),
    /// Run only the gateway of a flow, for executors that run elsewhere
    Gateway(gateway::Gateway),
    /// Run a single executor
    Executor(executor::Executor),
    /// Create the project of a new executor or flow
    #[command(subcommand)]
    New(new::New),
    /// Share executors as images in a registry of your own
    #[command(subcommand)]
    Hub(hub::Hub),
    /// Download, list and find models
    #[command(subcommand)]
    Model(model::Model),
    /// List the devices that this machine can compute on
    Devices(devices::Devices),
    /// Export flows to Docker Compose or Kubernetes
    #[command(subcommand)]
    Export(export::Export),
    /// Measure how fast this machine computes
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Generate the script that completes commands in a shell
    Completions(completions::Completions),
    /// Announce that another process is ready
    #[command(hide = true)]
    Announce(announce::Announce),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::width;

    #[test]
    fn clap_finds_nothing_wrong_with_the_options() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let command = command();
        let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        visible.push(HELP);
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn the_help_lists_the_commands_in_groups_and_fits_80_columns() {
        let help = command().term_width(80).render_help().to_string();
        for line in help.lines() {
            assert!(width(line) <= 80, "{line}");
        }
        let place = |part: &str| help.find(part).unwrap_or_else(|| panic!("{part}: {help}"));
        let parts = [
            "Usage: flow [OPTIONS] <COMMAND>",
            "\nRun:\n  up           Start a flow",
            "\nOperate:\n  ps           List running flows",
            "\nBuild and share:\n  new          Create",
            "\nInspect:\n  check        Check flow files",
            "\nOther:\n  completions  Generate",
            "\nOptions:\n",
            "--log-level <LEVEL>",
            "\nEXAMPLES:\n",
        ];
        assert!(parts.map(place).is_sorted(), "{help}");
    }

    /// Every command, and those below it, without what is hidden.
    fn all(command: &clap::Command) -> Vec<clap::Command> {
        let below = command.get_subcommands().filter(|it| !it.is_hide_set());
        let below = below.flat_map(all).collect::<Vec<_>>();
        std::iter::once(command.clone()).chain(below).collect()
    }

    #[test]
    fn every_command_and_option_says_what_it_does_in_the_same_form() {
        let mut command = command();
        command.build();
        let mut texts = Vec::new();
        for command in all(&command) {
            let of = |text: Option<&clap::builder::StyledStr>| {
                text.map(ToString::to_string).unwrap_or_default()
            };
            let name = command.get_name();
            texts.push((name.to_owned(), of(command.get_about())));
            let options = command.get_arguments().filter(|it| !it.is_hide_set());
            texts.extend(options.map(|it| (format!("{name} {}", it.get_id()), of(it.get_help()))));
        }
        for (of, text) in texts {
            let first = text.chars().next();
            assert!(first.is_some_and(char::is_uppercase), "{of}: {text:?}");
            assert!(!text.ends_with('.'), "{of}: {text:?}");
        }
    }
}
