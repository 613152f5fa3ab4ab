//! The tables: one row for each key.
//!
//! A row is all that the parser, the JSON schema and the reference page need to know of a key. Its value is read
//! in `read.rs`, and its meaning for the flow is decided in `check.rs`.

mod executor;
mod gateway;
mod unsupported;

use super::{Key, Shape, State};

pub(super) use executor::{CONTAINERS, EXECUTOR, TELEMETRY};
pub(super) use gateway::{GATEWAY, GATEWAY_CONTAINERS};
pub(super) use unsupported::{ELSEWHERE, HTTP, INTERNAL, JINA2};

const fn supported(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key {
        name,
        state: State::Supported(shape, about),
        harmless: &[],
        default: "none",
        example: "",
        jina: "",
    }
}

const fn other(name: &'static str, state: State, harmless: &'static [&'static str]) -> Key {
    Key {
        name,
        state,
        harmless,
        default: "",
        example: "",
        jina: "",
    }
}

const fn alias(name: &'static str, of: &'static str) -> Key {
    other(name, State::AliasOf(of), &[])
}

const fn not_yet(name: &'static str, harmless: &'static [&'static str]) -> Key {
    other(name, State::NotYet, harmless)
}

const fn refused(name: &'static str, harmless: &'static [&'static str], why: &'static str) -> Key {
    other(name, State::Refused(why), harmless)
}

const fn without_effect(name: &'static str, why: &'static str) -> Key {
    other(name, State::WithoutEffect(why), &[])
}

impl Key {
    /// The value of a key that is not written, in Markdown.
    const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// A value, in YAML.
    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// What differs in Jina, in Markdown.
    const fn jina(self, jina: &'static str) -> Self {
        Self { jina, ..self }
    }
}

/// Only `flow` has the key.
const OWN: &str = "no such key";

const OFF: &[&str] = &["false"];
const NO_PYTHON: &str =
    "flow runs no Python; start the executor with Jina and add it as `external`";
const IN_A_FILE: &str =
    "flow loads no Python itself; name the executor's folder or `config.yml` under `uses`";
const NO_STACKS: &str = "flow's log holds no stack traces of Python";
const OWN_FOLDERS: &str = "flow names folders in the workspace by executor and replica";
const NO_FILES: &str = "the gateway keeps no files";
const NO_CODE: &str = "it watches the files of a Python executor; \
    `reload: true` in `with` follows the flow file";
const ONE_FOR_ALL: &str = "here it reaches neither the gateway nor an executor";

/// Words of `log_config`.
const LOGS: &[&str] = &["default", "plain", "docker", "json", "quiet"];
const LOG_CONFIG: &str = "Format of the log: text (`default`, `plain`, `docker`), JSON objects (`json`), \
    or no log (`quiet`).";
const LOG_DEFAULT: &str = "as `flow up` logs";
const LOG_JINA: &str = "also paths of log configurations, `profile` and `remote`";

pub(super) const TOP_KEYS: &[Key] = &[
    supported("jtype", Shape::Word(&["Flow"]), "Marks the file as a flow.")
        .default("`Flow`")
        .example("Flow"),
    supported("version", Shape::Version, "Version of the dialect.")
        .default("`1`")
        .example("'1'"),
    supported(
        "with",
        Shape::With,
        "Options of the flow, and options that the gateway and all executors inherit.",
    )
    .default("empty")
    .example("{port: 54321}"),
    supported(
        "gateway",
        Shape::Gateway,
        "Options of the gateway, the process that clients connect to.",
    )
    .default("empty")
    .example("{host: 127.0.0.1}"),
    supported(
        "executors",
        Shape::Executors,
        "The nodes of the flow, in order.",
    )
    .default("none; replies equal requests")
    .example("[{name: encoder, uses: sentence-encoder}]"),
    alias("deployments", "executors"),
    alias("pods", "executors"),
    without_effect("jcloud", "it is for a service that flow does not use"),
    refused("py_modules", &[], IN_A_FILE),
];

pub(super) const FLOW: &[Key] = &[
    supported("name", Shape::Text, "The flow's name.").example("search"),
    supported(
        "workspace",
        Shape::Text,
        "Folder for files of the flow and of its executors; a relative path starts at the flow file.",
    )
    .default("none; the state of the running flow is below `~/.local/state/flow`")
    .example("data")
    .jina("a relative path starts at the current folder; the default is below `~/.cache/jina`"),
    supported("log_config", Shape::Word(LOGS), LOG_CONFIG)
        .default(LOG_DEFAULT)
        .example("json")
        .jina(LOG_JINA),
    supported("quiet", Shape::Flag, "Turns the log off.")
        .default("`false`")
        .example("true"),
    supported(
        "env",
        Shape::Values,
        "Environment variables of every process.",
    )
    .default("empty")
    .example("{HF_HUB_OFFLINE: 1}"),
    supported(
        "reload",
        Shape::Flag,
        "The running flow follows changes of its file.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "inspect",
        Shape::Word(&["COLLECT", "HANG", "REMOVE"]),
        "Handling of nodes with `method: inspect`: the reply waits for them (`COLLECT`), \
         they only run (`HANG`), or they are left out (`REMOVE`).",
    )
    .default("`COLLECT`")
    .example("REMOVE"),
    supported(
        "hub",
        Shape::Text,
        "Registry, and folder in it, in which `hub://NAME` is looked up.",
    )
    .default("the environment variable `FLOW_HUB`")
    .example("registry.example.com/team")
    .jina(OWN),
    without_effect("quiet_error", NO_STACKS),
    without_effect("workspace_id", OWN_FOLDERS),
    without_effect("suppress_root_logging", "flow has one log only"),
    refused("uses", &[], ONE_FOR_ALL),
    refused("uses_with", &[], ONE_FOR_ALL),
];

pub(super) const ENTRY_ONLY: &[Key] = &[
    supported(
        "name",
        Shape::Name,
        "Name of the node in the flow, in routes, in logs and in metrics.",
    )
    .default("`executor0`, `executor1`, …, by position")
    .example("encoder")
    .jina("a repeated name gets a number appended"),
    supported(
        "needs",
        Shape::Texts,
        "Nodes whose documents this one receives: names of executors, or `gateway` for the \
         documents of the client. Several are joined in this order.",
    )
    .default("the node before it that is not floating")
    .example("[encoder, gateway]")
    .jina("parts are joined in order of arrival"),
    supported(
        "method",
        Shape::Word(&["add", "needs", "needs_all", "inspect", "gather_inspect"]),
        "How the node is connected: by `needs` (`add`, `needs`); to every node that nothing \
         needs yet (`needs_all`); beside the flow (`inspect`); or to all inspections \
         (`gather_inspect`).",
    )
    .default("`add`")
    .example("needs_all"),
];

pub(super) const DEPLOYMENT_KEYS: &[Key] = &[
    supported(
        "jtype",
        Shape::Word(&["Deployment"]),
        "Marks the mapping as a Deployment.",
    )
    .example("Deployment"),
    supported("version", Shape::Version, "Version of the dialect.")
        .default("`1`")
        .example("'1'"),
    supported("with", Shape::DeploymentOptions, "Options of the executor.")
        .default("empty")
        .example("{uses: sentence-encoder, replicas: 2}"),
    supported("name", Shape::Name, "Name of the node.")
        .default("by position")
        .example("encoder"),
    supported("needs", Shape::Texts, "Nodes whose documents it receives.")
        .default("the node before it")
        .example("gateway"),
    supported(
        "method",
        Shape::Word(&["add", "needs", "needs_all", "inspect", "gather_inspect"]),
        "How the node is connected; see `executors[].method`.",
    )
    .default("`add`")
    .example("needs_all"),
    without_effect("jcloud", "it is for a service that flow does not use"),
    refused("py_modules", &[], IN_A_FILE),
];

pub(super) const GATEWAY_CONFIG_KEYS: &[Key] = &[
    supported(
        "jtype",
        Shape::Word(&["GRPCGateway"]),
        "Kind of the gateway.",
    )
    .example("GRPCGateway")
    .jina("also HTTP, WebSocket and composite gateways, and classes of your own"),
    supported("version", Shape::Version, "Version of the dialect.")
        .default("`1`")
        .example("'1'"),
    supported("with", Shape::Gateway, "Options of the gateway.")
        .default("empty")
        .example("{port: 54321}"),
    without_effect("metas", "nobody is told a gateway's name and description"),
    refused("py_modules", &[], NO_PYTHON),
];

pub(super) const CONFIG_KEYS: &[Key] = &[
    supported(
        "jtype",
        Shape::Text,
        "The executor's type: of a built-in executor, or of a Python class.",
    )
    .example("SentenceEncoder"),
    supported("version", Shape::Version, "Version of the dialect.")
        .default("`1`")
        .example("'1'"),
    supported(
        "with",
        Shape::Mapping,
        "Options that the executor is built with; `uses_with` of the flow overrides them.",
    )
    .default("empty")
    .example("{device: cpu}"),
    supported(
        "metas",
        Shape::Mapping,
        "Name, description, keywords and version.",
    )
    .default("empty")
    .example("{name: encoder, description: Encodes sentences}"),
    supported("requests", Shape::Requests, "Endpoint → method.")
        .default("the executor's own")
        .example("{/embed: /encode}"),
    supported(
        "workspace",
        Shape::Text,
        "Folder for files of the executor; a relative path starts at the flow file.",
    )
    .default("the flow's `workspace`")
    .example("data"),
    supported(
        "dynamic_batching",
        Shape::Batching,
        "Endpoint or method → how requests share calls.",
    )
    .default("the executor's own")
    .example("{/encode: {preferred_batch_size: 32, timeout: 10}}"),
    refused("py_modules", &[], IN_A_FILE),
];

pub(super) const BATCHING_KEYS: &[Key] = &[
    supported(
        "preferred_batch_size",
        Shape::Count,
        "Size of a batch, counted in `metric`.",
    )
    .default("`4`")
    .example("64"),
    supported(
        "timeout",
        Shape::Time,
        "How long the oldest document waits for others.",
    )
    .default("`10s`")
    .example("100ms")
    .jina("milliseconds only"),
    supported(
        "flush_all",
        Shape::Flag,
        "A full batch takes everything that has gathered, even if it is more than the size.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "use_custom_metric",
        Shape::Flag,
        "Sizes are the weights that the executor gives documents; the same as `metric: \
         custom`.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "metric",
        Shape::Word(&["documents", "bytes", "custom"]),
        "What sizes count.",
    )
    .default("`documents`")
    .example("bytes")
    .jina(OWN),
    supported(
        "use_dynamic_batching",
        Shape::Flag,
        "Whether the rule applies.",
    )
    .default("`true`")
    .example("false"),
    refused(
        "custom_metric",
        &[],
        "it names a function of Python; `metric: custom` asks the executor",
    ),
];
