//! Every key of Jina's Flow YAML, and what flow makes of it.
//!
//! The tables are the whole answer to "does flow know this key?". What a supported key's value may
//! be is for `read.rs`, and what it means for `check.rs`.

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) state: State,
    /// Values that ask for what flow does anyway, so that nothing is lost by taking them.
    pub(crate) harmless: &'static [&'static str],
}

/// What flow makes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Supported,
    /// Another name for a supported key.
    AliasOf(&'static str),
    /// Known, and to come.
    NotYet,
    /// Known, and not to come; the reason.
    Refused(&'static str),
    /// Taken with a warning, for it changes nothing that a reply depends on; the reason.
    WithoutEffect(&'static str),
}

/// The keys that one mapping of the file may hold. The first table that knows a key decides.
#[derive(Debug)]
pub(crate) struct Keys {
    /// What such a key is, as messages say it.
    pub(crate) what: &'static str,
    pub(crate) tables: &'static [&'static [Key]],
}

impl Keys {
    pub(crate) fn find(&self, name: &str) -> Option<&'static Key> {
        self.all().find(|key| key.name == name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Key> {
        self.tables.iter().copied().flatten()
    }
}

/// Keys at the top of a flow file.
pub(crate) const TOP: Keys = Keys {
    what: "a key of a flow file",
    tables: &[TOP_KEYS],
};
/// Keys of `with`: the flow's own, and those that the gateway and the executors inherit.
pub(crate) const WITH: Keys = Keys {
    what: "an option of a flow",
    tables: &[
        FLOW, EXECUTOR, GATEWAY, CONTAINERS, TELEMETRY, HTTP, INTERNAL, JINA2,
    ],
};
/// Keys of `gateway`.
pub(crate) const GATEWAY_SECTION: Keys = Keys {
    what: "an option of the gateway",
    tables: &[GATEWAY, CONTAINERS, TELEMETRY, HTTP, INTERNAL, JINA2],
};
/// Keys of an entry of `executors`.
pub(crate) const ENTRY: Keys = Keys {
    what: "an option of an executor",
    tables: &[
        ENTRY_ONLY, EXECUTOR, CONTAINERS, TELEMETRY, HTTP, INTERNAL, JINA2,
    ],
};
/// Keys of an executor's `config.yml`.
pub(crate) const EXECUTOR_CONFIG: Keys = Keys {
    what: "a key of an executor's config",
    tables: &[CONFIG_KEYS],
};

/// Where a key belongs that stands in the wrong mapping.
pub(crate) fn home_of(name: &str) -> Option<&'static str> {
    let homes = [
        (&TOP, "the top of the file"),
        (
            &Keys {
                what: "",
                tables: &[ENTRY_ONLY],
            },
            "an entry of `executors`",
        ),
        (
            &Keys {
                what: "",
                tables: &[FLOW],
            },
            "`with`",
        ),
        (
            &Keys {
                what: "",
                tables: &[GATEWAY],
            },
            "`gateway`",
        ),
        (
            &Keys {
                what: "",
                tables: &[EXECUTOR],
            },
            "an entry of `executors`",
        ),
    ];
    let supported = |key: &Key| matches!(key.state, State::Supported | State::AliasOf(_));
    homes
        .into_iter()
        .find(|(keys, _)| keys.find(name).is_some_and(supported))
        .map(|(_, at)| at)
}

const fn yes(name: &'static str) -> Key {
    Key {
        name,
        state: State::Supported,
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
const NO_PYTHON: &str =
    "flow runs no Python; start the executor with Jina and add it as `external`";
const NO_HUB: &str = "flow fetches no executors from Jina's hub";
const NO_HEAD: &str = "it belongs to Jina's head processes, and flow has none";
const NO_STACKS: &str = "flow's log holds no stack traces of Python";

const TOP_KEYS: &[Key] = &[
    yes("jtype"),
    yes("version"),
    yes("with"),
    yes("gateway"),
    yes("executors"),
    alias("deployments", "executors"),
    alias("pods", "executors"),
    idle("jcloud", "it is for a service that flow does not use"),
    never("py_modules", &[], NO_PYTHON),
];

const FLOW: &[Key] = &[
    yes("name"),
    yes("workspace"),
    yes("log_config"),
    yes("quiet"),
    yes("env"),
    idle("quiet_error", NO_STACKS),
    idle(
        "workspace_id",
        "flow names folders in the workspace by executor and replica",
    ),
    idle("suppress_root_logging", "flow has one log only"),
    later("reload", OFF),
    later("inspect", &["COLLECT"]),
    never(
        "uses",
        &[],
        "here it reaches neither the gateway nor an executor",
    ),
    never(
        "uses_with",
        &[],
        "here it reaches neither the gateway nor an executor",
    ),
];

const ENTRY_ONLY: &[Key] = &[yes("name"), yes("needs"), yes("method"), yes("jtype")];

const EXECUTOR: &[Key] = &[
    yes("uses"),
    yes("uses_with"),
    yes("uses_metas"),
    yes("uses_requests"),
    yes("replicas"),
    yes("external"),
    yes("host"),
    yes("port"),
    alias("ports", "port"),
    yes("protocol"),
    alias("protocols", "protocol"),
    yes("env"),
    yes("timeout_ready"),
    yes("timeout_send"),
    yes("retries"),
    yes("workspace"),
    yes("floating"),
    yes("idempotent"),
    yes("grpc_metadata"),
    yes("log_config"),
    yes("quiet"),
    idle("quiet_error", NO_STACKS),
    idle(
        "workspace_id",
        "flow names folders in the workspace by executor and replica",
    ),
    later("uses_dynamic_batching", &[]),
    later("polling", &["ANY"]),
    later("shards", &["1"]),
    later("parallel", &["1"]),
    later("no_reduce", OFF),
    later("disable_reduce", OFF),
    later("allow_concurrent", OFF),
    later("exit_on_exceptions", &[]),
    later("output_array_type", &[]),
    later("when", &[]),
    later("uses_before", &[]),
    later("uses_after", &[]),
    later("tls", OFF),
    later("raft_configuration", &[]),
    never("py_modules", &[], NO_PYTHON),
    never("install_requirements", OFF, NO_HUB),
    never("force_update", OFF, NO_HUB),
    never("force", OFF, NO_HUB),
    never("prefer_platform", &[], NO_HUB),
    never("uses_before_address", &[], NO_HEAD),
    never("uses_after_address", &[], NO_HEAD),
    never("connection_list", &[], NO_HEAD),
];

const GATEWAY: &[Key] = &[
    yes("host"),
    yes("port"),
    alias("ports", "port"),
    alias("port_expose", "port"),
    alias("port_in", "port"),
    yes("protocol"),
    alias("protocols", "protocol"),
    yes("prefetch"),
    yes("env"),
    yes("timeout_ready"),
    yes("timeout_send"),
    yes("retries"),
    yes("log_config"),
    yes("quiet"),
    idle("quiet_error", NO_STACKS),
    idle("workspace", "the gateway keeps no files"),
    idle("workspace_id", "the gateway keeps no files"),
    later("name", &["gateway"]),
    later("uses", &["GRPCGateway"]),
    later("uses_with", &[]),
    later("replicas", &["1"]),
    later("expose_endpoints", &[]),
    later("expose_graphql_endpoint", OFF),
    later("no_debug_endpoints", OFF),
    later("no_crud_endpoints", OFF),
    later("proxy", OFF),
    later("floating", OFF),
    never("py_modules", &[], NO_PYTHON),
    never("graph_description", &["{}"], FROM_THE_FLOW),
    never("graph_conditions", &["{}"], FROM_THE_FLOW),
    never("deployments_addresses", &["{}"], FROM_THE_FLOW),
    never("deployments_metadata", &["{}"], FROM_THE_FLOW),
    never("deployments_no_reduce", &["[]"], FROM_THE_FLOW),
];

const FROM_THE_FLOW: &str = "the gateway learns it from `executors`";

const CONTAINERS: &[Key] = &[
    later("entrypoint", &[]),
    later("docker_kwargs", &[]),
    later("volumes", &[]),
    later("gpus", &[]),
    later("disable_auto_volume", OFF),
    later("force_network_mode", &["AUTO"]),
    later("native", OFF),
    later("env_from_secret", &[]),
    later("image_pull_secrets", &[]),
    later("k8s_namespace", &[]),
    later("provider", &["NONE"]),
    later("provider_endpoint", &[]),
    later("reload", OFF),
    later("stateful", OFF),
    later("peer_ports", &[]),
];

const TELEMETRY: &[Key] = &[
    later("monitoring", OFF),
    later("tracing", OFF),
    later("metrics", OFF),
    idle("port_monitoring", "it means nothing without `monitoring`"),
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

const HTTP: &[Key] = &[
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

const INTERNAL: &[Key] = &[
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

const JINA2: &[Key] = &[
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

const CONFIG_KEYS: &[Key] = &[
    yes("jtype"),
    yes("with"),
    yes("metas"),
    yes("requests"),
    yes("workspace"),
    later("dynamic_batching", &[]),
    never("py_modules", &[], NO_PYTHON),
];

#[cfg(test)]
mod tests;
