//! The `config.yml` of an executor in Python.
//!
//! It may have keys that only Jina knows, and names what does not exist here. So nothing is checked but that it is YAML:
//! the executor's own process says what it cannot use.

use flow_core::Secret;
use serde_json::{Map, Value};

use crate::context::TextFile;
use crate::diagnostics::Diagnostics;
use crate::error::LoadError;
use crate::forms::{OBJECT, TEXT, TEXTS};
use crate::keys::CONFIG;
use crate::yaml::{self, Variables, YamlNode, substitute};

/// What the `config.yml` of an executor in Python contains.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PythonConfig {
    /// The name of its class.
    pub jtype: String,
    /// The files and modules to import.
    pub py_modules: Vec<String>,
    /// What it is built with.
    pub with: Secret<Map<String, Value>>,
    /// Name, description and the like.
    pub metas: Map<String, Value>,
    /// Endpoint → name of the method.
    pub requests: Map<String, Value>,
    /// Endpoint or method → how requests to it share calls.
    pub batching: Map<String, Value>,
    /// Folder for its files.
    pub workspace: Option<String>,
}

impl PythonConfig {
    /// Reads a `config.yml`.
    ///
    /// # Errors
    ///
    /// If the text is not YAML.
    pub fn load(file: TextFile<'_>, variables: &Variables) -> Result<Self, LoadError> {
        let root = yaml::parse(file.text).map_err(|source| LoadError::Syntax {
            path: file.path.to_owned(),
            source,
        })?;
        let root = substitute(root, variables, &mut Diagnostics::default());
        Ok(Self::read(&root))
    }

    fn read(root: &YamlNode) -> Self {
        let ignored = &mut Diagnostics::default();
        let mut text = |name: &str| root.get(name).and_then(|it| (TEXT.read)(it, ignored));
        let jtype = text(CONFIG.jtype.name());
        let workspace = text(CONFIG.workspace.name());
        let object = |name: &str| {
            let object = root.get(name);
            let object = object.and_then(|it| (OBJECT.read)(it, &mut Diagnostics::default()));
            object.unwrap_or_default()
        };
        let metas = object(CONFIG.metas.name());
        Self {
            jtype: jtype.or_else(|| root.tag.clone()).unwrap_or_default(),
            py_modules: py_modules(root),
            with: Secret::new(object(CONFIG.with.name())),
            requests: object(CONFIG.requests.name()),
            batching: object("dynamic_batching"),
            metas,
            workspace,
        }
    }
}

/// One name or a list of them, at the top or below `metas`.
fn py_modules(root: &YamlNode) -> Vec<String> {
    let of = |node: &YamlNode| node.get("py_modules").cloned();
    let below = || root.get(CONFIG.metas.name()).and_then(of);
    let Some(node) = of(root).or_else(below) else {
        return Vec::new();
    };
    let names = (TEXTS.read)(&node, &mut Diagnostics::default());
    let names = names.unwrap_or_default().into_iter();
    names.map(|name| name.value).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn load(text: &str) -> PythonConfig {
        let variables = Variables {
            env: [("DEVICE".to_owned(), "cuda".to_owned())].into(),
            ..Variables::default()
        };
        let path = Path::new("config.yml");
        PythonConfig::load(TextFile { path, text }, &variables).unwrap()
    }

    #[test]
    fn keys_for_the_runtime_are_read_and_others_are_ignored() {
        let config = load(
            "jtype: Mine\npy_modules: [a.py, b.py]\nof_jina_s: 1\nwith: {device: '${{ ENV.DEVICE }}', k: 3}\n\
             requests: {/x: foo}\ndynamic_batching: {foo: {preferred_batch_size: 2}}\nworkspace: w",
        );
        assert_eq!(
            (config.jtype.as_str(), config.workspace.as_deref()),
            ("Mine", Some("w"))
        );
        assert_eq!(config.py_modules, ["a.py", "b.py"]);
        assert_eq!(
            Value::from(config.with.into_revealed()),
            json!({"device": "cuda", "k": 3})
        );
        assert_eq!(Value::from(config.requests), json!({"/x": "foo"}));
        assert_eq!(
            Value::from(config.batching),
            json!({"foo": {"preferred_batch_size": 2}})
        );
    }

    #[test]
    fn older_configs_have_a_tag_and_name_modules_below_metas() {
        let config = load("!Mine\nmetas:\n  py_modules: a.py");
        assert_eq!(config.jtype, "Mine");
        assert_eq!(config.py_modules, ["a.py"]);
    }
}
