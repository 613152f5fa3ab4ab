//! The keys of an executor's `config.yml`.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::unsupported::IN_A_FILE;
use crate::forms;
use crate::keys::{Key, Mapping, Options as _, options, refused, row};
use crate::values::{Arguments, BatchingRule};

options! {
    /// An executor's config.
    struct ConfigOptions, ConfigTable CONFIG {
        jtype: String = row(
            forms::TEXT,
            "The executor's type: of a built-in executor, or of a Python class.",
        )
            .example("SentenceEncoder");
        version: () = row(forms::VERSION, "Version of the format.")
            .default("`1`")
            .example("'1'");
        with: Arguments = row(
            forms::ARGUMENTS,
            "Options that the executor is built with; `uses_with` of the flow overrides them.",
        )
            .default("empty")
            .example("{device: cpu}");
        metas: Map<String, Value> = row(forms::OBJECT, "Name, description, keywords and version.")
            .default("empty")
            .example("{name: encoder, description: Encodes sentences}");
        requests: IndexMap<String, String> = row(forms::REQUESTS, "Endpoint → method.")
            .default("the executor's own")
            .example("{/embed: /encode}");
        workspace: String = row(
            forms::TEXT,
            "Folder for files of the executor; a relative path starts at the flow file.",
        )
            .default("the flow's `workspace`")
            .example("data");
        dynamic_batching: IndexMap<String, BatchingRule> = row(
            forms::BATCHING,
            "Endpoint or method → how requests share calls.",
        )
            .default("the executor's own")
            .example("{/encode: {preferred_batch_size: 32, timeout: 10}}");
    }
}

pub(crate) const CONFIG_UNSUPPORTED: &[&Key] = &[&refused("py_modules", &[], IN_A_FILE)];

/// Keys of an executor's `config.yml`.
pub(crate) static CONFIG_MAPPING: Mapping = Mapping {
    what: "a key of an executor's config",
    tables: &[ConfigOptions::KEYS, CONFIG_UNSUPPORTED],
};
