//! Options of the gateway.

use super::super::{Key, Shape};
use super::{
    LOG_CONFIG, LOG_DEFAULT, LOG_JINA, LOGS, NO_CODE, NO_FILES, NO_PYTHON, NO_STACKS, OFF, OWN,
    alias, not_yet, refused, supported, without_effect,
};

const FROM_THE_FLOW: &str = "the gateway learns it from `executors`";
const NO_GATEWAY_IMAGE: &str = "the gateway is a process of this machine, and runs in no container";

pub(in super::super) const GATEWAY: &[Key] = &[
    supported(
        "host",
        Shape::Texts,
        "Address on which the gateway listens.",
    )
    .default("`0.0.0.0`")
    .example("127.0.0.1"),
    supported(
        "port",
        Shape::Ports,
        "Port for clients; `0` takes any free port.",
    )
    .default("any free port")
    .example("54321"),
    alias("ports", "port"),
    alias("port_expose", "port"),
    alias("port_in", "port"),
    supported("protocol", Shape::Words(&["grpc"]), "Protocol for clients.")
        .default("`grpc`")
        .example("grpc")
        .jina("also `http` and `websocket`, and several at once"),
    alias("protocols", "protocol"),
    supported(
        "prefetch",
        Shape::Window,
        "Requests of one stream that may be in progress, unless the client asks for another \
         number.",
    )
    .default("`1000`")
    .example("100")
    .jina("`0` sets no limit"),
    supported(
        "in_flight_max",
        Shape::Count,
        "Requests of all clients together that may be in progress.",
    )
    .default("`16384`")
    .example("4096")
    .jina(OWN),
    supported(
        "uses",
        Shape::Text,
        "`GRPCGateway`, or the path of a config that says so.",
    )
    .default("`GRPCGateway`")
    .example("GRPCGateway")
    .jina("also other gateways, and classes of your own"),
    supported(
        "env",
        Shape::Values,
        "Environment variables of the gateway.",
    )
    .default("empty")
    .example("{RUST_BACKTRACE: 1}"),
    supported(
        "timeout_ready",
        Shape::Time,
        "How long the gateway may take until it serves; `-1` waits forever.",
    )
    .default("`10min`")
    .example("60s")
    .jina("milliseconds only"),
    supported(
        "timeout_send",
        Shape::Time,
        "How long one call of an executor may take; `-1` and `0` set no limit.",
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
    supported("log_config", Shape::Word(LOGS), LOG_CONFIG)
        .default(LOG_DEFAULT)
        .example("json")
        .jina(LOG_JINA),
    supported("quiet", Shape::Flag, "Turns the log of the gateway off.")
        .default("`false`")
        .example("true"),
    without_effect("quiet_error", NO_STACKS),
    without_effect("workspace", NO_FILES),
    without_effect("workspace_id", NO_FILES),
    refused(
        "name",
        &["gateway"],
        "replies and `needs` know it as `gateway`",
    ),
    refused(
        "uses_with",
        &[],
        "flow's gateway has no options but those beside `uses`",
    ),
    refused("floating", OFF, "every reply comes from it"),
    refused("reload", OFF, NO_CODE),
    refused(
        "proxy",
        OFF,
        "flow connects to executors directly, whatever proxies are set",
    ),
    not_yet("replicas", &["1"]),
    not_yet("expose_endpoints", &[]),
    not_yet("expose_graphql_endpoint", OFF),
    not_yet("no_debug_endpoints", OFF),
    not_yet("no_crud_endpoints", OFF),
    refused("py_modules", &[], NO_PYTHON),
    refused("graph_description", &["{}"], FROM_THE_FLOW),
    refused("graph_conditions", &["{}"], FROM_THE_FLOW),
    refused("deployments_addresses", &["{}"], FROM_THE_FLOW),
    refused("deployments_metadata", &["{}"], FROM_THE_FLOW),
    refused("deployments_no_reduce", &["[]"], FROM_THE_FLOW),
];

/// The keys of containers, where they are written for the gateway.
pub(in super::super) const GATEWAY_CONTAINERS: &[Key] = &[
    refused("entrypoint", &[], NO_GATEWAY_IMAGE),
    refused("docker_kwargs", &[], NO_GATEWAY_IMAGE),
    refused("volumes", &[], NO_GATEWAY_IMAGE),
    refused("gpus", &[], NO_GATEWAY_IMAGE),
    without_effect("disable_auto_volume", NO_GATEWAY_IMAGE),
    refused("force_network_mode", &["AUTO"], NO_GATEWAY_IMAGE),
];
