//! Options of executors, of their containers, and of monitoring.

use super::super::{Key, Shape};
use super::{
    IN_A_FILE, LOG_CONFIG, LOG_DEFAULT, LOG_JINA, LOGS, NO_CODE, NO_STACKS, OFF, OWN, OWN_FOLDERS,
    alias, not_yet, refused, supported, without_effect,
};

const NO_HUB: &str = "flow fetches no executors from Jina's hub";
const NO_HEAD: &str = "it belongs to Jina's head processes, and flow has none";
const OTHER_ARRAYS: &str = "flow's executors hand out plain arrays, which every client reads";

pub(in super::super) const EXECUTOR: &[Key] = &[
    supported(
        "uses",
        Shape::Uses,
        "What runs: a built-in executor, a program, a folder or `config.yml`, an image \
         (`docker://…`, `hub://…`), or a config in place.",
    )
    .default("`echo`")
    .example("sentence-encoder")
    .jina("Python classes and files; the public hub"),
    supported(
        "uses_with",
        Shape::Mapping,
        "Options that the executor is built with.",
    )
    .default("empty")
    .example("{device: cpu}"),
    supported(
        "uses_metas",
        Shape::Mapping,
        "Overrides `metas` of the executor's config.",
    )
    .default("empty")
    .example("{name: my-encoder}"),
    supported(
        "uses_requests",
        Shape::Requests,
        "Endpoint → method, where it differs from the executor's own binding.",
    )
    .default("empty")
    .example("{/embed: /encode}"),
    supported(
        "uses_dynamic_batching",
        Shape::Batching,
        "Endpoint or method → how requests share calls.",
    )
    .default("the executor's own; what waits shares the next call")
    .example("{/encode: {preferred_batch_size: 32, timeout: 10}}")
    .jina("without a rule nothing is batched"),
    supported(
        "replicas",
        Shape::Count,
        "Number of processes that share the work; with shards, of each shard.",
    )
    .default("`1`")
    .example("3"),
    supported(
        "shards",
        Shape::Count,
        "Number of parts into which the executor's own state is cut.",
    )
    .default("`1`")
    .example("2"),
    alias("parallel", "shards"),
    supported(
        "polling",
        Shape::Polling,
        "Shards that receive a request: one in turn (`ANY`) or all (`ALL`), for all \
         endpoints or by endpoint.",
    )
    .default("`ANY`, and `ALL` for `/search`")
    .example("{/search: ALL, '*': ANY}"),
    supported(
        "uses_before",
        Shape::Uses,
        "Executor that runs before the shards.",
    )
    .example("segmenter"),
    supported(
        "uses_after",
        Shape::Uses,
        "Executor that runs after the shards, on the replies of all of them.",
    )
    .example("echo"),
    supported(
        "no_reduce",
        Shape::Flag,
        "Several inputs, or replies of several shards, stay separate instead of being \
         merged by document id.",
    )
    .default("`false`")
    .example("true")
    .jina("with shards, only the documents of one shard come back"),
    alias("disable_reduce", "no_reduce"),
    supported(
        "when",
        Shape::Query,
        "Condition on documents; the node receives only those that match.",
    )
    .default("all documents")
    .example("{tags__lang: {$eq: en}}")
    .jina("see [Differences](migrating-from-jina.md#differences)"),
    supported(
        "workers",
        Shape::Workers,
        "Threads of each process that run the executor.",
    )
    .default("`1`")
    .example("auto")
    .jina(OWN),
    supported(
        "allow_concurrent",
        Shape::Flag,
        "Calls may run at the same time; the same as `workers: auto`.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "exit_on_exceptions",
        Shape::Texts,
        "Names of failures after whose reply the process ends; `panic` is one.",
    )
    .default("none")
    .example("[panic]"),
    supported(
        "external",
        Shape::Flag,
        "You start the executor yourself; `host` and `port` say where it is.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "host",
        Shape::Texts,
        "Address on which the executor listens or, if it is external, where it is; several \
         for several replicas.",
    )
    .default("`127.0.0.1`")
    .example("10.0.0.5")
    .jina("`0.0.0.0`"),
    supported(
        "port",
        Shape::Ports,
        "Port of the executor; a list for its replicas.",
    )
    .default("any free port")
    .example("[9000, 9001]"),
    alias("ports", "port"),
    supported(
        "protocol",
        Shape::Words(&["grpc"]),
        "Protocol of the executor.",
    )
    .default("`grpc`")
    .example("grpc")
    .jina("also `http`"),
    alias("protocols", "protocol"),
    supported(
        "env",
        Shape::Values,
        "Environment variables of its processes.",
    )
    .default("empty")
    .example("{CUDA_VISIBLE_DEVICES: RR}"),
    supported(
        "timeout_ready",
        Shape::Time,
        "How long a replica may take until it is ready; `-1` waits forever.",
    )
    .default("`10min`")
    .example("60s")
    .jina("milliseconds only"),
    supported(
        "timeout_send",
        Shape::Time,
        "How long one call may take; `-1` and `0` set no limit.",
    )
    .default("no limit")
    .example("2s")
    .jina("milliseconds only"),
    supported(
        "retries",
        Shape::Retries,
        "How often a call that certainly did not run is tried again.",
    )
    .default("`-1`: 6, or once per replica if there are more")
    .example("2")
    .jina("`-1` is at least 3; also repeats calls that may have run"),
    supported(
        "workspace",
        Shape::Text,
        "Folder for files of the executor; a relative path starts at the flow file.",
    )
    .default("the flow's `workspace`")
    .example("data"),
    supported(
        "floating",
        Shape::Flag,
        "The reply does not wait for the node, and its result is dropped.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "idempotent",
        Shape::Flag,
        "A request may run twice without harm, so one that was lost with its process is \
         tried again.",
    )
    .default("`false`")
    .example("true")
    .jina(OWN),
    supported(
        "grpc_metadata",
        Shape::Values,
        "gRPC metadata of each call to the executor.",
    )
    .default("empty")
    .example("{tenant: a}"),
    supported("log_config", Shape::Word(LOGS), LOG_CONFIG)
        .default(LOG_DEFAULT)
        .example("json")
        .jina(LOG_JINA),
    supported("quiet", Shape::Flag, "Turns the log of its processes off.")
        .default("`false`")
        .example("true"),
    without_effect("quiet_error", NO_STACKS),
    without_effect("workspace_id", OWN_FOLDERS),
    refused("output_array_type", &["numpy"], OTHER_ARRAYS),
    refused("reload", OFF, NO_CODE),
    not_yet("tls", OFF),
    not_yet("raft_configuration", &[]),
    refused("py_modules", &[], IN_A_FILE),
    refused("install_requirements", OFF, NO_HUB),
    refused("uses_before_address", &[], NO_HEAD),
    refused("uses_after_address", &[], NO_HEAD),
    refused("connection_list", &[], NO_HEAD),
];

pub(in super::super) const CONTAINERS: &[Key] = &[
    supported(
        "entrypoint",
        Shape::Texts,
        "Program that runs in the container, instead of the image's own.",
    )
    .default("the image's")
    .example("[python, serve.py]"),
    supported(
        "docker_kwargs",
        Shape::Docker,
        "Options of the container, by the names of Docker's Python SDK.",
    )
    .default("empty")
    .example("{shm_size: 1g}"),
    supported(
        "volumes",
        Shape::Volumes,
        "Folders that the container sees, `folder[:folder in the container][:ro]`, where a relative \
         folder begins at the flow file; and volumes of the engine, `{type: volume, source: NAME, \
         target: /folder/in/the/container}`.",
    )
    .default("none")
    .example("[{type: volume, source: flow-cache, target: /cache}, 'data:/data:ro']")
    .jina("read-only volumes and volumes of the engine are not known"),
    supported(
        "gpus",
        Shape::Gpus,
        "GPUs of the container: `all`, a number, `device=0,1` or `device=GPU-…`.",
    )
    .default("none")
    .example("all")
    .jina("`device=0,1` means GPU 0 and one more"),
    supported(
        "disable_auto_volume",
        Shape::Flag,
        "The `workspace` is not mounted into the container.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "force_network_mode",
        Shape::Word(&["AUTO", "HOST", "BRIDGE", "NONE"]),
        "`HOST`: the container uses the machine's network. Otherwise its port is published \
         on the loopback address.",
    )
    .default("`AUTO`")
    .example("HOST")
    .jina("the host network on Linux"),
    supported(
        "force_update",
        Shape::Flag,
        "The image is pulled at each start, even if it exists.",
    )
    .default("`false`")
    .example("true"),
    alias("force", "force_update"),
    supported(
        "prefer_platform",
        Shape::Text,
        "The image's platform to use.",
    )
    .default("the machine's")
    .example("linux/arm64"),
];

pub(in super::super) const TELEMETRY: &[Key] = &[
    supported(
        "monitoring",
        Shape::Flag,
        "The process counts requests, and serves the numbers to Prometheus at `/metrics`.",
    )
    .default("`false`")
    .example("true"),
    supported(
        "port_monitoring",
        Shape::Ports,
        "Port of `/metrics`: under `with`, the gateway's; for an executor, one for each \
         replica. `0` takes any free port.",
    )
    .default("any free port")
    .example("9090"),
    not_yet("tracing", OFF),
    not_yet("metrics", OFF),
    without_effect("traces_exporter_host", "it means nothing without `tracing`"),
    without_effect("traces_exporter_port", "it means nothing without `tracing`"),
    without_effect(
        "metrics_exporter_host",
        "it means nothing without `metrics`",
    ),
    without_effect(
        "metrics_exporter_port",
        "it means nothing without `metrics`",
    ),
];
