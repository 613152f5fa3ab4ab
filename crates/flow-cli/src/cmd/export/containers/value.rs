//! Values of options about one node: `NODE=VALUE`.

use std::str::FromStr;

/// A node's name and its value.
pub(super) fn node_value<T: FromStr>(text: &str) -> Result<(String, T), String>
where
    T::Err: ToString,
{
    let (name, value) = text.split_once('=').ok_or("needs the form `NODE=VALUE`")?;
    let value = value.parse().map_err(|error: T::Err| error.to_string())?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_value_starts_with_the_name_of_the_node() {
        let check = |text: &str, expected: Result<(&str, &str), &str>| {
            let found = node_value::<String>(text);
            let found = found
                .as_ref()
                .map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(found.map_err(String::as_str), expected);
        };
        check("encoder=team/encoder:1", Ok(("encoder", "team/encoder:1")));
        check("encoder=a=b", Ok(("encoder", "a=b")));
        check("encoder", Err("needs the form `NODE=VALUE`"));
    }
}
