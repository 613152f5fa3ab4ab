//! The command line: the program's own options and its commands.
//!
//! The options of a command are in its own file in `cmd/`. The help lists the commands in groups, which `clap` does not
//! support: [`GROUPS`].

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, FromArgMatches, Parser};

use crate::cmd::Command;
use crate::log::LogArgs;
use crate::version;

/// Serve pipelines of machine-learning executors from one YAML file
#[derive(Debug, Parser)]
#[command(name = "flow", version, long_version = version::long())]
#[command(propagate_version = true, max_term_width = 100)]
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

/// The commands in groups, as the help lists them.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Run",
        &["up", "post", "ping", "gateway", "executor", "python"],
    ),
    (
        "Operate",
        &[
            "ps",
            "top",
            "logs",
            "log-level",
            "restart",
            "scale",
            "reload",
            "down",
            "key",
        ],
    ),
    ("Build and share", &["new", "hub", "model", "export"]),
    (
        "Inspect",
        &[
            "check", "migrate", "plot", "trace", "verify", "tune", "doctor", "devices", "bench",
        ],
    ),
    ("Other", &["completions", "man", HELP]),
];

/// The commands that need a Cargo feature.
const OPTIONAL: &[(&str, &[&str])] = &[
    (
        "launch",
        &[
            "up",
            "ps",
            "logs",
            "log-level",
            "restart",
            "scale",
            "reload",
            "down",
            "tune",
            "doctor",
            "docker-compose",
        ],
    ),
    ("top", &["top"]),
    ("kubernetes", &["kubernetes"]),
    ("hub", &["hub"]),
];

/// A command that `clap` adds by itself.
const HELP: &str = "help";
const HELP_ABOUT: &str = "Print the help of a command";

/// Parses the command line. Ends the program for bad usage, and after printing help.
pub(crate) fn parse() -> Args {
    let matches = command().try_get_matches();
    let args = matches.and_then(|matches| Args::from_arg_matches(&matches));
    args.unwrap_or_else(|error| explain(error).exit())
}

/// The description of the command line.
pub(crate) fn command() -> clap::Command {
    let command = Args::command();
    let groups = groups(&command);
    let heading = heading(&command, "Options");
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{heading}\n{{options}}{{after-help}}"
    ))
}

/// Adds the Cargo feature to the error about a command that this program does not have.
fn explain(error: Error) -> Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    match feature_of(name).filter(|_| !has_command(&command(), name)) {
        Some(feature) => {
            let text = format!(
                "this program has no command `{name}`: it was built without the Cargo feature `{feature}`"
            );
            command().error(ErrorKind::InvalidSubcommand, text)
        }
        None => error,
    }
}

/// The Cargo feature that a command needs.
fn feature_of(name: &str) -> Option<&'static str> {
    let found = OPTIONAL.iter().find(|(_, names)| names.contains(&name));
    found.map(|(feature, _)| *feature)
}

/// Whether the command, or one below it, has this name.
fn has_command(command: &clap::Command, name: &str) -> bool {
    let mut below = command.get_subcommands();
    below.any(|it| it.get_name() == name || has_command(it, name))
}

/// The commands and their descriptions, group by group.
fn groups(command: &clap::Command) -> String {
    let is_there = |name: &&&str| **name == HELP || command.find_subcommand(name).is_some();
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let literal = command.get_styles().get_literal();
    let mut text = String::new();
    for (title, names) in GROUPS {
        let names: Vec<&&str> = names.iter().filter(is_there).collect();
        if !names.is_empty() {
            text.push_str(&format!("\n{}\n", heading(command, title)));
        }
        for name in names {
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
    fn a_command_that_is_left_out_names_its_cargo_feature() {
        let command = command();
        for (_, names) in OPTIONAL {
            for name in *names {
                assert!(has_command(&command, name), "{name}");
            }
        }
        assert_eq!(feature_of("up"), Some("launch"));
        assert_eq!(feature_of("check"), None);
    }

    #[test]
    fn the_help_lists_the_commands_in_groups_and_fits_80_columns() {
        let help = command().term_width(80).render_help().to_string();
        for line in help.lines() {
            assert!(width(line) <= 80, "{line}");
        }
        let position = |part: &str| help.find(part).unwrap_or_else(|| panic!("{part}: {help}"));
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
        assert!(parts.map(position).is_sorted(), "{help}");
    }

    /// The command and those below it, without hidden ones and without `help`, which repeats them.
    fn all(command: &clap::Command) -> Vec<clap::Command> {
        let is_listed = |it: &&clap::Command| !it.is_hide_set() && it.get_name() != HELP;
        let below = command.get_subcommands().filter(is_listed);
        let below = below.flat_map(all).collect::<Vec<_>>();
        std::iter::once(command.clone()).chain(below).collect()
    }

    #[test]
    fn every_command_that_runs_something_has_examples_and_says_its_exit_codes() {
        let mut command = command();
        command.build();
        let leaves = all(&command).into_iter().filter(|it| !it.has_subcommands());
        let mut lacking = Vec::new();
        for command in leaves {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            for part in ["EXAMPLES:\n  ", "\nExit codes: "] {
                if !help.contains(part) {
                    lacking.push(format!("{}: {}", command.get_name(), part.trim()));
                }
            }
        }
        assert!(lacking.is_empty(), "{lacking:#?}");
    }

    #[test]
    fn every_command_and_option_has_a_description_in_the_same_form() {
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
