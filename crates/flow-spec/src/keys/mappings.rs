//! The mappings of a flow file, each with the tables of the keys that it may have.

use super::key::Key;
use super::options::Options;
use super::section::Mapping;
use super::tables::batching::{BATCHING_MAPPING, BATCHING_UNSUPPORTED, BatchingOptions};
use super::tables::config::{CONFIG_MAPPING, CONFIG_UNSUPPORTED, ConfigOptions};
use super::tables::container::ContainerOptions;
use super::tables::deployment::{
    DEPLOYMENT_UNSUPPORTED, DeploymentOptions, GATEWAY_CONFIG_UNSUPPORTED, GatewayConfigOptions,
};
use super::tables::entry::EntryOptions;
use super::tables::executor::{EXECUTOR_UNSUPPORTED, ExecutorOptions, InheritedOptions};
use super::tables::flow::{FLOW_UNSUPPORTED, FlowOptions};
use super::tables::gateway::{GATEWAY_CONTAINER, GATEWAY_UNSUPPORTED, GatewayOptions};
use super::tables::log::LogOptions;
use super::tables::monitoring::{MonitoringOptions, TelemetryOptions};
use super::tables::sandbox::{SANDBOX_MAPPING, SandboxOptions};
use super::tables::top::{TOP_UNSUPPORTED, TopOptions};
use super::tables::{ELSEWHERE, HTTP, INTERNAL, JINA2};
use crate::diagnostics::{Diagnostics, Problem, UnknownKey};

/// Keys at the top of a flow file.
pub(crate) static TOP_MAPPING: Mapping = Mapping {
    what: "a key of a flow file",
    tables: &[TopOptions::KEYS, TOP_UNSUPPORTED],
};

/// Keys of `with`: the flow's own, and those that the gateway and the executors inherit.
pub(crate) static WITH_MAPPING: Mapping = Mapping {
    what: "an option of a flow",
    tables: &[
        FlowOptions::KEYS,
        FLOW_UNSUPPORTED,
        InheritedOptions::KEYS,
        ExecutorOptions::KEYS,
        EXECUTOR_UNSUPPORTED,
        GatewayOptions::KEYS,
        GATEWAY_UNSUPPORTED,
        LogOptions::KEYS,
        ContainerOptions::KEYS,
        MonitoringOptions::KEYS,
        TelemetryOptions::KEYS,
        ELSEWHERE,
        HTTP,
        INTERNAL,
        JINA2,
    ],
};

/// Keys of `gateway`.
pub(crate) static GATEWAY_MAPPING: Mapping = Mapping {
    what: "an option of the gateway",
    tables: &[
        GatewayOptions::KEYS,
        LogOptions::KEYS,
        GATEWAY_UNSUPPORTED,
        GATEWAY_CONTAINER,
        MonitoringOptions::KEYS,
        TelemetryOptions::KEYS,
        ELSEWHERE,
        HTTP,
        INTERNAL,
        JINA2,
    ],
};

/// Keys of a gateway's own config file.
pub(crate) static GATEWAY_CONFIG_MAPPING: Mapping = Mapping {
    what: "a key of a gateway's config",
    tables: &[GatewayConfigOptions::KEYS, GATEWAY_CONFIG_UNSUPPORTED],
};

/// Keys of an entry of `executors`.
pub(crate) static ENTRY_MAPPING: Mapping = Mapping {
    what: "an option of an executor",
    tables: &[
        EntryOptions::KEYS,
        ExecutorOptions::KEYS,
        InheritedOptions::KEYS,
        LogOptions::KEYS,
        EXECUTOR_UNSUPPORTED,
        ContainerOptions::KEYS,
        MonitoringOptions::KEYS,
        TelemetryOptions::KEYS,
        ELSEWHERE,
        HTTP,
        INTERNAL,
        JINA2,
    ],
};

/// Keys of a Deployment around its options.
pub(crate) static DEPLOYMENT_MAPPING: Mapping = Mapping {
    what: "a key of a Deployment",
    tables: &[
        DeploymentOptions::KEYS,
        EntryOptions::KEYS,
        DEPLOYMENT_UNSUPPORTED,
    ],
};

/// Keys of `with` of a Deployment that is a flow by itself, and so has options of the gateway too.
pub(crate) static DEPLOYMENT_OPTIONS: Mapping = Mapping {
    what: "an option of a Deployment",
    tables: &[
        EntryOptions::KEYS,
        ExecutorOptions::KEYS,
        InheritedOptions::KEYS,
        LogOptions::KEYS,
        EXECUTOR_UNSUPPORTED,
        GatewayOptions::KEYS,
        GATEWAY_UNSUPPORTED,
        ContainerOptions::KEYS,
        MonitoringOptions::KEYS,
        TelemetryOptions::KEYS,
        ELSEWHERE,
        HTTP,
        INTERNAL,
        JINA2,
    ],
};

/// All mappings, by the names that they have in the schema.
pub(super) static MAPPINGS: [(&str, &Mapping); 10] = [
    ("flow", &TOP_MAPPING),
    ("with", &WITH_MAPPING),
    ("gateway", &GATEWAY_MAPPING),
    ("gateway_config", &GATEWAY_CONFIG_MAPPING),
    ("executor", &ENTRY_MAPPING),
    ("deployment", &DEPLOYMENT_MAPPING),
    ("deployment_with", &DEPLOYMENT_OPTIONS),
    ("executor_config", &CONFIG_MAPPING),
    ("batching_rule", &BATCHING_MAPPING),
    ("sandbox", &SANDBOX_MAPPING),
];

/// One part of the reference page: keys that belong together.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) title: &'static str,
    /// Path of the mapping in the file, as problems show it.
    pub(super) path: &'static str,
    /// Introduction, in Markdown.
    pub(super) about: &'static str,
    pub(super) tables: &'static [&'static [&'static Key]],
}

impl Part {
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.tables.iter().copied().flatten().copied()
    }
}

/// All keys, in the order of the reference page. A table of several mappings is in one part.
pub(super) const PARTS: &[Part] = &[
    Part {
        title: "The top of the file",
        path: "",
        about: "A flow file is a mapping with these keys.",
        tables: &[TopOptions::KEYS, TOP_UNSUPPORTED],
    },
    Part {
        title: "`with`: options of the flow",
        path: "with",
        about: "Besides the keys of this part, `with` takes the options of the gateway and of executors. The \
            gateway inherits its options from here, and so do all executors; a value of their own wins. Not \
            inherited by executors are `uses`, `uses_with`, `port`, `protocol` and `port_monitoring`.",
        tables: &[FlowOptions::KEYS, FLOW_UNSUPPORTED],
    },
    Part {
        title: "`gateway`: options of the gateway",
        path: "gateway",
        about: "The gateway also takes the keys of [logging](#logging) and of [monitoring](#monitoring).",
        tables: &[GatewayOptions::KEYS, GATEWAY_UNSUPPORTED, GATEWAY_CONTAINER],
    },
    Part {
        title: "`executors`: the nodes",
        path: "executors[]",
        about: "An entry of the list is a mapping with these keys, the path of a Deployment's file, or a \
            [Deployment](#deployments).",
        tables: &[
            EntryOptions::KEYS,
            ExecutorOptions::KEYS,
            InheritedOptions::KEYS,
            EXECUTOR_UNSUPPORTED,
        ],
    },
    Part {
        title: "Containers",
        path: "executors[]",
        about: "These options apply to executors whose `uses` names an image. See \
            [Containers and hub](containers.md).",
        tables: &[ContainerOptions::KEYS],
    },
    Part {
        title: "Logging",
        path: "executors[]",
        about: "These keys are options of an executor, of `gateway` and of `with`.",
        tables: &[LogOptions::KEYS],
    },
    Part {
        title: "Monitoring",
        path: "executors[]",
        about: "These keys are options of an executor, of `gateway` and of `with`. See [Metrics](metrics.md) and \
            [Observing a flow](observing.md).",
        tables: &[MonitoringOptions::KEYS, TelemetryOptions::KEYS],
    },
    Part {
        title: "Rules of dynamic batching",
        path: "uses_dynamic_batching./endpoint",
        about: "`uses_dynamic_batching` maps an endpoint, or a method, to a mapping with these keys.",
        tables: &[BatchingOptions::KEYS, BATCHING_UNSUPPORTED],
    },
    Part {
        title: "The sandbox of an executor",
        path: "executors[].sandbox",
        about: "`sandbox` of an executor is a mapping with these keys. [Security](security.md#the-sandbox-of-an-executor) says \
            what each of them protects from.",
        tables: &[SandboxOptions::KEYS],
    },
    Part {
        title: "Deployments",
        path: "deployment",
        about: "A Deployment is an executor with its options under `with`. Beside `with` it also takes `name`, \
            `needs` and `method`. A file that is a Deployment is a flow of one executor; its `with` then also takes \
            the options of the gateway.",
        tables: &[DeploymentOptions::KEYS, DEPLOYMENT_UNSUPPORTED],
    },
    Part {
        title: "An executor's config.yml",
        path: "config",
        about: "The file that `uses` names, or a mapping in its place.",
        tables: &[ConfigOptions::KEYS, CONFIG_UNSUPPORTED],
    },
    Part {
        title: "A gateway's config",
        path: "gateway.uses",
        about: "The file that `uses` of the gateway names.",
        tables: &[GatewayConfigOptions::KEYS, GATEWAY_CONFIG_UNSUPPORTED],
    },
    Part {
        title: "Other keys of Jina's",
        path: "",
        about: "`flow` knows these keys in every mapping in which Jina takes them.",
        tables: &[ELSEWHERE, HTTP, INTERNAL, JINA2],
    },
];

/// Whether only gateways have this key.
pub(crate) fn is_for_gateways_only(name: &str) -> bool {
    let known = |tables: &[&[&Key]]| {
        tables
            .iter()
            .copied()
            .flatten()
            .any(|it| it.is_called(name))
    };
    let executors = [
        EntryOptions::KEYS,
        ExecutorOptions::KEYS,
        InheritedOptions::KEYS,
        EXECUTOR_UNSUPPORTED,
        LogOptions::KEYS,
    ];
    known(&[GatewayOptions::KEYS, GATEWAY_UNSUPPORTED]) && !known(&executors)
}

/// Where a key belongs that is in the wrong mapping.
pub(super) fn home_of(name: &str) -> Option<&'static str> {
    const EXECUTORS: &str = "an entry of `executors`";
    let homes = [
        (TopOptions::KEYS, "the top of the file"),
        (EntryOptions::KEYS, EXECUTORS),
        (FlowOptions::KEYS, "`with`"),
        (LogOptions::KEYS, "`with`"),
        (GatewayOptions::KEYS, "`gateway`"),
        (ExecutorOptions::KEYS, EXECUTORS),
        (InheritedOptions::KEYS, EXECUTORS),
    ];
    let knows = |keys: &[&Key]| keys.iter().any(|key| key.is_called(name));
    let mut homes = homes.into_iter();
    homes.find(|(keys, _)| knows(keys)).map(|(_, home)| home)
}

/// Turns unknown keys into problems, or into warnings where the file is read leniently. Each names the mapping that
/// the key belongs in, or the key that was probably meant.
pub(crate) fn report_unknown(diagnostics: &mut Diagnostics, lenient: bool) {
    let unknown = std::mem::take(&mut diagnostics.unknown_keys);
    let reported = match lenient {
        true => &mut diagnostics.warnings,
        false => &mut diagnostics.problems,
    };
    reported.extend(unknown.iter().map(problem));
}

fn problem(unknown: &UnknownKey) -> Problem {
    let message = format!("`{}` is not {}", unknown.key, unknown.expected);
    let problem = Problem::new(&unknown.span, message);
    match home_of(&unknown.key) {
        Some(home) => problem.remedy(format!("it belongs in {home}")),
        None => problem.suggest(unknown.closest),
    }
}
