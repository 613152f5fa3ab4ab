//! How a process is started: program, arguments, environment. Pure; `process/local.rs` starts it.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flow_core::Secret;
use flow_spec::{Env, Gateway, LocalRun, LogStyle, PythonSource, Telemetry, Uses};

use crate::spec::container::ContainerInvocation;
use crate::spec::environment::Inherited;
use crate::spec::ports::Ports;
use crate::spec::sandbox::SandboxInvocation;
use crate::supervisor::backoff::RestartPolicy;

/// Where executors listen unless the file says otherwise: only this machine can connect.
const HOST_DEFAULT: &str = "127.0.0.1";

/// The option with what an executor is built with, and its value for standard input.
const USES_WITH: &str = "--uses-with";
pub(crate) const OPTIONS_FROM_STDIN: &str = "@-";

/// The programs of a flow.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program `flow`: the gateway and every built-in executor.
    pub flow: PathBuf,
    /// The built-in executors.
    pub built_in: Vec<BuiltIn>,
}

/// A built-in executor.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// Its name in flow files.
    pub name: String,
    /// Variables that it reads and no other process of flow's own, such as those with tokens.
    pub variables: Vec<String>,
    /// Whether its calls compute on all cores.
    pub uses_all_cores: bool,
}

/// Options that all processes of a flow share.
#[derive(Debug, Clone)]
pub(crate) struct SharedOptions {
    pub(crate) programs: Programs,
    pub(crate) grace: Duration,
    pub(crate) log: LogStyle,
    pub(crate) restart_policy: RestartPolicy,
    /// The flow's name.
    pub(crate) flow: Option<String>,
    /// The absolute path of its state directory, with the control socket and the logs.
    pub(crate) state_directory: Option<PathBuf>,
}

/// The command line and environment of a process, without the values that are set when it starts: name, ports and parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) env: Env,
    /// What a process of this machine inherits of the launcher's environment.
    pub(crate) inherits: Inherited,
    /// It reads placements from its standard input, as only the gateway does.
    pub(crate) reads_stdin: bool,
    /// What an executor is built with. A process of this machine reads it from its standard input, because every user of
    /// the machine can see its arguments.
    pub(crate) with: Option<Secret>,
    /// Advice for an error that the program does not exist.
    pub(crate) remedy: Option<String>,
    /// The limits of a process of this machine.
    pub(crate) sandbox: Option<SandboxInvocation>,
    /// The container that it runs in; the program is then the image's.
    pub(crate) container: Option<Box<ContainerInvocation>>,
}

impl Invocation {
    /// A replica of a node.
    pub(crate) fn executor(shared: &SharedOptions, run: &LocalRun) -> Self {
        let mut it = Self::around_shards(shared, run, &run.uses);
        match run.with_as_json() {
            Some(with) if it.container.is_none() => {
                it.argument(USES_WITH, OPTIONS_FROM_STDIN);
                it.with = Some(with);
            }
            Some(with) => it.argument(USES_WITH, with.reveal()),
            None => {}
        }
        it.arguments.extend(run.arguments());
        if let Some(container) = &mut it.container {
            container.set_jina_arguments(run);
        }
        it
    }

    /// A replica of a node that something else starts, which does not write to its standard input: the caller replaces the
    /// argument for that.
    pub(crate) fn exported_executor(shared: &SharedOptions, run: &LocalRun) -> Self {
        let mut it = Self::around_shards(shared, run, &run.uses);
        if !run.with.reveal().is_empty() {
            it.argument(USES_WITH, OPTIONS_FROM_STDIN);
        }
        it.arguments.extend(run.arguments());
        it
    }

    /// A process that is called before or after the shards of a node. It runs where they run, and does not get their
    /// `uses_with`.
    pub(crate) fn around_shards(shared: &SharedOptions, run: &LocalRun, uses: &Uses) -> Self {
        let mut it = shared.programs.resolve(uses);
        it.env.clone_from(&run.env);
        it.inherits = Inherited::of(run.inherit_env.as_ref(), it.inherits);
        if let Uses::Image(image) = uses {
            let container = ContainerInvocation::new(image, run, shared.flow.as_deref());
            it.argument("--host", container.listen_host());
            if let Some(folder) = container.workspace_path() {
                it.argument("--workspace", folder.to_string_lossy());
            }
            it.container = Some(Box::new(container));
        } else {
            it.argument("--host", run.host.as_deref().unwrap_or(HOST_DEFAULT));
            if let Some(folder) = &run.workspace {
                it.argument("--workspace", folder.to_string_lossy());
            }
            it.sandbox = run.sandbox.map(|limits| SandboxInvocation {
                program: shared.programs.flow.clone(),
                limits,
                workspace: run.workspace.clone(),
                log: log_format(run.log.unwrap_or(shared.log)),
            });
        }
        it.add_shared(shared, run.log);
        it
    }

    /// The gateway. It reads the placement from its standard input, but binds its port before the placement is known, so
    /// the address is an argument. In the state directory, its console finds the logs and the control socket.
    pub(crate) fn gateway(
        shared: &SharedOptions,
        gateway: &Gateway,
        threads: Option<NonZeroUsize>,
    ) -> Self {
        let mut it = Self::new(shared.programs.flow.clone());
        it.arguments.push("gateway".to_owned());
        it.inherits = Inherited::Shared(Vec::new());
        it.env.clone_from(&gateway.env);
        it.reads_stdin = true;
        it.argument("--placement", "-");
        it.argument("--host", gateway.listen_host());
        if let Some(threads) = threads {
            it.argument("--threads", threads.to_string());
        }
        if let Some(directory) = &shared.state_directory {
            it.argument("--state-directory", directory.to_string_lossy());
        }
        it.add_shared(shared, gateway.log);
        it
    }

    /// Lets the process read these variables too.
    pub(crate) fn inherit(&mut self, variables: &[String]) {
        if let Inherited::Shared(names) = &mut self.inherits {
            names.extend(variables.iter().cloned());
        }
    }

    /// Whether the process gets a folder for its files.
    pub(crate) fn has_workspace(&self) -> bool {
        self.arguments.iter().any(|it| it == "--workspace")
    }

    /// Sets the number of the shard, which selects its part of the shared workspace.
    pub(crate) fn shard(&mut self, shard: u16) {
        self.argument("--shard", shard.to_string());
        if let Some(container) = &mut self.container {
            container.set_jina_shard(shard);
        }
    }

    /// Enables metrics, and exports to OpenTelemetry, of a process of this name.
    pub(crate) fn observe(
        &mut self,
        is_monitored: bool,
        telemetry: &Telemetry,
        runtime_name: &str,
    ) {
        if !is_monitored && telemetry.is_none() {
            return;
        }
        if is_monitored {
            self.arguments.push("--monitoring".to_owned());
        }
        let telemetry = telemetry.arguments();
        self.arguments.extend(telemetry.iter().cloned());
        self.argument("--runtime-name", runtime_name);
        if let Some(container) = &mut self.container {
            container.runtime_name = Some(runtime_name.to_owned());
            container.telemetry = telemetry;
        }
    }

    /// The arguments that the start adds.
    pub(crate) fn at_start(&self, name: &str, ports: Ports, parent: u32) -> Vec<String> {
        let mut last = vec![
            "--port".to_owned(),
            ports.serving.to_string(),
            "--parent-pid".to_owned(),
            parent.to_string(),
        ];
        if let Some(port) = ports.metrics {
            last.extend(["--port-monitoring".to_owned(), port.to_string()]);
        }
        // The gateway has a fixed name.
        if !self.reads_stdin {
            last.extend(["--name".to_owned(), name.to_owned()]);
        }
        last
    }

    fn new(program: PathBuf) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            env: Env::new(),
            inherits: Inherited::All,
            reads_stdin: false,
            with: None,
            remedy: None,
            sandbox: None,
            container: None,
        }
    }

    fn add_shared(&mut self, shared: &SharedOptions, log: Option<LogStyle>) {
        self.argument("--grace", format!("{}ms", shared.grace.as_millis()));
        self.argument("--log", log_format(log.unwrap_or(shared.log)));
    }

    pub(crate) fn argument(&mut self, key: &str, value: impl Into<String>) {
        self.arguments.extend([key.to_owned(), value.into()]);
    }
}

impl Programs {
    /// The built-in executor of this name.
    pub(crate) fn built_in(&self, uses: &Uses) -> Option<&BuiltIn> {
        let named = |it: &&BuiltIn| matches!(uses, Uses::Named(name) if it.name == *name);
        self.built_in.iter().find(named)
    }

    /// Variables that a built-in executor reads and no other process of flow's own.
    pub(crate) fn variables(&self, uses: &Uses) -> &[String] {
        self.built_in(uses).map_or(&[], |it| &it.variables)
    }

    fn resolve(&self, uses: &Uses) -> Invocation {
        match uses {
            Uses::Named(name) => match self.built_in(uses) {
                Some(built_in) => Invocation {
                    inherits: Inherited::Shared(built_in.variables.clone()),
                    ..self.own_executor(name)
                },
                None => Invocation {
                    remedy: Some(self.known()),
                    ..Invocation::new(name.into())
                },
            },
            // A config file that was not resolved belongs to a Python executor, which `flow executor` starts.
            Uses::Path(path) if is_config(path) || PythonSource::of(path).is_some() => {
                self.own_executor(&path.to_string_lossy())
            }
            Uses::Path(path) => Invocation::new(path.clone()),
            Uses::Image(image) => Invocation::new(image.into()),
        }
    }

    fn own_executor(&self, uses: &str) -> Invocation {
        let mut it = Invocation::new(self.flow.clone());
        it.arguments.push("executor".to_owned());
        it.argument("--uses", uses);
        it
    }

    fn known(&self) -> String {
        let names: Vec<String> =
            (self.built_in.iter().map(|it| format!("`{}`", it.name))).collect();
        format!(
            "no such program is on PATH; the built-in executors are {}",
            names.join(", ")
        )
    }
}

fn is_config(path: &Path) -> bool {
    let end = path.extension();
    end.is_some_and(|it| it == "yml" || it == "yaml")
}

/// A quiet process writes text too: its last lines are quoted when it exits.
fn log_format(log: LogStyle) -> &'static str {
    match log {
        LogStyle::Text | LogStyle::Off => "text",
        LogStyle::Json => "json",
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn shared() -> SharedOptions {
        SharedOptions {
            programs: Programs {
                flow: "/bin/flow".into(),
                built_in: vec![
                    BuiltIn {
                        name: "echo".to_owned(),
                        variables: Vec::new(),
                        uses_all_cores: false,
                    },
                    BuiltIn {
                        name: "sentence-encoder".to_owned(),
                        variables: vec!["HF_TOKEN".to_owned()],
                        uses_all_cores: false,
                    },
                ],
            },
            grace: Duration::from_secs(10),
            log: LogStyle::Text,
            restart_policy: RestartPolicy::default(),
            flow: None,
            state_directory: None,
        }
    }

    fn local(uses: Uses) -> LocalRun {
        LocalRun {
            uses,
            with: Secret::default(),
            metas: serde_json::Map::new(),
            requests: [].into_iter().collect(),
            shards: NonZeroU16::MIN,
            replicas: NonZeroU16::MIN,
            before: None,
            after: None,
            workers: flow_spec::Workers::default(),
            batching: [].into_iter().collect(),
            exit_on_exceptions: Vec::new(),
            install_requirements: false,
            env: Env::new(),
            inherit_env: None,
            sandbox: None,
            workspace: None,
            timeout_ready: None,
            host: None,
            ports: Vec::new(),
            log: None,
            container: flow_spec::Container::default(),
            monitoring: None,
            telemetry: Telemetry::default(),
            colocate: false,
        }
    }

    fn named(name: &str) -> Uses {
        Uses::Named(name.to_owned())
    }

    fn check(run: &LocalRun, expected: &str) {
        let it = Invocation::executor(&shared(), run);
        let line = format!("{} {}", it.program.display(), it.arguments.join(" "));
        assert_eq!(line, expected);
    }

    #[test]
    fn a_built_in_executor_is_the_program_flow() {
        let rest = "--host 127.0.0.1 --grace 10000ms --log text";
        check(
            &local(named("echo")),
            &format!("/bin/flow executor --uses echo {rest}"),
        );
        check(&local(named("mine")), &format!("mine {rest}"));
        check(
            &local(Uses::Path("./mine".into())),
            &format!("./mine {rest}"),
        );
        check(
            &local(Uses::Path("./mine/config.yml".into())),
            &format!("/bin/flow executor --uses ./mine/config.yml {rest}"),
        );
    }

    #[test]
    fn options_of_the_file_become_arguments() {
        let run = LocalRun {
            with: serde_json::from_str(r#"{"device":"cpu","n":[1,2.5]}"#).unwrap(),
            metas: serde_json::from_str(r#"{"name":"x"}"#).unwrap(),
            requests: [("/a".to_owned(), "b".to_owned())].into_iter().collect(),
            workspace: Some("/tmp/w".into()),
            host: Some("0.0.0.0".to_owned()),
            log: Some(LogStyle::Json),
            workers: flow_spec::Workers::Number(NonZeroU16::new(3).unwrap()),
            batching: serde_json::from_str(r#"{"/a":{"preferred_batch_size":4,"timeout":9}}"#)
                .unwrap(),
            exit_on_exceptions: vec!["panic".to_owned(), "Odd".to_owned()],
            ..local(named("echo"))
        };
        check(
            &run,
            "/bin/flow executor --uses echo --host 0.0.0.0 --workspace /tmp/w --grace 10000ms --log json \
             --uses-with @- --uses-metas {\"name\":\"x\"} \
             --uses-requests {\"/a\":\"b\"} \
             --uses-dynamic-batching {\"/a\":{\"preferred_batch_size\":4,\"timeout\":9}} \
             --workers 3 --exit-on-exceptions panic,Odd",
        );
    }

    #[test]
    fn constructor_options_are_not_arguments_and_are_hidden_in_debug_output() {
        let run = LocalRun {
            with: serde_json::from_str(r#"{"password":"hunter2"}"#).unwrap(),
            ..local(named("echo"))
        };
        let it = Invocation::executor(&shared(), &run);
        assert!(!format!("{it:?}").contains("hunter2"), "{it:?}");
        assert_eq!(it.with.unwrap().reveal(), r#"{"password":"hunter2"}"#);
    }

    #[test]
    fn the_child_gets_the_environment_of_the_file() {
        let mut run = local(named("echo"));
        run.env.insert("A".to_owned(), Secret::new("1".to_owned()));
        assert_eq!(Invocation::executor(&shared(), &run).env, run.env);
    }

    #[test]
    fn programs_of_flow_inherit_what_they_read_and_others_everything() {
        let of = |uses: Uses| Invocation::executor(&shared(), &local(uses)).inherits;
        let listed =
            |names: &[&str]| Inherited::Shared(names.iter().map(|&it| it.to_owned()).collect());
        assert_eq!(of(named("echo")), listed(&[]));
        assert_eq!(of(named("sentence-encoder")), listed(&["HF_TOKEN"]));
        assert_eq!(of(named("mine")), Inherited::All);
        assert_eq!(of(Uses::Path("./mine.py".into())), Inherited::All);
        let limited = LocalRun {
            inherit_env: Some(flow_spec::InheritEnv::Listed(vec!["AWS_*".to_owned()])),
            ..local(named("mine"))
        };
        let found = Invocation::executor(&shared(), &limited).inherits;
        assert_eq!(found, listed(&["AWS_*"]));
    }

    #[test]
    fn an_unknown_name_is_explained_with_the_known_ones() {
        let it = Invocation::executor(&shared(), &local(named("ecco")));
        assert_eq!(
            it.remedy.unwrap(),
            "no such program is on PATH; the built-in executors are `echo`, `sentence-encoder`"
        );
    }
}
