//! Arguments of a container, whose secrets are left out: references to variables stand for them. Pure.

use std::collections::BTreeSet;

use flow_core::{Secret, has_password, is_secret_name};
use flow_spec::Env;
use serde_json::{Map, Value};

/// What the name of each variable begins with that stands for an option of an executor.
pub(crate) const OPTION_PREFIX: &str = "USES_WITH_";

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// A secret, and the name of the variable that stands for it.
    Secret(String, Secret),
}

impl Argument {
    /// The options of an executor as JSON. Each secret among them gets a variable whose name is not in `taken`, with a value that
    /// fits between the quotes of a text of JSON.
    pub(crate) fn of_options(with: &Map<String, Value>, taken: &Env) -> Self {
        let mut writer = OptionsWriter {
            pieces: Vec::new(),
            names: taken.keys().cloned().collect(),
        };
        writer.object(with, "", false);
        Self(writer.pieces)
    }

    /// The argument, with its text and its references to variables in the form of a target.
    pub(crate) fn render(
        &self,
        literal: impl Fn(&str) -> String,
        reference: impl Fn(&str) -> String,
    ) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => literal(text),
            Piece::Secret(variable, _) => reference(variable),
        });
        pieces.collect()
    }

    /// The variables, and what they stand for.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Secret(variable, value) => Some((variable.as_str(), value)),
        })
    }
}

impl From<String> for Argument {
    fn from(text: String) -> Self {
        Self(vec![Piece::Text(text)])
    }
}

struct OptionsWriter {
    pieces: Vec<Piece>,
    /// The names of variables that have another meaning.
    names: BTreeSet<String>,
}

impl OptionsWriter {
    /// Writes a value. It is at this path, and it or something around it has the name of a secret, or not.
    fn value(&mut self, value: &Value, path: &str, is_secret: bool) {
        match value {
            Value::Object(map) => self.object(map, path, is_secret),
            Value::Array(items) => self.list(items, path, is_secret),
            Value::String(text) if !text.is_empty() && (is_secret || has_password(text)) => {
                let json = value.to_string();
                self.text("\"");
                self.secret(path, json[1..json.len() - 1].to_owned());
                self.text("\"");
            }
            Value::Number(number) if is_secret => self.secret(path, number.to_string()),
            Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
                self.text(&value.to_string());
            }
        }
    }

    fn object(&mut self, map: &Map<String, Value>, path: &str, is_secret: bool) {
        for (number, (key, value)) in map.iter().enumerate() {
            self.text(if number == 0 { "{" } else { "," });
            self.text(&Value::from(key.as_str()).to_string());
            self.text(":");
            let is_secret = is_secret || is_secret_name(key);
            self.value(value, &below(path, key), is_secret);
        }
        self.text(if map.is_empty() { "{}" } else { "}" });
    }

    fn list(&mut self, items: &[Value], path: &str, is_secret: bool) {
        for (number, item) in items.iter().enumerate() {
            self.text(if number == 0 { "[" } else { "," });
            self.value(item, &below(path, &number.to_string()), is_secret);
        }
        self.text(if items.is_empty() { "[]" } else { "]" });
    }

    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            Some(Piece::Secret(..)) | None => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn secret(&mut self, path: &str, value: String) {
        let name = variable(OPTION_PREFIX, path);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !self.names.contains(name));
        let free = free.expect("there is always another number");
        self.names.insert(free.clone());
        self.pieces.push(Piece::Secret(free, Secret::new(value)));
    }
}

fn below(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path}_{key}"),
    }
}

/// The name of a variable for what has this name.
pub(crate) fn variable(prefix: &str, name: &str) -> String {
    let name = name.to_ascii_uppercase();
    let name = name.replace(|it: char| !it.is_ascii_alphanumeric(), "_");
    format!("{prefix}{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(with: &Value, taken: &Env) -> String {
        let argument = Argument::of_options(with.as_object().unwrap(), taken);
        assert!(!format!("{argument:?}").contains("hunter2"), "{argument:?}");
        argument.render(str::to_owned, |variable| format!("<{variable}>"))
    }

    #[test]
    fn options_without_secrets_are_the_same_json() {
        for with in [
            json!({}),
            json!({"a": "x\"y", "b": [1, 2.5, null, []], "c": {"d": true, "e": {}}, "token": "", "use_key": true}),
            json!({"url": "postgres://user@host/database"}),
        ] {
            assert_eq!(rendered(&with, &Env::new()), with.to_string());
        }
    }

    #[test]
    fn references_stand_for_secrets() {
        let with = json!({
            "api_key": "hunter2", "db": {"password": "hunter2", "pin-key": 5, "host": "h"},
            "token": ["hunter2", {"a": "hunter2"}], "url": "redis://u:hunter2@h",
        });
        let expected = r#"{"api_key":"<USES_WITH_API_KEY>","db":{"password":"<USES_WITH_DB_PASSWORD>","pin-key":<USES_WITH_DB_PIN_KEY>,"host":"h"},"token":["<USES_WITH_TOKEN_0>",{"a":"<USES_WITH_TOKEN_1_A>"}],"url":"<USES_WITH_URL>"}"#;
        assert_eq!(rendered(&with, &Env::new()), expected);
    }

    #[test]
    fn each_secret_has_a_variable_of_its_own() {
        let with = json!({"a_key": "1", "a-key": "2", "b_key": "3"});
        let taken = Env::from([("USES_WITH_B_KEY".to_owned(), "4".to_owned())]);
        let expected = r#"{"a_key":"<USES_WITH_A_KEY>","a-key":"<USES_WITH_A_KEY_2>","b_key":"<USES_WITH_B_KEY_2>"}"#;
        assert_eq!(rendered(&with, &taken), expected);
    }

    #[test]
    fn the_value_of_a_variable_fits_between_quotes() {
        let with = json!({"key": "a\"b\\c"});
        let argument = Argument::of_options(with.as_object().unwrap(), &Env::new());
        let values: Vec<_> = argument.secrets().collect();
        assert_eq!(values[0].1.reveal(), r#"a\"b\\c"#);
    }
}
