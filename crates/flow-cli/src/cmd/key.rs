//! `flow key`: creates, lists and revokes the API keys of a gateway.
//!
//! The file has hashes of the keys. A key itself is printed once, when it is created.

mod storage;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use flow_gateway::auth::{KeyEntry, KeyFile};

use crate::exit::{BadUsage, Exit};
use crate::output::{self, Painter, columns};
use crate::shell::Shell;
use crate::table::Table;

const EXAMPLES: &str = "\
EXAMPLES:
  flow key new search-team --file keys.yml
  flow key new guest --file keys.yml --endpoint /encode --requests-per-second 5 --expires-in 30d
  flow key list --file keys.yml
  flow key revoke guest --file keys.yml

A gateway with `api_keys: keys.yml` follows changes of the file while it runs.

Exit codes: 0 success, 1 the file cannot be read or written, 2 bad usage.";

const LIST_EXAMPLES: &str = "\
EXAMPLES:
  flow key list
  flow key list --file team-keys.yml

Exit codes: 0 success, 1 the file cannot be read or written, 2 bad usage.";

const REVOKE_EXAMPLES: &str = "\
EXAMPLES:
  flow key revoke alice

Exit codes: 0 success, 1 the file cannot be read or written, 2 bad usage.";

/// Bytes of a key: too many to be guessed, so that one round of SHA-256 is enough for the hash.
const KEY_LEN: usize = 32;

/// What every key begins with, so that programs that search for secrets find it.
const PREFIX: &str = "flow_";

/// Manage the API keys of a gateway.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Key {
    /// Create a key, and print it once
    #[command(after_help = EXAMPLES)]
    New(New),
    /// List the keys with what they allow
    #[command(after_help = LIST_EXAMPLES)]
    List(File),
    /// Remove a key, so that requests with it are refused
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(Revoke),
}

/// The file with the keys.
#[derive(Debug, Args)]
pub(crate) struct File {
    /// File with the keys
    #[arg(long = "file", value_name = "FILE", default_value = "keys.yml")]
    path: PathBuf,
}

/// Options of `flow key new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Name of the key, such as its owner or its purpose
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    file: File,
    /// Allow only this endpoint, or with a `*` at the end all that begin so; can be given several times
    #[arg(long = "endpoint", value_name = "/ENDPOINT")]
    endpoints: Vec<String>,
    /// Maximum number of requests per second [default: no limit]
    #[arg(long, value_name = "N")]
    requests_per_second: Option<f64>,
    /// Maximum number of documents from midnight to midnight UTC [default: no limit]
    #[arg(long, value_name = "N")]
    documents_per_day: Option<u64>,
    /// Maximum number of tokens that models read from midnight to midnight UTC [default: no limit]
    #[arg(long, value_name = "N")]
    tokens_per_day: Option<u64>,
    /// Let the key expire after this time, such as 12h or 30d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    expires_in: Option<Duration>,
}

/// Options of `flow key revoke`.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Name of the key
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    file: File,
}

pub(crate) fn run(key: Key, shell: &Shell) -> anyhow::Result<Exit> {
    match key {
        Key::New(new) => create(&new)?,
        Key::List(file) => list(&read(&file)?, shell)?,
        Key::Revoke(revoke) => remove(&revoke)?,
    }
    Ok(Exit::Fine)
}

fn create(new: &New) -> anyhow::Result<()> {
    let _lock = storage::lock(&new.file.path)?;
    let mut keys = storage::read_or_new(&new.file.path)?;
    if keys.keys.iter().any(|it| it.name == new.name) {
        let (name, path) = (&new.name, new.file.path.display());
        bail!(BadUsage(format!(
            "`{path}` has a key `{name}` already; revoke it, or choose another name"
        )));
    }
    let key = random_key()?;
    let endpoints = (!new.endpoints.is_empty()).then(|| new.endpoints.clone());
    let now = SystemTime::now();
    let entry = KeyEntry {
        endpoints,
        requests_per_second: new.requests_per_second,
        documents_per_day: new.documents_per_day,
        tokens_per_day: new.tokens_per_day,
        expires: new.expires_in.and_then(|time| now.checked_add(time)),
        ..KeyEntry::new(&new.name, &key)
    };
    entry.check().map_err(BadUsage)?;
    keys.keys.push(entry);
    storage::write(&new.file.path, &keys)?;
    output::error_line("the key is shown only once; the file stores its hash");
    Ok(output::line(&key)?)
}

fn random_key() -> anyhow::Result<String> {
    let mut bytes = [0; KEY_LEN];
    getrandom::fill(&mut bytes).context("cannot get random numbers from the system")?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

fn remove(revoke: &Revoke) -> anyhow::Result<()> {
    let _lock = storage::lock(&revoke.file.path)?;
    let mut keys = read(&revoke.file)?;
    let before = keys.keys.len();
    keys.keys.retain(|it| it.name != revoke.name);
    let (name, path) = (&revoke.name, revoke.file.path.display());
    if keys.keys.len() == before {
        let known: Vec<String> = keys
            .keys
            .iter()
            .map(|it| format!("`{}`", it.name))
            .collect();
        let known = known.join(", ");
        bail!(BadUsage(format!(
            "`{path}` has no key `{name}`; it has: {known}"
        )));
    }
    storage::write(&revoke.file.path, &keys)?;
    Ok(output::line(&format!("`{name}` is revoked"))?)
}

fn read(file: &File) -> anyhow::Result<KeyFile> {
    KeyFile::read(&file.path).with_context(|| BadUsage("cannot use the keys".to_owned()))
}

fn list(keys: &KeyFile, shell: &Shell) -> anyhow::Result<()> {
    let head = [
        "Key",
        "Endpoints",
        "Requests/s",
        "Documents/day",
        "Tokens/day",
        "Expires",
    ];
    let table = Table {
        head: Some(head.map(str::to_owned).to_vec()),
        rows: keys.keys.iter().map(row).collect(),
    };
    let text = table.text(Painter::stdout(shell), columns(std::io::stdout()));
    Ok(output::bytes(text.as_bytes())?)
}

fn row(key: &KeyEntry) -> Vec<String> {
    let number = |it: Option<String>| it.unwrap_or_else(|| "any".to_owned());
    let expires = key.expires.map(|time| {
        let is_over = time <= SystemTime::now();
        let time = humantime::format_rfc3339_seconds(time);
        format!("{time}{}", if is_over { " (expired)" } else { "" })
    });
    vec![
        key.name.clone(),
        key.endpoints
            .as_ref()
            .map_or("all".to_owned(), |it| it.join(" ")),
        number(key.requests_per_second.map(|it| it.to_string())),
        number(key.documents_per_day.map(|it| it.to_string())),
        number(key.tokens_per_day.map(|it| it.to_string())),
        expires.unwrap_or_else(|| "never".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_and_differ() {
        let (one, other) = (random_key().unwrap(), random_key().unwrap());
        assert_ne!(one, other);
        // 256 bits are 43 characters of base64.
        assert_eq!(one.len(), PREFIX.len() + 43);
        assert!(flow_net::ApiKey::new(&one).is_ok());
    }
}
