//! What `uses` names: a program, an executor of a hub, or the config of an executor.

use std::path::PathBuf;

use flow_core::Secret;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::hub::HubName;
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};
use crate::keys::{CONFIG, CONFIG_MAPPING, ConfigOptions, Options as _, Section};
use crate::values::{ArgumentSpans, BatchingRule, Uses};
use crate::yaml::YamlNode;

/// What `uses` says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Program {
    Named(Uses),
    /// The config of an executor, in place of its name.
    Config(Box<ConfigSpec>),
    Hub(HubName),
}

/// What an executor's `config.yml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// The executor, by the name of its type.
    pub jtype: String,
    /// What it is built with; a flow's `uses_with` overrides it, key by key.
    pub with: Secret<Map<String, Value>>,
    /// Name, description and the like.
    pub metas: Map<String, Value>,
    /// Endpoint → name of the method.
    pub requests: IndexMap<String, String>,
    /// Endpoint or method → how requests to it share calls.
    pub batching: IndexMap<String, BatchingRule>,
    /// Folder for its files.
    pub workspace: Option<PathBuf>,
    /// It names Python modules (`py_modules`). Jina reads such a config; only its type and `metas` are read here.
    pub is_python: bool,
}

/// A config with the spans of what may be wrong with it.
#[derive(Debug, Clone)]
pub(crate) struct ConfigSpec {
    pub(crate) config: ExecutorConfig,
    /// Where it says which executor it is for.
    pub(crate) jtype: SourceSpan,
    pub(crate) with_spans: ArgumentSpans,
}

impl PartialEq for ConfigSpec {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl ExecutorConfig {
    /// The program of the executor: `SentenceEncoder` is `sentence-encoder`.
    #[must_use]
    pub fn uses(&self) -> Uses {
        match self.jtype.as_str() {
            "BaseExecutor" => Uses::pass_through(),
            jtype => Uses::Named(kebab(jtype)),
        }
    }

    /// Whether it only says which executor it is for.
    pub(crate) fn is_bare(&self) -> bool {
        let jtype = self.jtype.clone();
        *self
            == Self {
                jtype,
                ..Self::default()
            }
    }
}

impl ConfigSpec {
    /// Reads a config from the root of its file, or from its mapping in a flow file.
    pub(crate) fn read(root: &YamlNode, diagnostics: &mut Diagnostics) -> Self {
        let section = Section::read(Some(root), &CONFIG_MAPPING, diagnostics);
        let written = ConfigOptions::read(&section, diagnostics);
        if root.get(CONFIG.jtype.name()).is_none_or(YamlNode::is_null) && root.tag.is_none() {
            let message = "the config does not say which executor it is for";
            let problem = Problem::new(&root.span, message);
            diagnostics.problem(problem.remedy("write `jtype:` and its name at the top"));
        }
        let (jtype, jtype_span) = match written.jtype {
            Some(jtype) => (jtype.value, jtype.span),
            None => (root.tag.clone().unwrap_or_default(), root.span.clone()),
        };
        let with = written.with.map(|with| with.value).unwrap_or_default();
        let config = ExecutorConfig {
            jtype,
            with: with.values,
            metas: written.metas.map(|it| it.value).unwrap_or_default(),
            requests: written.requests.map(|it| it.value).unwrap_or_default(),
            batching: written
                .dynamic_batching
                .map(|it| it.value)
                .unwrap_or_default(),
            workspace: written.workspace.map(|it| it.value.into()),
            is_python: false,
        };
        Self {
            config,
            jtype: jtype_span,
            with_spans: with.spans,
        }
    }
}

/// A type's name in the form of programs' names.
fn kebab(jtype: &str) -> String {
    let mut name = String::new();
    for letter in jtype.chars() {
        if letter.is_uppercase() && !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
