//! The name of an executor in its three notations.

/// A name that is valid for a type, a package and a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    /// `MyExecutor`, for the type.
    pub(super) camel: String,
    /// `my-executor`, for the package, the program, the folder and the node.
    pub(super) kebab: String,
}

/// Names that the templates or their dependencies use.
const TAKEN: &[&str] = &[
    "call-error",
    "core",
    "doc-list",
    "document",
    "endpoints",
    "executor",
    "flow-executor",
    "gateway",
    "load-context",
    "load-error",
    "ok",
    "option",
    "parameters",
    "result",
    "self",
    "serde",
    "serde-json",
    "std",
    "string",
    "test",
    "text-doc",
    "with",
];

impl Name {
    /// Parses `MyExecutor`, `my-executor` or `my_executor`.
    ///
    /// # Errors
    ///
    /// If it is not a name, or is taken.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_letter = |it: char| it.is_ascii_alphanumeric();
        let is_name = text.starts_with(|it: char| it.is_ascii_alphabetic())
            && text
                .chars()
                .all(|it| is_letter(it) || it == '-' || it == '_');
        if !is_name {
            return Err(format!(
                "`{text}` is not a name: write letters and digits, as in `MyExecutor`"
            ));
        }
        let camel: String = text.split(['-', '_']).map(capitalised).collect();
        let name = Self {
            kebab: kebab(&camel),
            camel,
        };
        if TAKEN.contains(&name.kebab.as_str()) {
            return Err(taken(text));
        }
        Ok(name)
    }

    /// Refuses the name of a built-in executor, whose package in Rust it would be.
    ///
    /// # Errors
    ///
    /// If it is one.
    pub(super) fn check_not_built_in(&self) -> Result<(), String> {
        match crate::builtin::find(&self.kebab) {
            Some(_) => Err(taken(&self.camel)),
            None => Ok(()),
        }
    }

    /// `my_executor`, for the crate.
    pub(super) fn snake(&self) -> String {
        self.kebab.replace('-', "_")
    }
}

fn taken(name: &str) -> String {
    format!("`{name}` is taken: choose another name")
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Each capital letter begins a word, as in the `jtype` of a `config.yml`.
fn kebab(camel: &str) -> String {
    let mut kebab = String::new();
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_three_notations() {
        let check = |text: &str, camel: &str, kebab: &str, snake: &str| {
            let name = Name::parse(text).unwrap();
            assert_eq!((name.camel.as_str(), name.kebab.as_str()), (camel, kebab));
            assert_eq!(name.snake(), snake);
        };
        check("MyExecutor", "MyExecutor", "my-executor", "my_executor");
        check("my-executor", "MyExecutor", "my-executor", "my_executor");
        check("my_executor", "MyExecutor", "my-executor", "my_executor");
        check("Shout2", "Shout2", "shout2", "shout2");
        check("shout", "Shout", "shout", "shout");
    }

    #[test]
    fn an_invalid_or_taken_name_is_refused() {
        let check = |text: &str, part: &str| {
            let error = Name::parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check("", "is not a name");
        check("2fast", "is not a name");
        check("a b", "is not a name");
        check("a/b", "is not a name");
        check("Document", "is taken");
    }

    #[test]
    fn the_name_of_a_built_in_executor_can_be_refused() {
        let check = |text| Name::parse(text).unwrap().check_not_built_in();
        for text in ["Echo", "sentence_encoder"] {
            assert!(check(text).unwrap_err().contains("is taken"), "{text}");
        }
        assert_eq!(check("MyExecutor"), Ok(()));
    }
}
