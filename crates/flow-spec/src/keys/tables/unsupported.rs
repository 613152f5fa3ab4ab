//! Jina's keys that flow knows and does not support, whichever mapping they are in.

use crate::keys::{Key, ignored, not_yet, refused, without_effect};

/// Only `flow` has the key.
pub(super) const OWN: &str = "no such key";

pub(super) const OFF: &[&str] = &["false"];
pub(super) const OWN_GATEWAY: &str = "it is for a gateway of your own, and flow runs its own gateway; \
    `expose_endpoints` gives endpoints of executors routes";
pub(super) const IN_A_FILE: &str = "write it in the entry of an executor, beside `uses`";
pub(super) const NO_STACKS: &str = "flow's log holds no stack traces of Python";
pub(super) const OWN_FOLDERS: &str = "flow names folders in the workspace by executor and replica";
pub(super) const NO_CODE: &str = "flow does not watch the code of executors; \
    `flow restart NODE` loads it again, and `reload: true` in `with` follows the flow file";
pub(super) const JCLOUD: &str = "it configures Jina's cloud; the flow runs here";

const NO_RESOURCES: &str =
    "it configures Jina's cloud; `docker_kwargs` limits memory and processors of a container";
const NO_HTTP: &str = "it describes an HTTP interface, and executors serve gRPC";
const ALWAYS_HTTP: &str = "every port of the gateway serves HTTP too; \
    write `protocol: http` to say so";
const NO_SERVER_TLS: &str = "only the gateway serves TLS; write it under `gateway`";
const NOT_GRPC_C: &str = "it sets options of gRPC's C library, which flow does not use";
const ON_OR_OFF: &[&str] = &["false", "true"];
const NO_PROVIDER: &str = "executors serve gRPC; at the gateway, for which SageMaker wants `port: 8080`, `POST /invocations` calls the endpoint \
    `/invocations`, and `GET /ping` asks for its health";
const SEARCH_PATHS: &str = "paths start at the flow file, and Python also looks for modules in `PYTHONPATH`, \
    which `env` can set";
const IS_INTERNAL: &str = "Jina sets it for its own processes";
const IN_JINA_2: &str = "it is an option of Jina 1 or 2 that Jina 3 no longer has";
const NO_REMOTE: &str = "it is for JinaD, which no longer exists, so the executor runs on this machine; \
    start it elsewhere yourself, as `external`";

/// For options of replicas that agree on their state.
pub(super) const NOT_STATEFUL: &str = "it is for `stateful` executors, which flow does not have";

pub(crate) const ELSEWHERE: &[&Key] = &[
    // What runs is a process of its own either way.
    &not_yet("native", ON_OR_OFF),
    &without_effect(
        "env_from_secret",
        "it names a Kubernetes secret; set the variable where `flow up` runs, or in `env`",
    ),
    &without_effect(
        "image_pull_secrets",
        "it names a Kubernetes secret; images are pulled with Docker's own credentials",
    ),
    &without_effect(
        "k8s_namespace",
        "it names a Kubernetes namespace; `flow export kubernetes --namespace` sets one",
    ),
    &without_effect("jcloud", JCLOUD),
    &without_effect("resources", NO_RESOURCES),
    &ignored("provider", &["NONE"], NO_PROVIDER),
    &without_effect("provider_endpoint", NO_PROVIDER),
    &not_yet("stateful", OFF),
    &without_effect("peer_ports", NOT_STATEFUL),
];

pub(crate) const HTTP: &[&Key] = &[
    &ignored("restful", OFF, ALWAYS_HTTP),
    &ignored("rest_api", OFF, ALWAYS_HTTP),
    &without_effect("title", NO_HTTP),
    &without_effect("description", NO_HTTP),
    &ignored("cors", OFF, NO_HTTP),
    &refused("ssl_certfile", &[], NO_SERVER_TLS),
    &refused("ssl_keyfile", &[], NO_SERVER_TLS),
    &without_effect("grpc_server_options", NOT_GRPC_C),
    &without_effect("grpc_channel_options", NOT_GRPC_C),
    &without_effect("uvicorn_kwargs", "flow's server is not uvicorn"),
];

pub(crate) const INTERNAL: &[&Key] = &[
    &without_effect("timeout_ctrl", "flow sends no control requests"),
    &without_effect("extra_search_paths", SEARCH_PATHS),
    &ignored(
        "runtime_cls",
        &["WorkerRuntime", "GatewayRuntime"],
        IS_INTERNAL,
    ),
    &ignored("shard_id", &["0"], IS_INTERNAL),
    &ignored("replica_id", &["0"], IS_INTERNAL),
    &ignored("pod_role", &[], IS_INTERNAL),
    &ignored("deployment_role", &[], IS_INTERNAL),
    &ignored("noblock_on_start", OFF, IS_INTERNAL),
];

pub(crate) const JINA2: &[&Key] = &[
    &ignored("scheduling", &["LOAD_BALANCE"], IN_JINA_2),
    &ignored("port_in", &[], IN_JINA_2),
    &ignored("port_expose", &[], IN_JINA_2),
    &ignored("port_out", &[], IN_JINA_2),
    &ignored("port_ctrl", &[], IN_JINA_2),
    &ignored("socket_in", &[], IN_JINA_2),
    &ignored("socket_out", &[], IN_JINA_2),
    &ignored("host_in", &[], IN_JINA_2),
    &ignored("host_out", &[], IN_JINA_2),
    &ignored("on_error_strategy", &["IGNORE"], IN_JINA_2),
    &ignored("memory_hwm", &["-1"], IN_JINA_2),
    &ignored("runtime_backend", &["PROCESS"], IN_JINA_2),
    &ignored("static_routing_table", OFF, IN_JINA_2),
    &ignored("compress", &["NONE"], IN_JINA_2),
    &ignored("compress_min_bytes", &["1024"], IN_JINA_2),
    &ignored("compress_min_ratio", &["1.1"], IN_JINA_2),
    &ignored("grpc_data_requests", OFF, IN_JINA_2),
    &ignored("prefetch_on_recv", &["1"], IN_JINA_2),
    &ignored("read_only", OFF, IN_JINA_2),
    &ignored("separated_workspace", OFF, IN_JINA_2),
    &ignored("show_exc_info", OFF, IN_JINA_2),
    &ignored("hide_exc_info", OFF, IN_JINA_2),
    &ignored("logserver", OFF, IN_JINA_2),
    &ignored("log_remote", OFF, IN_JINA_2),
    &ignored("optimize_level", &["NONE"], IN_JINA_2),
    &ignored("skip_on_error", &["NONE"], IN_JINA_2),
    &ignored("expose_public", OFF, IN_JINA_2),
    &ignored("quiet_remote_logs", OFF, IN_JINA_2),
    &ignored("dynamic_routing", ON_OR_OFF, IN_JINA_2),
    &ignored("infrastructure", &["JINA"], IN_JINA_2),
    &ignored("k8s_connection_pool", ON_OR_OFF, IN_JINA_2),
    &ignored("k8s_custom_resource_dir", &[], IN_JINA_2),
    &ignored("daemon", OFF, NO_REMOTE),
    &ignored("peas_hosts", &[], NO_REMOTE),
    &ignored("upload_files", &[], NO_REMOTE),
];
