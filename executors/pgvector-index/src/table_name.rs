//! Parses and quotes the names of tables.

use serde::Deserialize;

/// Maximum length of a name in bytes. PostgreSQL allows 63, and the names of a table's indexes are longer than its own.
const NAME_LEN_MAX: usize = 48;

/// The name of a table, with or without a schema.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct TableName {
    schema: Option<String>,
    name: String,
}

/// The error for an invalid table name.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is not a valid name of a table: write letters, digits and `_`, not a digit first and at most {NAME_LEN_MAX} of them, and the schema before it if there is one, as in `search.documents`"
)]
pub struct BadTableName(String);

impl TryFrom<String> for TableName {
    type Error = BadTableName;

    fn try_from(text: String) -> Result<Self, BadTableName> {
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, text.as_str()),
        };
        match is_name(name) && schema.is_none_or(is_name) {
            true => Ok(Self {
                schema: schema.map(str::to_owned),
                name: name.to_owned(),
            }),
            false => Err(BadTableName(text)),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = text.bytes().next();
    first.is_some_and(|byte| !byte.is_ascii_digit())
        && text.len() <= NAME_LEN_MAX
        && text.bytes().all(is_part)
}

impl TableName {
    /// Returns the default table of an executor. Its replicas, with names such as `index/rep-1`, share the table.
    pub(crate) fn of_executor(name: &str) -> Self {
        let name = name.split('/').next().unwrap_or_default();
        let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
        let name = format!("flow_{name}");
        Self {
            schema: None,
            name: name.chars().map(letter).take(NAME_LEN_MAX).collect(),
        }
    }

    /// Returns the table of a shard. Each shard has its own table.
    pub(crate) fn of_shard(mut self, shard: u16) -> Self {
        self.name = format!("{}_{shard}", self.name);
        self
    }

    /// Returns the quoted name, for statements.
    pub(crate) fn quoted(&self) -> String {
        self.with_schema(&self.name)
    }

    /// Returns another name in the same schema, quoted for statements.
    pub(crate) fn with_schema(&self, name: &str) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{name}\""),
            None => format!("\"{name}\""),
        }
    }

    /// Returns the name without the schema.
    pub(crate) fn own(&self) -> &str {
        &self.name
    }

    /// Returns the name without quotes, for messages.
    pub(crate) fn shown(&self) -> String {
        self.quoted().replace('"', "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<String, String> {
        let name = TableName::try_from(text.to_owned());
        name.map(|name| name.quoted()).map_err(|it| it.to_string())
    }

    #[test]
    fn a_table_has_a_plain_name_and_is_quoted() {
        assert_eq!(name("Docs_2").unwrap(), r#""Docs_2""#);
        assert_eq!(name("search.order").unwrap(), r#""search"."order""#);
        let longest = "x".repeat(NAME_LEN_MAX);
        assert!(name(&longest).is_ok());
        for bad in [
            "",
            "2docs",
            "a.b.c",
            ".a",
            "a.",
            "a b",
            "a\"; --",
            "é",
            &format!("{longest}x"),
        ] {
            let error = name(bad).unwrap_err();
            assert!(
                error.starts_with(&format!("`{bad}` is not a valid name of a table")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_executor_and_each_of_its_shards_have_tables_of_their_own() {
        let own = TableName::of_executor("my-index");
        assert_eq!(own.shown(), "flow_my_index");
        assert_eq!(TableName::of_executor("my-index/rep-1"), own);
        assert_eq!(own.of_shard(3).shown(), "flow_my_index_3");
        let long = TableName::of_executor(&"é".repeat(99));
        assert!(is_name(&long.name), "{long:?}");
    }
}
