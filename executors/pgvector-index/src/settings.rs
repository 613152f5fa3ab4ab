//! Builds the settings of a connection from the options and from environment variables, which keep secrets out of flow files.

use std::collections::BTreeMap;
use std::time::Duration;

use flow_executor::LoadError;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::options::{IndexKind, Url, With};
use crate::tls::Tls;

/// The environment variable with the URL. It applies if the options have no `url`.
pub const URL_VARIABLE: &str = "PGVECTOR_URL";

/// The environment variable with the password. It applies if the URL has no password. `psql` reads it too.
pub const PASSWORD_VARIABLE: &str = "PGPASSWORD";

/// TCP keepalive: the idle time before the first probe, the interval between probes, and the number of lost probes that end a
/// connection. With these values, a dead server is detected within 30 seconds.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// The settings of a connection.
pub(crate) struct ConnectionSettings {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    /// Host, port and database, for messages.
    pub(crate) server: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    /// Statements to run at the start of each session.
    pub(crate) session: String,
}

impl ConnectionSettings {
    pub(crate) fn new(
        with: &With,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, LoadError> {
        let config = config(with, environment)?;
        Ok(Self {
            tls: Tls::load(with.ca.clone())?,
            server: server(&config),
            connect_timeout: with.connect_timeout,
            statement_timeout: with.statement_timeout,
            session: session(with),
            config,
        })
    }
}

fn config(with: &With, environment: &BTreeMap<String, String>) -> Result<Config, LoadError> {
    let variable = environment.get(URL_VARIABLE).filter(|url| !url.is_empty());
    let url = with.url.clone().or(variable.cloned().map(Url::new));
    let url = url.ok_or_else(|| {
        LoadError::new(format!(
            "no database: set the option `url` or the variable `{URL_VARIABLE}` to an address such as `postgres://user@host/database`"
        ))
    })?;
    let mut config = url.parse()?;
    if config.get_password().is_none()
        && let Some(password) = environment.get(PASSWORD_VARIABLE)
    {
        config.password(password);
    }
    if config.get_application_name().is_none() {
        config.application_name("flow pgvector-index");
    }
    config
        .connect_timeout(with.connect_timeout)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES);
    Ok(config)
}

/// Returns hosts, ports and database, without user and password.
fn server(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate();
    let hosts = hosts.map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).unwrap_or(&5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            Host::Unix(folder) => format!("{}/.s.PGSQL.{port}", folder.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let hosts = hosts.join(",");
    match config.get_dbname().or(config.get_user()) {
        Some(database) => format!("{hosts}/{database}"),
        None => hosts,
    }
}

fn session(with: &With) -> String {
    let millis = with.statement_timeout.as_millis();
    let mut statements = vec![
        format!("SET statement_timeout = {millis}"),
        // Whether the graph is faster depends on the number of matches. A generic plan, for any number, would not use it.
        "SET plan_cache_mode = force_custom_plan".to_owned(),
        "SET client_min_messages = warning".to_owned(),
    ];
    if with.index == IndexKind::Hnsw {
        // The search continues if the first candidates are deleted entries. pgvector before 0.8 ignores this setting.
        statements.push("SET hnsw.iterative_scan = strict_order".to_owned());
    }
    statements.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config_of(with: Value, environment: &[(&str, &str)]) -> Result<Config, LoadError> {
        let with: With = serde_json::from_value(with).unwrap();
        let environment = environment.iter();
        let environment = environment.map(|(name, value)| ((*name).into(), (*value).into()));
        config(&with, &environment.collect())
    }

    #[test]
    fn the_url_is_that_of_the_options_and_else_of_the_environment() {
        let variable = [("PGVECTOR_URL", "postgres://a:b@there/docs")];
        let found = config_of(json!({}), &variable).unwrap();
        assert_eq!(server(&found), "there:5432/docs");
        let own = json!({"url": "postgresql://me@[::1]:5433,b/x?sslmode=require"});
        let found = config_of(own, &variable).unwrap();
        assert_eq!(server(&found), "::1:5433,b:5432/x");
        let found = config_of(json!({"url": "postgres://me@%2Frun%2Fpg/x"}), &[]).unwrap();
        assert_eq!(server(&found), "/run/pg/.s.PGSQL.5432/x");
        let error = config_of(json!({}), &[]).unwrap_err().to_string();
        assert!(error.contains("set the option `url` or the variable `PGVECTOR_URL`"));
    }

    #[test]
    fn a_password_comes_from_the_environment_if_the_url_has_none() {
        let variable = [("PGPASSWORD", "hunter2")];
        let found = config_of(json!({"url": "postgres://me@h/x"}), &variable).unwrap();
        assert_eq!(found.get_password(), Some(&b"hunter2"[..]));
        let found = config_of(json!({"url": "postgres://me:own@h/x"}), &variable).unwrap();
        assert_eq!(found.get_password(), Some(&b"own"[..]));
    }

    #[test]
    fn a_bad_url_is_not_shown() {
        for (url, expected) in [
            ("host=h password=hunter2", "must begin with `postgres://`"),
            ("postgres://me:hunter2@", "names no host"),
            ("postgres://me:hun@ter2@h/x", "written `%40`"),
            ("postgres://me:hunter2@h:x/x", "option `port`"),
            ("postgres://me:hunter2@h/x?sslmode=x", "option `sslmode`"),
        ] {
            let with: With = serde_json::from_value(json!({ "url": url })).unwrap();
            let error = with.check().unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("ter2"), "{error}");
            assert!(!format!("{with:?}").contains("ter2"));
        }
    }
}
