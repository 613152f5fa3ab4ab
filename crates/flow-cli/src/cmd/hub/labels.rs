//! The labels of an executor's image, which hubs search, and from which flows know what they start.

use std::collections::BTreeMap;

use flow_docker::labels::{IMAGE_DEVICES, IMAGE_EXECUTOR, IMAGE_KEYWORDS, IMAGE_WIRE, WIRE};
use serde_json::{Map, Value};

/// Labels of the Open Container Initiative.
pub(super) const TITLE: &str = "org.opencontainers.image.title";
pub(super) const DESCRIPTION: &str = "org.opencontainers.image.description";
pub(super) const VERSION: &str = "org.opencontainers.image.version";
pub(super) const URL: &str = "org.opencontainers.image.url";

/// The labels of an executor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labels(pub(super) BTreeMap<String, String>);

impl Labels {
    /// The labels for the `metas` of a `config.yml`.
    pub(super) fn of_metas(metas: &Map<String, Value>) -> Self {
        let mut labels = Self::default();
        let text = |key: &str| metas.get(key).and_then(Value::as_str);
        labels.put(TITLE, text("name"));
        labels.put(DESCRIPTION, text("description"));
        labels.put(VERSION, text("version"));
        labels.put(URL, text("url"));
        let words = metas.get("keywords").map(words);
        labels.put(IMAGE_KEYWORDS, words.as_deref());
        labels
    }

    /// Sets a label, unless its value is empty.
    pub(super) fn put(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|it| !it.is_empty()) {
            self.0.insert(label.to_owned(), value.to_owned());
        }
    }

    /// Marks an image that takes the arguments of `flow executor`.
    pub(super) fn put_wire(&mut self) {
        self.put(IMAGE_WIRE, Some(WIRE));
    }

    /// Sets the name in hubs.
    pub(super) fn put_executor(&mut self, name: &str) {
        self.put(IMAGE_EXECUTOR, Some(name));
    }

    /// Sets the keywords.
    pub(super) fn put_keywords(&mut self, words: &[String]) {
        self.put(IMAGE_KEYWORDS, Some(&words.join(",")));
    }

    /// Sets the devices that it computes on.
    pub(super) fn put_devices(&mut self, devices: &[String]) {
        self.put(IMAGE_DEVICES, Some(&devices.join(",")));
    }

    /// The value of a label; empty if it is not set.
    pub(super) fn get(&self, label: &str) -> &str {
        self.0.get(label).map_or("", String::as_str)
    }
}

/// Keywords as a list, or as a text with commas or blanks between.
fn words(keywords: &Value) -> String {
    let words: Vec<&str> = match keywords {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        Value::String(text) if text.contains(',') => text.split(',').map(str::trim).collect(),
        Value::String(text) => text.split_whitespace().collect(),
        _ => Vec::new(),
    };
    words.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metas_become_labels() {
        let check = |metas: &Value, expected: &Value| {
            let labels = Labels::of_metas(metas.as_object().unwrap());
            assert_eq!(json!(labels.0), *expected);
        };
        check(&json!({}), &json!({}));
        check(
            &json!({"name": "Shout", "description": "", "keywords": ["a", "b"], "url": "u"}),
            &json!({(TITLE): "Shout", (URL): "u", (IMAGE_KEYWORDS): "a,b"}),
        );
        check(
            &json!({"keywords": "a, b c"}),
            &json!({(IMAGE_KEYWORDS): "a,b c"}),
        );
        check(
            &json!({"keywords": "a b"}),
            &json!({(IMAGE_KEYWORDS): "a,b"}),
        );
    }
}
