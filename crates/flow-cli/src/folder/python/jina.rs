//! Runs a Python executor with the user's own Jina.
//!
//! `jina executor` replaces this process, so that the launcher supervises it directly. Jina's executors do not report that
//! they are ready: another process, `flow announce`, polls their health and reports it.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use flow_executor::{ExecutorArgs, Workers};

use super::interpreter::{PYTHON, has_module};
use crate::exit::BadUsage;
use crate::shell::Shell;

/// All addresses of this machine.
const EVERYWHERE: &str = "0.0.0.0";

/// Turns off Jina's colors, logo, surveys and telemetry, unless the user sets these variables.
const QUIET: &[(&str, &str)] = &[
    ("JINA_LOG_NO_COLOR", "1"),
    ("JINA_HIDE_SURVEY", "1"),
    ("JINA_OPTOUT_TELEMETRY", "1"),
    ("PYTHONUNBUFFERED", "1"),
];

/// Jina's command line without the table of its arguments, which has a hundred lines.
const MAIN: &str = "\
import jina_cli
read = getattr(jina_cli, '_get_run_args', None)
if read:
    jina_cli._get_run_args = lambda: read(print_args=False)
jina_cli.main()";

/// A way to call Jina.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Jina {
    /// With an interpreter.
    Python(PathBuf),
    /// With its own program.
    Program(PathBuf),
}

impl Jina {
    /// Finds Jina in `FLOW_PYTHON`, in a `.venv` beside the config, or on `PATH`.
    ///
    /// # Errors
    ///
    /// If there is none. The error says what to install.
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
            let place = format!("`{}`", own.display());
            return Self::of(own).with_context(|| missing(config, &place));
        }
        let path = variable("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .map(|folder| folder.join("jina"))
            .find(|program| program.is_file())
            .with_context(|| missing(config, "PATH"))?;
        // pip installs the program beside its interpreter.
        let beside = Self::of(program.with_file_name("python"));
        Ok(beside.unwrap_or(Self::Program(program)))
    }

    /// An interpreter. `None` if it cannot be run, or has no Jina.
    fn of(python: PathBuf) -> Option<Self> {
        has_module(&python, "jina_cli").then_some(Self::Python(python))
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

fn missing(config: &Path, place: &str) -> String {
    let requirements = config.with_file_name("requirements.txt");
    let packages = match requirements.exists() {
        true => format!("-r {}", requirements.display()),
        false => "jina".to_owned(),
    };
    format!(
        "`{}` is a Python executor, and {place} has no Jina to run it; install it with `pip install \
         {packages}`, or set {PYTHON} to an interpreter that has it",
        config.display()
    )
}

/// Where Jina is to listen.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    /// For requests.
    serving: SocketAddr,
    /// For its metrics, if it serves any.
    metrics: Option<SocketAddr>,
}

/// Replaces this process by `jina executor`. Returns only if that fails.
///
/// # Errors
///
/// If Jina does not support an option, or a process cannot be started.
pub(crate) fn exec_jina(
    jina: &Jina,
    config: &Path,
    args: &ExecutorArgs,
    shell: &Shell,
) -> anyhow::Result<Infallible> {
    if args.workers != Workers::default() {
        let why = "an executor in Python has one worker; write `replicas` instead of `workers`";
        return Err(BadUsage(why.to_owned()).into());
    }
    if let Some(parent) = args.parent_pid {
        flow_process::end_with_parent(parent)?;
    }
    let addresses = Addresses {
        serving: address(&args.host, args.port)?,
        // Jina's executors serve their metrics at all addresses of the machine.
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

/// The address of the executor. Jina does not report its port, so that a free one is chosen here.
fn address(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let bind = || TcpListener::bind((host, port))?.local_addr();
    let address = bind().with_context(|| format!("cannot listen on {host}:{port}"))?;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(SocketAddr::new(ip, address.port()))
}

/// Starts the process that reports the readiness of this one. It is a grandchild, because Jina would not wait for a child.
fn announce_later(args: &ExecutorArgs, addresses: Addresses) -> anyhow::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["announce", "--apart"]);
    command.args(["--of", &std::process::id().to_string()]);
    let address = addresses.serving.to_string();
    command.args(["--name", &args.name, "--address", &address]);
    if let Some(metrics) = addresses.metrics {
        command.args(["--metrics", &metrics.to_string()]);
    }
    if args.to_launcher || args.parent_pid.is_some() {
        command.arg("--to-launcher");
    }
    let ended = command.stdin(Stdio::null()).status();
    let ended = ended.context("cannot start `flow announce`")?;
    anyhow::ensure!(ended.success(), "`flow announce` could not be started");
    Ok(())
}

/// Where collectors take OTLP over gRPC.
const COLLECTOR_PORT: u16 = 4317;

/// The arguments for Jina.
fn arguments(config: &Path, args: &ExecutorArgs, addresses: Addresses) -> Vec<String> {
    let mut all = vec!["executor".to_owned(), "--native".to_owned()];
    let mut add = |key: &str, values: &[String]| {
        if !values.is_empty() {
            all.push(key.to_owned());
            all.extend_from_slice(values);
        }
    };
    add("--uses", &[config.display().to_string()]);
    // Jina uses its name in the metrics.
    let name = args.runtime_name.as_ref().unwrap_or(&args.name);
    add("--name", std::slice::from_ref(name));
    add("--host", std::slice::from_ref(&args.host));
    add("--port", &[addresses.serving.port().to_string()]);
    add("--uses-with", &args.revealed_uses_with());
    add("--uses-metas", &args.uses_metas);
    add("--uses-requests", &args.uses_requests);
    add("--uses-dynamic-batching", &args.uses_dynamic_batching);
    add("--exit-on-exceptions", &args.exit_on_exceptions);
    if let Some(folder) = &args.workspace {
        add("--workspace", &[folder.display().to_string()]);
    }
    let (host, port) = (&args.traces_exporter_host, args.traces_exporter_port);
    if args.tracing {
        add("--traces-exporter-host", &[collector_host(host.as_deref())]);
        add("--traces-exporter-port", &[collector_port(port)]);
    }
    let (host, port) = (&args.metrics_exporter_host, args.metrics_exporter_port);
    if args.metrics {
        add(
            "--metrics-exporter-host",
            &[collector_host(host.as_deref())],
        );
        add("--metrics-exporter-port", &[collector_port(port)]);
    }
    if let Some(metrics) = addresses.metrics {
        add("--port-monitoring", &[metrics.port().to_string()]);
    }
    let flags = [
        ("--tracing", args.tracing),
        ("--metrics", args.metrics),
        ("--monitoring", addresses.metrics.is_some()),
    ];
    let set = flags.into_iter().filter(|(_, is_set)| *is_set);
    all.extend(set.map(|(flag, _)| flag.to_owned()));
    all
}

/// The host of a collector, as the exporters of Jina's OpenTelemetry want it: they speak TLS where the scheme is missing.
fn collector_host(host: Option<&str>) -> String {
    match host {
        Some(host) if host.contains("://") => host.to_owned(),
        host => format!("http://{}", host.unwrap_or("localhost")),
    }
}

fn collector_port(port: Option<u16>) -> String {
    port.unwrap_or(COLLECTOR_PORT).to_string()
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
    fn jina_gets_the_options_of_the_executor() {
        let line = "x --name a/rep-0 --uses-with {\"k\":1} --uses-with a:b --workspace w --grace 3s --port 0";
        let typed = Typed::parse_from(line.split(' '));
        let passed = |metrics: Option<u16>| {
            let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
            let addresses = Addresses {
                metrics: metrics.map(at),
                serving: at(7),
            };
            arguments(Path::new("e/config.yml"), &typed.args, addresses).join(" ")
        };
        let expected = "executor --native --uses e/config.yml --name a/rep-0 --host 127.0.0.1 --port 7 \
             --uses-with {\"k\":1} a:b --workspace w";
        assert_eq!(passed(None), expected);
        let monitored = format!("{expected} --port-monitoring 8 --monitoring");
        assert_eq!(passed(Some(8)), monitored);
    }

    #[test]
    fn jina_gets_the_collectors() {
        let passed = |line: &str| {
            let typed = Typed::parse_from(line.split(' '));
            let at = SocketAddr::from(([127, 0, 0, 1], 7));
            let all = arguments(
                Path::new("config.yml"),
                &typed.args,
                Addresses {
                    serving: at,
                    metrics: None,
                },
            );
            let from = all.iter().position(|it| it == "7").unwrap() + 1;
            all[from..].join(" ")
        };
        assert_eq!(
            passed("x --name a --port 0 --tracing"),
            "--traces-exporter-host http://localhost --traces-exporter-port 4317 --tracing"
        );
        assert_eq!(
            passed(
                "x --name a --port 0 --metrics --metrics-exporter-host https://b --metrics-exporter-port 9"
            ),
            "--metrics-exporter-host https://b --metrics-exporter-port 9 --metrics"
        );
    }

    #[test]
    fn without_jina_the_error_says_what_to_install() {
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
            "`config.yml` is a Python executor, and PATH has no Jina to run it; install it with `pip \
             install jina`, or set FLOW_PYTHON to an interpreter that has it"
        );
        std::fs::write(folder.path().join("requirements.txt"), "jina").unwrap();
        let error = find(Some("/no/python"));
        assert!(
            error.contains("FLOW_PYTHON is `/no/python`, which has no Jina"),
            "{error}"
        );
        assert!(
            error.contains("`pip install -r requirements.txt`"),
            "{error}"
        );
    }
}
