//! Keys of Jina's that `flow` knows and does not take, in any mapping.

use super::super::Key;
use super::{NO_PYTHON, OFF, not_yet, refused, without_effect};

const ON_OR_OFF: &[&str] = &["false", "true"];
const IS_INTERNAL: &str = "Jina sets it for its own processes";
const IN_JINA_2: &str = "it is an option of Jina 2 that Jina 3 no longer has";
const NO_REMOTE: &str = "it is for JinaD, which is no more; start the executor there as `external`";

pub(in super::super) const ELSEWHERE: &[Key] = &[
    // What runs is a process of its own either way.
    not_yet("native", ON_OR_OFF),
    not_yet("env_from_secret", &[]),
    not_yet("image_pull_secrets", &[]),
    not_yet("k8s_namespace", &[]),
    not_yet("provider", &["NONE"]),
    not_yet("provider_endpoint", &[]),
    not_yet("stateful", OFF),
    not_yet("peer_ports", &[]),
];

pub(in super::super) const HTTP: &[Key] = &[
    not_yet("title", &[]),
    not_yet("description", &[]),
    not_yet("cors", OFF),
    not_yet("ssl_certfile", &[]),
    not_yet("ssl_keyfile", &[]),
    not_yet("compression", &["NoCompression", "None"]),
    not_yet("grpc_server_options", &[]),
    not_yet("grpc_channel_options", &[]),
    refused("uvicorn_kwargs", &[], "flow's HTTP server is not uvicorn"),
];

pub(in super::super) const INTERNAL: &[Key] = &[
    without_effect("timeout_ctrl", "flow sends no control requests"),
    refused("extra_search_paths", &[], NO_PYTHON),
    refused(
        "runtime_cls",
        &["WorkerRuntime", "GatewayRuntime"],
        IS_INTERNAL,
    ),
    refused("shard_id", &["0"], IS_INTERNAL),
    refused("replica_id", &["0"], IS_INTERNAL),
    refused("pod_role", &[], IS_INTERNAL),
    refused("deployment_role", &[], IS_INTERNAL),
    refused("noblock_on_start", OFF, IS_INTERNAL),
];

pub(in super::super) const JINA2: &[Key] = &[
    refused("scheduling", &["LOAD_BALANCE"], IN_JINA_2),
    refused("port_in", &[], IN_JINA_2),
    refused("port_expose", &[], IN_JINA_2),
    refused("port_out", &[], IN_JINA_2),
    refused("port_ctrl", &[], IN_JINA_2),
    refused("socket_in", &[], IN_JINA_2),
    refused("socket_out", &[], IN_JINA_2),
    refused("host_in", &[], IN_JINA_2),
    refused("host_out", &[], IN_JINA_2),
    refused("pull_latest", OFF, IN_JINA_2),
    refused("on_error_strategy", &["IGNORE"], IN_JINA_2),
    refused("memory_hwm", &["-1"], IN_JINA_2),
    refused("runtime_backend", &["PROCESS"], IN_JINA_2),
    refused("static_routing_table", OFF, IN_JINA_2),
    refused("compress", &["NONE"], IN_JINA_2),
    refused("compress_min_bytes", &["1024"], IN_JINA_2),
    refused("compress_min_ratio", &["1.1"], IN_JINA_2),
    refused("grpc_data_requests", OFF, IN_JINA_2),
    refused("prefetch_on_recv", &["1"], IN_JINA_2),
    refused("daemon", OFF, NO_REMOTE),
    refused("peas_hosts", &[], NO_REMOTE),
    refused("upload_files", &[], NO_REMOTE),
];
