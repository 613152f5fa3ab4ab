//! The tables themselves. A row is all it takes for a key to be known.

use super::{Key, Shape, State};

const fn yes(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key {
        name,
        state: State::Supported(shape, about),
        harmless: &[],
    }
}

const fn alias(name: &'static str, of: &'static str) -> Key {
    Key {
        name,
        state: State::AliasOf(of),
        harmless: &[],
    }
}

const fn later(name: &'static str, harmless: &'static [&'static str]) -> Key {
    Key {
        name,
        state: State::NotYet,
        harmless,
    }
}

const fn never(name: &'static str, harmless: &'static [&'static str], why: &'static str) -> Key {
    Key {
        name,
        state: State::Refused(why),
        harmless,
    }
}

const fn idle(name: &'static str, why: &'static str) -> Key {
    Key {
        name,
        state: State::WithoutEffect(why),
        harmless: &[],
    }
}

const OFF: &[&str] = &["false"];
const ON_OR_OFF: &[&str] = &["false", "true"];
const NO_PYTHON: &str =
    "flow runs no Python; start the executor with Jina and add it as `external`";
const IN_A_FILE: &str =
    "flow loads no Python itself; name the executor's folder or `config.yml` under `uses`";
const NO_HUB: &str = "flow fetches no executors from Jina's hub";
const NO_HEAD: &str = "it belongs to Jina's head processes, and flow has none";
const NO_STACKS: &str = "flow's log holds no stack traces of Python";
const OWN_FOLDERS: &str = "flow names folders in the workspace by executor and replica";
const OTHER_ARRAYS: &str = "flow's executors hand out plain arrays, which every client reads";
const NO_FILES: &str = "the gateway keeps no files";
const NO_CODE: &str = "it watches the files of a Python executor; \
    `reload: true` in `with` follows the flow file";
const ONE_FOR_ALL: &str = "here it reaches neither the gateway nor an executor";

pub(super) const TOP_KEYS: &[Key] = &[
    yes("jtype", Shape::Word(&["Flow"]), "That the file is a flow."),
    yes("version", Shape::Version, "Version of the dialect."),
    yes(
        "with",
        Shape::With,
        "Options of the flow, and those that the gateway and every executor inherit.",
    ),
    yes("gateway", Shape::Gateway, "The process clients talk to."),
    yes(
        "executors",
        Shape::Executors,
        "The executors, each with its place in the flow.",
    ),
    alias("deployments", "executors"),
    alias("pods", "executors"),
    idle("jcloud", "it is for a service that flow does not use"),
    never("py_modules", &[], IN_A_FILE),
];

pub(super) const FLOW: &[Key] = &[
    yes("name", Shape::Text, "The flow's name."),
    yes(
        "workspace",
        Shape::Text,
        "Folder for what the flow and its executors keep; a relative path begins at the flow file.",
    ),
    yes("log_config", Shape::Word(LOGS), LOG_CONFIG),
    yes("quiet", Shape::Flag, "Nothing is logged."),
    yes(
        "env",
        Shape::Values,
        "Environment variables of every process.",
    ),
    yes(
        "reload",
        Shape::Flag,
        "The running flow follows changes of its file.",
    ),
    yes(
        "inspect",
        Shape::Word(&["COLLECT", "HANG", "REMOVE"]),
        "What becomes of `method: inspect`: waited for, only run, or left out.",
    ),
    yes(
        "hub",
        Shape::Text,
        "Registry, and folder in it, where `hub://NAME` is looked up. Default: FLOW_HUB.",
    ),
    idle("quiet_error", NO_STACKS),
    idle("workspace_id", OWN_FOLDERS),
    idle("suppress_root_logging", "flow has one log only"),
    never("uses", &[], ONE_FOR_ALL),
    never("uses_with", &[], ONE_FOR_ALL),
];

const LOGS: &[&str] = &["default", "plain", "docker", "json", "quiet"];
const LOG_CONFIG: &str = "How the log is written.";

pub(super) const ENTRY_ONLY: &[Key] = &[
    yes(
        "name",
        Shape::Name,
        "The executor's name in the flow, in routes and in the log.",
    ),
    yes(
        "needs",
        Shape::Texts,
        "Whose documents it gets: `gateway` or executors, joined in this order. \
         Default: the executor before it that does not float.",
    ),
    yes(
        "method",
        Shape::Word(&["add", "needs", "needs_all", "inspect", "gather_inspect"]),
        "How it finds its place: `needs_all` joins what nobody needs so far, `inspect` stands \
         beside the flow, `gather_inspect` joins the inspections.",
    ),
];

pub(super) const EXECUTOR: &[Key] = &[
    yes(
        "uses",
        Shape::Uses,
        "What runs: a built-in executor, a program, a folder or `config.yml`, or a config in place.",
    ),
    yes(
        "uses_with",
        Shape::Mapping,
        "What the executor is built with.",
    ),
    yes(
        "uses_metas",
        Shape::Mapping,
        "Overrides `metas` of the executor's config.",
    ),
    yes(
        "uses_requests",
        Shape::Requests,
        "Endpoint → method, where it differs from the executor's own.",
    ),
    yes(
        "uses_dynamic_batching",
        Shape::Batching,
        "Endpoint or method → how requests share calls.",
    ),
    yes("replicas", Shape::Count, "Processes that share the work."),
    yes(
        "shards",
        Shape::Count,
        "Parts that the executor's own state is cut into.",
    ),
    alias("parallel", "shards"),
    yes(
        "polling",
        Shape::Polling,
        "Which shards get a request: one, or all of them.",
    ),
    yes("uses_before", Shape::Uses, "Runs before the shards."),
    yes(
        "uses_after",
        Shape::Uses,
        "Runs after the shards, with the replies of all of them.",
    ),
    yes(
        "no_reduce",
        Shape::Flag,
        "Several inputs, or replies of shards, stay the parts they are.",
    ),
    alias("disable_reduce", "no_reduce"),
    yes(
        "when",
        Shape::Query,
        "Only documents that fulfil this condition go to the executor.",
    ),
    yes(
        "workers",
        Shape::Workers,
        "Threads of each process that run the executor side by side.",
    ),
    yes(
        "allow_concurrent",
        Shape::Flag,
        "Calls may run side by side; the same as `workers: auto`.",
    ),
    yes(
        "exit_on_exceptions",
        Shape::Texts,
        "Names of exceptions after whose reply the process ends.",
    ),
    yes(
        "external",
        Shape::Flag,
        "Somebody else starts it; `host` and `port` say where it is.",
    ),
    yes(
        "host",
        Shape::Texts,
        "Where it listens, or, if it is external, where it is.",
    ),
    yes("port", Shape::Ports, "The same."),
    alias("ports", "port"),
    yes("protocol", Shape::Words(&["grpc"]), "What it speaks."),
    alias("protocols", "protocol"),
    yes(
        "env",
        Shape::Values,
        "Environment variables of its processes.",
    ),
    yes(
        "timeout_ready",
        Shape::Time,
        "How long a replica may take until it is ready.",
    ),
    yes("timeout_send", Shape::Time, "How long a call may take."),
    yes(
        "retries",
        Shape::Retries,
        "How often a call is tried again that certainly did not run.",
    ),
    yes(
        "workspace",
        Shape::Text,
        "Folder for its files, relative to the flow file.",
    ),
    yes(
        "floating",
        Shape::Flag,
        "Its result is dropped, and the reply does not wait for it.",
    ),
    yes(
        "idempotent",
        Shape::Flag,
        "A request may run twice without harm, so one that was lost with its process is tried again.",
    ),
    yes(
        "grpc_metadata",
        Shape::Values,
        "gRPC metadata that goes with each call.",
    ),
    yes("log_config", Shape::Word(LOGS), LOG_CONFIG),
    yes("quiet", Shape::Flag, "It logs nothing."),
    idle("quiet_error", NO_STACKS),
    idle("workspace_id", OWN_FOLDERS),
    never("output_array_type", &["numpy"], OTHER_ARRAYS),
    never("reload", OFF, NO_CODE),
    later("tls", OFF),
    later("raft_configuration", &[]),
    never("py_modules", &[], IN_A_FILE),
    never("install_requirements", OFF, NO_HUB),
    never("uses_before_address", &[], NO_HEAD),
    never("uses_after_address", &[], NO_HEAD),
    never("connection_list", &[], NO_HEAD),
];

pub(super) const GATEWAY: &[Key] = &[
    yes("host", Shape::Texts, "Address it listens at."),
    yes(
        "port",
        Shape::Ports,
        "Port it listens at; 0 or nothing: any free one.",
    ),
    alias("ports", "port"),
    alias("port_expose", "port"),
    alias("port_in", "port"),
    yes("protocol", Shape::Words(&["grpc"]), "What it speaks there."),
    alias("protocols", "protocol"),
    yes(
        "prefetch",
        Shape::Window,
        "Requests of one stream that may be under way.",
    ),
    yes(
        "in_flight_max",
        Shape::Count,
        "Requests of all clients together that may be under way.",
    ),
    yes(
        "uses",
        Shape::Text,
        "`GRPCGateway`, or the path of a config that says so.",
    ),
    yes(
        "env",
        Shape::Values,
        "Environment variables of its process.",
    ),
    yes(
        "timeout_ready",
        Shape::Time,
        "How long it may take until it serves.",
    ),
    yes(
        "timeout_send",
        Shape::Time,
        "How long a call of an executor may take.",
    ),
    yes(
        "retries",
        Shape::Retries,
        "How often a call is tried again that certainly did not run.",
    ),
    yes("log_config", Shape::Word(LOGS), LOG_CONFIG),
    yes("quiet", Shape::Flag, "It logs nothing."),
    idle("quiet_error", NO_STACKS),
    idle("workspace", NO_FILES),
    idle("workspace_id", NO_FILES),
    never(
        "name",
        &["gateway"],
        "replies and `needs` know it as `gateway`",
    ),
    never(
        "uses_with",
        &[],
        "flow's gateway has no options but those beside `uses`",
    ),
    never("floating", OFF, "every reply comes from it"),
    never("reload", OFF, NO_CODE),
    never(
        "proxy",
        OFF,
        "flow connects to executors directly, whatever proxies are set",
    ),
    later("replicas", &["1"]),
    later("expose_endpoints", &[]),
    later("expose_graphql_endpoint", OFF),
    later("no_debug_endpoints", OFF),
    later("no_crud_endpoints", OFF),
    never("py_modules", &[], NO_PYTHON),
    never("graph_description", &["{}"], FROM_THE_FLOW),
    never("graph_conditions", &["{}"], FROM_THE_FLOW),
    never("deployments_addresses", &["{}"], FROM_THE_FLOW),
    never("deployments_metadata", &["{}"], FROM_THE_FLOW),
    never("deployments_no_reduce", &["[]"], FROM_THE_FLOW),
];

const FROM_THE_FLOW: &str = "the gateway learns it from `executors`";

pub(super) const CONTAINERS: &[Key] = &[
    yes(
        "entrypoint",
        Shape::Texts,
        "What runs in the container, in place of the image's own program.",
    ),
    yes(
        "docker_kwargs",
        Shape::Docker,
        "Options of the container, by the names of Docker's Python SDK.",
    ),
    yes(
        "volumes",
        Shape::Volumes,
        "Folders that the container sees, `folder[:folder in the container][:ro]`, and volumes of the engine, \
         `{type: volume, source: NAME, target: /folder/in/the/container}`.",
    ),
    yes(
        "gpus",
        Shape::Gpus,
        "GPUs of the container: `all`, how many, `device=0,1` or `device=GPU-…`.",
    ),
    yes(
        "disable_auto_volume",
        Shape::Flag,
        "The workspace is not mounted into the container.",
    ),
    yes(
        "force_network_mode",
        Shape::Word(&["AUTO", "HOST", "BRIDGE", "NONE"]),
        "`HOST`: the container has the machine's own network; otherwise its port is published.",
    ),
    yes(
        "force_update",
        Shape::Flag,
        "The image is pulled at each start, even if it is there.",
    ),
    alias("force", "force_update"),
    yes(
        "prefer_platform",
        Shape::Text,
        "Which of the image's platforms, such as `linux/arm64`.",
    ),
];

/// The same keys where they are the gateway's.
pub(super) const GATEWAY_CONTAINERS: &[Key] = &[
    never("entrypoint", &[], NO_GATEWAY_IMAGE),
    never("docker_kwargs", &[], NO_GATEWAY_IMAGE),
    never("volumes", &[], NO_GATEWAY_IMAGE),
    never("gpus", &[], NO_GATEWAY_IMAGE),
    idle("disable_auto_volume", NO_GATEWAY_IMAGE),
    never("force_network_mode", &["AUTO"], NO_GATEWAY_IMAGE),
];

const NO_GATEWAY_IMAGE: &str = "the gateway is a process of this machine, and runs in no container";

pub(super) const ELSEWHERE: &[Key] = &[
    // What runs is a process of its own either way.
    later("native", ON_OR_OFF),
    later("env_from_secret", &[]),
    later("image_pull_secrets", &[]),
    later("k8s_namespace", &[]),
    later("provider", &["NONE"]),
    later("provider_endpoint", &[]),
    later("stateful", OFF),
    later("peer_ports", &[]),
];

pub(super) const TELEMETRY: &[Key] = &[
    yes(
        "monitoring",
        Shape::Flag,
        "Each process counts, and shows the numbers in Prometheus' text format at `/metrics`.",
    ),
    yes(
        "port_monitoring",
        Shape::Ports,
        "Port for them: of the gateway, or of each replica; 0 or nothing: any free one.",
    ),
    later("tracing", OFF),
    later("metrics", OFF),
    idle("traces_exporter_host", "it means nothing without `tracing`"),
    idle("traces_exporter_port", "it means nothing without `tracing`"),
    idle(
        "metrics_exporter_host",
        "it means nothing without `metrics`",
    ),
    idle(
        "metrics_exporter_port",
        "it means nothing without `metrics`",
    ),
];

pub(super) const HTTP: &[Key] = &[
    later("title", &[]),
    later("description", &[]),
    later("cors", OFF),
    later("ssl_certfile", &[]),
    later("ssl_keyfile", &[]),
    later("compression", &["NoCompression", "None"]),
    later("grpc_server_options", &[]),
    later("grpc_channel_options", &[]),
    never("uvicorn_kwargs", &[], "flow's HTTP server is not uvicorn"),
];

const IS_INTERNAL: &str = "Jina sets it for its own processes";

pub(super) const INTERNAL: &[Key] = &[
    idle("timeout_ctrl", "flow sends no control requests"),
    never("extra_search_paths", &[], NO_PYTHON),
    never(
        "runtime_cls",
        &["WorkerRuntime", "GatewayRuntime"],
        IS_INTERNAL,
    ),
    never("shard_id", &["0"], IS_INTERNAL),
    never("replica_id", &["0"], IS_INTERNAL),
    never("pod_role", &[], IS_INTERNAL),
    never("deployment_role", &[], IS_INTERNAL),
    never("noblock_on_start", OFF, IS_INTERNAL),
];

const IN_JINA_2: &str = "it is an option of Jina 2 that Jina 3 no longer has";
const NO_REMOTE: &str = "it is for JinaD, which is no more; start the executor there as `external`";

pub(super) const JINA2: &[Key] = &[
    never("scheduling", &["LOAD_BALANCE"], IN_JINA_2),
    never("port_in", &[], IN_JINA_2),
    never("port_expose", &[], IN_JINA_2),
    never("port_out", &[], IN_JINA_2),
    never("port_ctrl", &[], IN_JINA_2),
    never("socket_in", &[], IN_JINA_2),
    never("socket_out", &[], IN_JINA_2),
    never("host_in", &[], IN_JINA_2),
    never("host_out", &[], IN_JINA_2),
    never("pull_latest", OFF, IN_JINA_2),
    never("on_error_strategy", &["IGNORE"], IN_JINA_2),
    never("memory_hwm", &["-1"], IN_JINA_2),
    never("runtime_backend", &["PROCESS"], IN_JINA_2),
    never("static_routing_table", OFF, IN_JINA_2),
    never("compress", &["NONE"], IN_JINA_2),
    never("compress_min_bytes", &["1024"], IN_JINA_2),
    never("compress_min_ratio", &["1.1"], IN_JINA_2),
    never("grpc_data_requests", OFF, IN_JINA_2),
    never("prefetch_on_recv", &["1"], IN_JINA_2),
    never("daemon", OFF, NO_REMOTE),
    never("peas_hosts", &[], NO_REMOTE),
    never("upload_files", &[], NO_REMOTE),
];

pub(super) const DEPLOYMENT_KEYS: &[Key] = &[
    yes(
        "jtype",
        Shape::Word(&["Deployment"]),
        "That it is a Deployment.",
    ),
    yes("version", Shape::Version, "Version of the dialect."),
    yes("with", Shape::DeploymentOptions, "The executor's options."),
    yes("name", Shape::Name, "The executor's name in the flow."),
    yes("needs", Shape::Texts, "Whose documents it gets."),
    yes(
        "method",
        Shape::Word(&["add", "needs", "needs_all", "inspect", "gather_inspect"]),
        "How it finds its place.",
    ),
    idle("jcloud", "it is for a service that flow does not use"),
    never("py_modules", &[], IN_A_FILE),
];

pub(super) const GATEWAY_CONFIG_KEYS: &[Key] = &[
    yes(
        "jtype",
        Shape::Word(&["GRPCGateway"]),
        "Which gateway it is.",
    ),
    yes("version", Shape::Version, "Version of the dialect."),
    yes("with", Shape::Gateway, "Its options."),
    idle("metas", "nobody is told a gateway's name and description"),
    never("py_modules", &[], NO_PYTHON),
];

pub(super) const CONFIG_KEYS: &[Key] = &[
    yes(
        "jtype",
        Shape::Text,
        "The executor, by the name it is built under.",
    ),
    yes("version", Shape::Version, "Version of the dialect."),
    yes("with", Shape::Mapping, "What the executor is built with."),
    yes("metas", Shape::Mapping, "Name, description and the like."),
    yes("requests", Shape::Requests, "Endpoint → method."),
    yes("workspace", Shape::Text, "Folder it may keep its files in."),
    yes(
        "dynamic_batching",
        Shape::Batching,
        "Endpoint or method → how requests share calls.",
    ),
    never("py_modules", &[], IN_A_FILE),
];

pub(super) const BATCHING_KEYS: &[Key] = &[
    yes(
        "preferred_batch_size",
        Shape::Count,
        "Documents, or weight, of one call.",
    ),
    yes(
        "timeout",
        Shape::Time,
        "How long the oldest document may wait for company.",
    ),
    yes(
        "flush_all",
        Shape::Flag,
        "What has gathered goes in one call, however much it is.",
    ),
    yes(
        "use_custom_metric",
        Shape::Flag,
        "Sizes are the executor's own weights; the same as `metric: custom`.",
    ),
    yes(
        "metric",
        Shape::Word(&["documents", "bytes", "custom"]),
        "What sizes are counted in.",
    ),
    yes(
        "use_dynamic_batching",
        Shape::Flag,
        "Whether this rule counts at all.",
    ),
    never(
        "custom_metric",
        &[],
        "it names a function of Python; `metric: custom` asks the executor",
    ),
];
