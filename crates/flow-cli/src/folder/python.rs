//! Runs a stock executor in Python with the user's own Jina.
//!
//! This process becomes `jina executor`, so whoever started it watches and ends the real thing. Jina's
//! executors do not say that they are ready as ours do: a process beside it (`flow announce`) asks for
//! its health and says so.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use flow_executor::{Addresses, ExecutorArgs, Workers};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// Every address of this machine.
const EVERYWHERE: &str = "0.0.0.0";

/// Names the interpreter that has Jina.
const PYTHON: &str = "FLOW_PYTHON";

/// What Jina should not do unless the user asks for it: colours and a logo in our log, surveys, and calls
/// to its makers.
const QUIET: &[(&str, &str)] = &[
    ("JINA_LOG_NO_COLOR", "1"),
    ("JINA_HIDE_SURVEY", "1"),
    ("JINA_OPTOUT_TELEMETRY", "1"),
    ("PYTHONUNBUFFERED", "1"),
];

/// Jina's command line without the table of its arguments, which has a hundred lines and nothing to say.
const MAIN: &str = "\
import jina_cli
read = getattr(jina_cli, '_get_run_args', None)
if read:
    jina_cli._get_run_args = lambda: read(print_args=False)
jina_cli.main()";

/// How Jina is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Jina {
    /// By an interpreter that has it.
    Python(PathBuf),
    /// By its own program.
    Program(PathBuf),
}

impl Jina {
    /// Finds it: `FLOW_PYTHON`, a `.venv` beside the config, `PATH`.
    ///
    /// # Errors
    ///
    /// If there is none; the text says what to install.
    pub(crate) fn find(
        config: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let folder = config.parent().unwrap_or(Path::new(""));
        if let Some(python) = variable(PYTHON).filter(|it| !it.is_empty()) {
            return Self::of(python.clone().into())
                .with_context(|| missing(config, &format!("{PYTHON} is `{python}`, which")));
        }
        let own = folder.join(".venv/bin/python");
        if own.exists() {
            let who = format!("`{}`", own.display());
            return Self::of(own).with_context(|| missing(config, &who));
        }
        let path = variable("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .map(|folder| folder.join("jina"))
            .find(|program| program.is_file())
            .with_context(|| missing(config, "PATH"))?;
        // Where pip put the program, its interpreter lies beside it.
        let beside = Self::of(program.with_file_name("python"));
        Ok(beside.unwrap_or(Self::Program(program)))
    }

    /// An interpreter; none: it cannot be run, or has no Jina.
    fn of(python: PathBuf) -> Option<Self> {
        const HAS_JINA: &str =
            "import sys, importlib.util as u; sys.exit(u.find_spec('jina_cli') is None)";
        let asked = Command::new(&python)
            .args(["-c", HAS_JINA])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        asked.status.success().then_some(Self::Python(python))
    }

    fn command(&self) -> Command {
        match self {
            Self::Program(program) => Command::new(program),
            Self::Python(python) => {
                let mut command = Command::new(python);
                command.args(["-c", MAIN]);
                command
            }
        }
    }
}

fn missing(config: &Path, who: &str) -> String {
    let requirements = config.with_file_name("requirements.txt");
    let packages = match requirements.exists() {
        true => format!("-r {}", requirements.display()),
        false => "jina".to_owned(),
    };
    format!(
        "`{}` is an executor in Python, and {who} has no Jina to run it; install it with `pip install \
         {packages}`, or name the interpreter that has it: {PYTHON}=/path/to/python",
        config.display()
    )
}

/// Puts `jina executor` in this process's place; comes back only if that fails.
///
/// # Errors
///
/// If an argument has no meaning for Jina, or a process cannot be started.
pub(crate) fn become_jina(
    jina: &Jina,
    config: &Path,
    args: &ExecutorArgs,
    shell: &Shell,
) -> anyhow::Result<Infallible> {
    if args.workers != Workers::default() {
        let why = "an executor in Python has one worker; write `replicas` instead of `workers`";
        return Err(BadUsage(why.to_owned()).into());
    }
    if let Some(parent) = args.child_of {
        flow_executor::die_with(parent)?;
    }
    let addresses = Addresses {
        serving: address(&args.host, args.port)?,
        // Jina's executors show their metrics at every address of the machine.
        metrics: match args.monitoring {
            true => Some(address(EVERYWHERE, args.port_monitoring)?),
            false => None,
        },
    };
    announce_later(args, addresses)?;
    let unset = QUIET.iter().filter(|it| shell.variable(it.0).is_none());
    let mut command = jina.command();
    let error = command
        .args(arguments(config, args, addresses))
        .envs(unset.copied())
        .exec();
    let program = command.get_program().display();
    Err(error).with_context(|| format!("cannot run `{program}`"))
}

/// Where it will be reached. Jina cannot tell which port it was given, so a free one is looked for here.
fn address(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let bind = || TcpListener::bind((host, port))?.local_addr();
    let address = bind().with_context(|| format!("cannot listen at {host}:{port}"))?;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(SocketAddr::new(ip, address.port()))
}

/// Starts the process that says when this one is ready. It is a grandchild: Jina would not know that it
/// has a child to bury.
fn announce_later(args: &ExecutorArgs, addresses: Addresses) -> anyhow::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["announce", "--apart"]);
    command.args(["--of", &std::process::id().to_string()]);
    let address = addresses.serving.to_string();
    command.args(["--name", &args.name, "--address", &address]);
    if let Some(metrics) = addresses.metrics {
        command.args(["--metrics", &metrics.to_string()]);
    }
    if args.to_launcher || args.child_of.is_some() {
        command.arg("--to-launcher");
    }
    let ended = command.stdin(Stdio::null()).status();
    let ended = ended.context("cannot start `flow announce`")?;
    anyhow::ensure!(ended.success(), "`flow announce` could not be started");
    Ok(())
}

/// What Jina is told, in its own words.
fn arguments(config: &Path, args: &ExecutorArgs, addresses: Addresses) -> Vec<String> {
    let mut all = vec!["executor".to_owned(), "--native".to_owned()];
    let mut say = |key: &str, values: &[String]| {
        if !values.is_empty() {
            all.push(key.to_owned());
            all.extend_from_slice(values);
        }
    };
    say("--uses", &[config.display().to_string()]);
    // They count under the name that they are given.
    let name = args.runtime_name.as_ref().unwrap_or(&args.name);
    say("--name", std::slice::from_ref(name));
    say("--host", std::slice::from_ref(&args.host));
    say("--port", &[addresses.serving.port().to_string()]);
    say("--uses-with", &args.uses_with);
    say("--uses-metas", &args.uses_metas);
    say("--uses-requests", &args.uses_requests);
    say("--uses-dynamic-batching", &args.uses_dynamic_batching);
    say("--exit-on-exceptions", &args.exit_on_exceptions);
    if let Some(folder) = &args.workspace {
        say("--workspace", &[folder.display().to_string()]);
    }
    if let Some(metrics) = addresses.metrics {
        say("--port-monitoring", &[metrics.port().to_string()]);
        all.push("--monitoring".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: ExecutorArgs,
    }

    #[test]
    fn jina_is_told_what_the_executor_was_told() {
        let line = "x --name a/rep-0 --uses-with {\"k\":1} --uses-with a:b --workspace w --grace 3s --port 0";
        let typed = Typed::parse_from(line.split(' '));
        let told = |metrics: Option<u16>| {
            let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
            let addresses = Addresses {
                metrics: metrics.map(at),
                ..at(7).into()
            };
            arguments(Path::new("e/config.yml"), &typed.args, addresses).join(" ")
        };
        let expected = "executor --native --uses e/config.yml --name a/rep-0 --host 127.0.0.1 --port 7 \
             --uses-with {\"k\":1} a:b --workspace w";
        assert_eq!(told(None), expected);
        let monitored = format!("{expected} --port-monitoring 8 --monitoring");
        assert_eq!(told(Some(8)), monitored);
    }

    #[test]
    fn who_has_no_jina_is_told_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.yml");
        let find = |python: Option<&str>| {
            let variable = |name: &str| (name == PYTHON).then(|| python.map(str::to_owned))?;
            let found = Jina::find(&config, variable);
            let text = found.unwrap_err().to_string();
            text.replace(&format!("{}/", folder.path().display()), "")
        };
        assert_eq!(
            find(None),
            "`config.yml` is an executor in Python, and PATH has no Jina to run it; install it with `pip \
             install jina`, or name the interpreter that has it: FLOW_PYTHON=/path/to/python"
        );
        std::fs::write(folder.path().join("requirements.txt"), "jina").unwrap();
        let told = find(Some("/no/python"));
        assert!(
            told.contains("FLOW_PYTHON is `/no/python`, which has no Jina"),
            "{told}"
        );
        assert!(told.contains("`pip install -r requirements.txt`"), "{told}");
    }
}
