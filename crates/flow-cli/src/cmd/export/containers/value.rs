//! Values of options: `NODE=VALUE` about a node, and `KEY=SECRET` about a file of the gateway.

use std::str::FromStr;

/// The keys of the flow file whose files can be secrets.
const SECRET_KEYS: [&str; 4] = ["ssl_certfile", "ssl_keyfile", "ssl_ca_certs", "api_keys"];

/// A key of the flow file, and the secret with its file.
pub(super) fn secret(text: &str) -> Result<(String, String), String> {
    let (key, name) = text.split_once('=').ok_or("needs the form `KEY=SECRET`")?;
    if name.is_empty() {
        return Err("needs the form `KEY=SECRET`".to_owned());
    }
    if !SECRET_KEYS.contains(&key) {
        return Err(format!("`{key}` is none of {}", SECRET_KEYS.join(", ")));
    }
    Ok((key.to_owned(), name.to_owned()))
}

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

    #[test]
    fn a_secret_is_for_a_file_of_the_gateway() {
        let found = secret("api_keys=flow-keys").unwrap();
        assert_eq!(found, ("api_keys".to_owned(), "flow-keys".to_owned()));
        for wrong in ["", "api_keys", "api_keys=", "ssl=x"] {
            assert!(secret(wrong).is_err(), "{wrong}");
        }
    }
}
