//! Every key of Jina's Flow YAML, and what flow makes of it.
//!
//! The tables are the whole answer to "does flow know this key?", for the parser, for the schema
//! (`schema.rs`) and for the reference page (`reference.rs`). What a supported key's value may be is
//! for `read.rs`, and what it means for `check.rs`.

mod shape;
mod tables;

pub(crate) use shape::Shape;
use tables::{
    BATCHING_KEYS, CONFIG_KEYS, CONTAINERS, DEPLOYMENT_KEYS, ELSEWHERE, ENTRY_ONLY, EXECUTOR, FLOW,
    GATEWAY, GATEWAY_CONFIG_KEYS, GATEWAY_CONTAINERS, HTTP, INTERNAL, JINA2, TELEMETRY, TOP_KEYS,
};

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) state: State,
    /// Values that ask for what flow does anyway, so that nothing is lost by taking them.
    pub(crate) harmless: &'static [&'static str],
    /// The value of a supported key that is not written, in Markdown.
    pub(crate) default: &'static str,
    /// A value of a supported key, in YAML.
    pub(crate) example: &'static str,
    /// What differs in Jina, in Markdown; empty: nothing.
    pub(crate) jina: &'static str,
}

/// What flow makes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Taken, with the form of its value and what it is for.
    Supported(Shape, &'static str),
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
        FLOW, EXECUTOR, GATEWAY, CONTAINERS, ELSEWHERE, TELEMETRY, HTTP, INTERNAL, JINA2,
    ],
};
/// Keys of `gateway`.
pub(crate) const GATEWAY_SECTION: Keys = Keys {
    what: "an option of the gateway",
    tables: &[
        GATEWAY,
        GATEWAY_CONTAINERS,
        ELSEWHERE,
        TELEMETRY,
        HTTP,
        INTERNAL,
        JINA2,
    ],
};
/// Keys of a gateway's own config file.
pub(crate) const GATEWAY_CONFIG: Keys = Keys {
    what: "a key of a gateway's config",
    tables: &[GATEWAY_CONFIG_KEYS],
};
/// Keys of an entry of `executors`.
pub(crate) const ENTRY: Keys = Keys {
    what: "an option of an executor",
    tables: &[
        ENTRY_ONLY, EXECUTOR, CONTAINERS, ELSEWHERE, TELEMETRY, HTTP, INTERNAL, JINA2,
    ],
};
/// Keys of a Deployment around its options.
pub(crate) const DEPLOYMENT: Keys = Keys {
    what: "a key of a Deployment",
    tables: &[DEPLOYMENT_KEYS],
};
/// Keys of `with` of a Deployment that is a flow by itself: it brings its gateway.
pub(crate) const DEPLOYMENT_WITH: Keys = Keys {
    what: "an option of a Deployment",
    tables: &[
        ENTRY_ONLY, EXECUTOR, GATEWAY, CONTAINERS, ELSEWHERE, TELEMETRY, HTTP, INTERNAL, JINA2,
    ],
};
/// Keys of an executor's `config.yml`.
pub(crate) const EXECUTOR_CONFIG: Keys = Keys {
    what: "a key of an executor's config",
    tables: &[CONFIG_KEYS],
};
/// Keys of one rule of `uses_dynamic_batching`.
pub(crate) const BATCHING: Keys = Keys {
    what: "an option of dynamic batching",
    tables: &[BATCHING_KEYS],
};

/// One part of the reference page: keys that stand in the same mapping and belong together.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) title: &'static str,
    /// Path of the mapping in the file, as problems show it.
    pub(crate) path: &'static str,
    /// Introduction, in Markdown.
    pub(crate) about: &'static str,
    pub(crate) tables: &'static [&'static [Key]],
}

/// All keys, in the order of the reference page. A table that several mappings share is in one part.
pub(crate) const PARTS: &[Part] = &[
    Part {
        title: "The top of the file",
        path: "",
        about: "A flow file is a mapping with these keys.",
        tables: &[TOP_KEYS],
    },
    Part {
        title: "`with`: options of the flow",
        path: "with",
        about: "Besides the keys of this part, `with` takes the options of the gateway and of executors. The \
            gateway inherits its options from here, and so do all executors; a value of their own wins. Not \
            inherited by executors are `uses`, `uses_with`, `port`, `protocol` and `port_monitoring`.",
        tables: &[FLOW],
    },
    Part {
        title: "`gateway`: options of the gateway",
        path: "gateway",
        about: "The gateway also takes the keys of [monitoring](#monitoring).",
        tables: &[GATEWAY, GATEWAY_CONTAINERS],
    },
    Part {
        title: "`executors`: the nodes",
        path: "executors[]",
        about: "An entry of the list is a mapping with these keys, the path of a Deployment's file, or a \
            [Deployment](#deployments).",
        tables: &[ENTRY_ONLY, EXECUTOR],
    },
    Part {
        title: "Containers",
        path: "executors[]",
        about: "These options apply to executors whose `uses` names an image. See \
            [Containers and hub](containers.md).",
        tables: &[CONTAINERS],
    },
    Part {
        title: "Monitoring",
        path: "executors[]",
        about: "These keys are options of an executor, of `gateway` and of `with`. See [Metrics](metrics.md).",
        tables: &[TELEMETRY],
    },
    Part {
        title: "Rules of dynamic batching",
        path: "uses_dynamic_batching./endpoint",
        about: "`uses_dynamic_batching` maps an endpoint, or a method, to a mapping with these keys.",
        tables: &[BATCHING_KEYS],
    },
    Part {
        title: "Deployments",
        path: "deployment",
        about: "A Deployment is an executor with its options under `with`. A file that is a Deployment is a flow \
            of one executor; its `with` then also takes the options of the gateway.",
        tables: &[DEPLOYMENT_KEYS],
    },
    Part {
        title: "An executor's config.yml",
        path: "config",
        about: "The file that `uses` names, or a mapping in its place.",
        tables: &[CONFIG_KEYS],
    },
    Part {
        title: "A gateway's config",
        path: "gateway.uses",
        about: "The file that `uses` of the gateway names.",
        tables: &[GATEWAY_CONFIG_KEYS],
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
    let known = |table: &[Key]| table.iter().any(|key| key.name == name);
    known(GATEWAY) && !known(EXECUTOR) && !known(ENTRY_ONLY)
}

/// Where a key belongs that stands in the wrong mapping.
pub(crate) fn home_of(name: &str) -> Option<&'static str> {
    let homes: [(&[Key], &str); 5] = [
        (TOP_KEYS, "the top of the file"),
        (ENTRY_ONLY, "an entry of `executors`"),
        (FLOW, "`with`"),
        (GATEWAY, "`gateway`"),
        (EXECUTOR, "an entry of `executors`"),
    ];
    let taken = |key: &&Key| matches!(key.state, State::Supported(..) | State::AliasOf(_));
    let knows = |keys: &[Key]| keys.iter().filter(taken).any(|key| key.name == name);
    homes
        .into_iter()
        .find(|(keys, _)| knows(keys))
        .map(|(_, at)| at)
}

#[cfg(test)]
mod tests;
