//! An executor's name in the three ways in which it is written.

/// A name that a type, a package and a crate can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    /// `MyExecutor`: the type.
    pub(super) camel: String,
    /// `my-executor`: the package, the program, the folder, the node.
    pub(super) kebab: String,
}

/// What the code that is written names already, and packages that it stands on.
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
    /// Reads `MyExecutor`, `my-executor` or `my_executor`.
    ///
    /// # Errors
    ///
    /// If it is no name, or would clash with another.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_letter = |it: char| it.is_ascii_alphanumeric();
        let is_name = text.starts_with(|it: char| it.is_ascii_alphabetic())
            && text
                .chars()
                .all(|it| is_letter(it) || it == '-' || it == '_');
        if !is_name {
            return Err(format!(
                "`{text}` is no name: write letters and digits, as in `MyExecutor`"
            ));
        }
        let camel: String = text.split(['-', '_']).map(capitalised).collect();
        let name = Self {
            kebab: kebab(&camel),
            camel,
        };
        let is_built_in = crate::builtin::find(&name.kebab).is_some();
        if is_built_in || TAKEN.contains(&name.kebab.as_str()) {
            return Err(format!("`{text}` is taken: choose another name"));
        }
        Ok(name)
    }

    /// `my_executor`: the crate.
    pub(super) fn snake(&self) -> String {
        self.kebab.replace('-', "_")
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// As `config.yml` is read: each capital begins a word.
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
    fn a_name_is_written_in_three_ways() {
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
    fn what_is_no_name_or_is_taken_is_refused() {
        let check = |text: &str, part: &str| {
            let told = Name::parse(text).unwrap_err();
            assert!(told.contains(part), "{told}");
        };
        check("", "is no name");
        check("2fast", "is no name");
        check("a b", "is no name");
        check("a/b", "is no name");
        check("Echo", "is taken");
        check("sentence_encoder", "is taken");
        check("Document", "is taken");
    }
}
