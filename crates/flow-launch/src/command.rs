//! What is started for each part of a flow: program, arguments, environment.
//!
//! This module only decides. Paths of programs are arguments; `local.rs` starts what is decided here.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use flow_spec::{Env, Gateway, LocalRun, Log, Uses, Workers};
use serde::Serialize;

use crate::backoff::Restarts;
use crate::image::Contained;

/// Where executors of a flow listen unless the file says otherwise: only this machine reaches them.
const HOST_DEFAULT: &str = "127.0.0.1";

/// The programs that a flow is made of.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program `flow`: it is the gateway, and every executor built into it.
    pub flow: PathBuf,
    /// Names of the executors built into it.
    pub built_in: Vec<String>,
}

/// What all processes of a flow have in common.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) programs: Programs,
    pub(crate) grace: Duration,
    pub(crate) log: Log,
    pub(crate) restarts: Restarts,
    /// The flow's own name.
    pub(crate) flow: Option<String>,
}

/// Ports of the machine that a process is to take; 0: any that is free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    /// For requests.
    pub(crate) serving: u16,
    /// For whoever reads its metrics; none: it shows none.
    pub(crate) metrics: Option<u16>,
}

impl Ports {
    /// Whether a process at these other ports is as good.
    pub(crate) fn are_met_by(self, other: Self) -> bool {
        let fits = |wanted: u16, has: u16| wanted == 0 || wanted == has;
        fits(self.serving, other.serving)
            && match (self.metrics, other.metrics) {
                (Some(wanted), Some(has)) => fits(wanted, has),
                (wanted, has) => wanted == has,
            }
    }
}

/// How a process is started, but for what is known only then: its name, its port and its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) env: Env,
    /// It reads its standard input, as only the gateway does.
    pub(crate) reads: bool,
    /// What to say of a program that is not there.
    pub(crate) remedy: Option<String>,
    /// It runs in a container; its program is then the image's.
    pub(crate) contained: Option<Box<Contained>>,
}

impl Invocation {
    /// A replica of a node.
    pub(crate) fn executor(common: &Common, run: &LocalRun) -> Self {
        let mut it = Self::around(common, run, &run.uses);
        it.json("--uses-with", &run.with, run.with.is_empty());
        it.json("--uses-metas", &run.metas, run.metas.is_empty());
        it.json("--uses-requests", &run.requests, run.requests.is_empty());
        let batching = &run.batching;
        it.json("--uses-dynamic-batching", batching, batching.is_empty());
        if run.workers != Workers::default() {
            it.argument("--workers", run.workers.to_string());
        }
        if !run.exit_on_exceptions.is_empty() {
            it.argument("--exit-on-exceptions", run.exit_on_exceptions.join(","));
        }
        if let Some(contained) = &mut it.contained {
            contained.tell_jina(run);
        }
        it
    }

    /// What is called before or after a node's shards: it lives where they live, and is told nothing of
    /// what they are built with.
    pub(crate) fn around(common: &Common, run: &LocalRun, uses: &Uses) -> Self {
        let mut it = common.programs.resolve(uses);
        it.env.clone_from(&run.env);
        if let Uses::Image(image) = uses {
            let contained = Contained::new(image, run, common.flow.as_deref());
            it.argument("--host", contained.listens_at());
            if let Some(folder) = contained.workspace_inside() {
                it.argument("--workspace", folder.to_string_lossy());
            }
            it.contained = Some(Box::new(contained));
        } else {
            it.argument("--host", run.host.as_deref().unwrap_or(HOST_DEFAULT));
            if let Some(folder) = &run.workspace {
                it.argument("--workspace", folder.to_string_lossy());
            }
        }
        it.common(common, run.log);
        it
    }

    /// The gateway. All that it does stands in the placement, which it reads from its standard input;
    /// but it takes its port before the placement is known, and so is told where.
    pub(crate) fn gateway(
        common: &Common,
        gateway: &Gateway,
        threads: Option<NonZeroUsize>,
    ) -> Self {
        let mut it = Self::new(common.programs.flow.clone());
        it.arguments.push("gateway".to_owned());
        it.env.clone_from(&gateway.env);
        it.reads = true;
        it.argument("--placement", "-");
        it.argument("--host", &gateway.host);
        if let Some(threads) = threads {
            it.argument("--threads", threads.to_string());
        }
        it.common(common, gateway.log);
        it
    }

    /// Shards share a workspace, and each keeps its own part there.
    pub(crate) fn shard(&mut self, shard: u16) {
        self.argument("--shard", shard.to_string());
        if let Some(contained) = &mut self.contained {
            contained.tell_jina_shard(shard);
        }
    }

    /// It counts under this name, and shows it.
    pub(crate) fn monitor(&mut self, runtime_name: &str) {
        self.arguments.push("--monitoring".to_owned());
        self.argument("--runtime-name", runtime_name);
        if let Some(contained) = &mut self.contained {
            contained.runtime_name = Some(runtime_name.to_owned());
        }
    }

    /// The last arguments, at the moment of the start.
    pub(crate) fn at_start(&self, name: &str, ports: Ports, parent: u32) -> Vec<String> {
        let mut last = vec![
            "--port".to_owned(),
            ports.serving.to_string(),
            "--child-of".to_owned(),
            parent.to_string(),
        ];
        if let Some(port) = ports.metrics {
            last.extend(["--port-monitoring".to_owned(), port.to_string()]);
        }
        // There is one gateway, and it knows its name.
        if !self.reads {
            last.extend(["--name".to_owned(), name.to_owned()]);
        }
        last
    }

    fn new(program: PathBuf) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            env: Env::new(),
            reads: false,
            remedy: None,
            contained: None,
        }
    }

    fn common(&mut self, common: &Common, log: Option<Log>) {
        self.argument("--grace", format!("{}ms", common.grace.as_millis()));
        self.argument("--log", log_format(log.unwrap_or(common.log)));
    }

    pub(crate) fn argument(&mut self, key: &str, value: impl Into<String>) {
        self.arguments.extend([key.to_owned(), value.into()]);
    }

    fn json(&mut self, key: &str, value: &impl Serialize, is_empty: bool) {
        if !is_empty {
            let text = serde_json::to_string(value).expect("a map with text keys is always JSON");
            self.argument(key, text);
        }
    }
}

impl Programs {
    fn resolve(&self, uses: &Uses) -> Invocation {
        match uses {
            Uses::Named(name) if self.built_in.contains(name) => self.own_executor(name),
            Uses::Named(name) => Invocation {
                remedy: Some(self.known()),
                ..Invocation::new(name.into())
            },
            // A config that is not read before the start is an executor's in Python; flow starts it.
            Uses::Path(path)
                if path
                    .extension()
                    .is_some_and(|it| it == "yml" || it == "yaml") =>
            {
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
        let names: Vec<String> = self.built_in.iter().map(|it| format!("`{it}`")).collect();
        format!(
            "no such program is on PATH; built into flow are {}",
            names.join(", ")
        )
    }
}

/// A process that should be quiet writes text all the same, for us to quote when it dies.
fn log_format(log: Log) -> &'static str {
    match log {
        Log::Text | Log::Off => "text",
        Log::Json => "json",
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn common() -> Common {
        Common {
            programs: Programs {
                flow: "/bin/flow".into(),
                built_in: vec!["echo".to_owned(), "sentence-encoder".to_owned()],
            },
            grace: Duration::from_secs(10),
            log: Log::Text,
            restarts: Restarts::default(),
            flow: None,
        }
    }

    fn local(uses: Uses) -> LocalRun {
        LocalRun {
            uses,
            with: serde_json::Map::new(),
            metas: serde_json::Map::new(),
            requests: [].into_iter().collect(),
            shards: NonZeroU16::MIN,
            replicas: NonZeroU16::MIN,
            before: None,
            after: None,
            workers: flow_spec::Workers::default(),
            batching: [].into_iter().collect(),
            exit_on_exceptions: Vec::new(),
            env: Env::new(),
            workspace: None,
            timeout_ready: None,
            host: None,
            ports: Vec::new(),
            log: None,
            container: flow_spec::Container::default(),
            monitoring: None,
        }
    }

    fn named(name: &str) -> Uses {
        Uses::Named(name.to_owned())
    }

    fn check(run: &LocalRun, expected: &str) {
        let it = Invocation::executor(&common(), run);
        let line = format!("{} {}", it.program.display(), it.arguments.join(" "));
        assert_eq!(line, expected);
    }

    #[test]
    fn a_built_in_executor_is_this_program_and_others_are_their_own() {
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
    fn what_the_file_says_is_passed_on() {
        let run = LocalRun {
            with: serde_json::from_str(r#"{"device":"cpu","n":[1,2.5]}"#).unwrap(),
            metas: serde_json::from_str(r#"{"name":"x"}"#).unwrap(),
            requests: [("/a".to_owned(), "b".to_owned())].into_iter().collect(),
            workspace: Some("/tmp/w".into()),
            host: Some("0.0.0.0".to_owned()),
            log: Some(Log::Json),
            workers: Workers::Number(NonZeroU16::new(3).unwrap()),
            batching: serde_json::from_str(r#"{"/a":{"preferred_batch_size":4,"timeout":9}}"#)
                .unwrap(),
            exit_on_exceptions: vec!["panic".to_owned(), "Odd".to_owned()],
            ..local(named("echo"))
        };
        check(
            &run,
            "/bin/flow executor --uses echo --host 0.0.0.0 --workspace /tmp/w --grace 10000ms --log json \
             --uses-with {\"device\":\"cpu\",\"n\":[1,2.5]} --uses-metas {\"name\":\"x\"} \
             --uses-requests {\"/a\":\"b\"} \
             --uses-dynamic-batching {\"/a\":{\"preferred_batch_size\":4,\"timeout\":9}} \
             --workers 3 --exit-on-exceptions panic,Odd",
        );
    }

    #[test]
    fn the_environment_of_the_file_is_the_childs() {
        let mut run = local(named("echo"));
        run.env.insert("A".to_owned(), "1".to_owned());
        assert_eq!(Invocation::executor(&common(), &run).env, run.env);
    }

    #[test]
    fn a_name_that_is_nothing_says_which_would_be_something() {
        let it = Invocation::executor(&common(), &local(named("ecco")));
        assert_eq!(
            it.remedy.unwrap(),
            "no such program is on PATH; built into flow are `echo`, `sentence-encoder`"
        );
    }
}
