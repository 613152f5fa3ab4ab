//! Tests the index with a database that stops, hangs, or refuses the connection.

use std::fs;

use flow_tests::{Postgres, Program, TestFlow, flow_command, post, send};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::calls::{call, count, document, found, index};
use super::{alone, alone_as};
use crate::registry::certify;

/// The log message after a lost connection.
const LOST: &str = "trying again";

#[tokio::test]
async fn an_index_survives_restarts_of_its_process_and_of_the_database() {
    let Some(mut postgres) = Postgres::start() else {
        return;
    };
    let flow = alone_as(&postgres, "", ", idempotent: true");
    flow.expect(LOST);
    // The supervisor restarts the replica.
    flow.expect("replica cannot be reached");
    let docs = [document("a", &[1.0, 0.0]), document("b", &[0.0, 1.0])];
    index(&flow, &docs).await;

    send(flow.pid("database"), Signal::KILL);
    flow.expect("database");
    assert_eq!(count(&flow, "database").await, 2);

    // The database restarts while there are no calls.
    postgres.stop();
    postgres.start_again();
    assert_eq!(count(&flow, "database").await, 2);

    let pid = flow.pid("database");
    postgres.stop();
    for (endpoint, docs) in [
        ("/index", &docs[..]),
        ("/search", &docs[..1]),
        ("/status", &[]),
    ] {
        let reply = call(&flow, endpoint, docs, &Value::Null).await;
        let failure = reply.failure.expect("there is no database");
        assert!(
            failure.contains("cannot connect to PostgreSQL at `127.0.0.1:"),
            "{failure}"
        );
        assert!(failure.contains("Connection refused"), "{failure}");
        assert_eq!(reply.exception.as_deref(), Some("ConnectionError"));
    }
    postgres.start_again();
    index(&flow, &[document("c", &[1.0, 1.0])]).await;
    let all = found(&flow, "database", &docs[0], &Value::Null).await;
    assert_eq!(all.len(), 3);
    assert_eq!(flow.pid("database"), pid, "the process is the same");

    // The table is dropped while the index runs.
    postgres.sql("DROP TABLE flow_database");
    let reply = call(&flow, "/search", &docs[..1], &Value::Null).await;
    let failure = reply.failure.expect("there is no table");
    assert!(
        failure.contains("the next `/index` makes it again"),
        "{failure}"
    );
    assert!(
        found(&flow, "database", &docs[0], &Value::Null)
            .await
            .is_empty()
    );
    index(&flow, &docs).await;
    assert_eq!(count(&flow, "database").await, 2);
    let said = flow.program().said();
    assert!(!said.contains(Postgres::PASSWORD), "{said}");
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_given_up_by_the_server_or_else_by_us() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = alone(&postgres, ", statement_timeout: 300ms");
    let docs = [document("a", &[1.0, 0.0])];
    index(&flow, &docs).await;

    let lock = "BEGIN; LOCK TABLE flow_database; SELECT 'locked'; SELECT pg_sleep(600)";
    let lock = Program::start(postgres.psql(lock));
    flow_tests::eventually("the table is locked", || {
        let locks = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                     AND relation = 'flow_database'::regclass";
        postgres.sql(locks).trim() == "1"
    });
    let reply = call(&flow, "/index", &docs, &Value::Null).await;
    let failure = reply.failure.expect("the table is locked");
    assert!(
        failure.contains("statement timeout (57014); raise `statement_timeout`"),
        "{failure}"
    );
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()";
    postgres.sql(end);
    drop(lock);
    index(&flow, &docs).await;

    // The server process of our connection hangs.
    let ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'flow pgvector-index'";
    let backend: u32 = postgres.sql(ours).trim().parse().unwrap();
    send(backend, Signal::STOP);
    let reply = call(&flow, "/index", &docs, &Value::Null).await;
    let failure = reply.failure.expect("the server hangs");
    assert!(failure.contains("did not answer within 5.3s"), "{failure}");
    assert_eq!(reply.exception.as_deref(), Some("ConnectionError"));
    assert_eq!(count(&flow, "database").await, 1, "over another connection");
    send(backend, Signal::CONT);
}

/// Starts the executor with these options and environment variables, and returns the error with which it ends.
fn refused(with: &Value, variables: &[(&str, &str)]) -> String {
    let mut command = flow_command();
    command.args(["executor", "--uses", "pgvector-index", "--name", "docs"]);
    command.args(["--uses-with", &with.to_string()]);
    command.env_remove("PGPASSWORD").env_remove("PGVECTOR_URL");
    command.envs(variables.iter().copied());
    let (code, program) = Program::run(command);
    assert_ne!(code, Some(0), "{}", program.said());
    program.stderr()
}

/// Asserts that an executor with these options and variables says this, and none of the passwords.
#[track_caller]
fn check_refused(with: &Value, variables: &[(&str, &str)], expected: &str) {
    let said = refused(with, variables);
    assert!(said.contains(expected), "{said}");
    for secret in ["hunter", Postgres::PASSWORD] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn a_database_that_cannot_be_used_is_described_and_the_password_is_not() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    postgres.sql("CREATE ROLE guest LOGIN PASSWORD 'hunter2'");
    postgres.sql("CREATE DATABASE bare");
    postgres.sql("CREATE DATABASE bare2");
    postgres.sql("ALTER DATABASE bare SET extension_control_path = '/nowhere'");
    let url = postgres.url();
    let guest = |database: &str| postgres.url_of("guest", "hunter2", database);
    let wrong = postgres.url_of("guest", "hunter3", "postgres");
    let without = url.replace(&format!(":{}@", Postgres::PASSWORD), "@");
    let (nowhere, _) = url.rsplit_once(':').unwrap();
    let nowhere = format!("{nowhere}:1/postgres");
    for (url, variables, expected) in [
        (
            &wrong,
            &[][..],
            "password authentication failed for user \"guest\" (28P01); check the user and the password",
        ),
        (
            &without,
            &[],
            "password missing; check the user and the password",
        ),
        (
            &without,
            &[("PGPASSWORD", "hunter4")],
            "password authentication failed",
        ),
        (
            &nowhere,
            &[],
            "cannot connect to PostgreSQL at `127.0.0.1:1/postgres`: Connection refused",
        ),
        (
            &guest("none"),
            &[],
            "database \"none\" does not exist (3D000); make it with `createdb`",
        ),
        (
            &postgres.url_of("tester", Postgres::PASSWORD, "bare"),
            &[],
            "install pgvector on the machine of the database",
        ),
        (
            &guest("bare2"),
            &[],
            "let a superuser run `CREATE EXTENSION vector`",
        ),
        (
            &format!("{url}?sslmode=require"),
            &[],
            "server does not support TLS; name the server's authority in `ca`",
        ),
    ] {
        check_refused(&json!({ "url": url }), variables, expected);
    }
    let expected = "set the option `url` or the variable `PGVECTOR_URL`";
    check_refused(&json!({}), &[], expected);

    // The extension exists, but the user has no right to create a table.
    postgres.sql("CREATE EXTENSION vector");
    let with = json!({"url": guest("postgres"), "dimensions": 2});
    check_refused(&with, &[], "`GRANT CREATE ON SCHEMA`");
}

#[test]
fn a_connection_with_tls_is_made_only_to_a_trusted_server() {
    let folder = tempfile::tempdir().unwrap();
    if certify(folder.path(), "server", "127.0.0.1").is_none() {
        return;
    }
    let path = |name: &str| folder.path().join(name);
    let file = |key: &str, name: &str| format!("{key}={}", path(name).display());
    let settings = vec![
        "ssl=on".to_owned(),
        file("ssl_cert_file", "server.crt"),
        file("ssl_key_file", "server.key"),
    ];
    let authority = fs::read_to_string(path("authority.crt")).unwrap();
    let authorities = tempfile::NamedTempFile::new().unwrap();
    fs::write(authorities.path(), authority).unwrap();
    let Some(postgres) = Postgres::start_debian(folder, settings) else {
        return;
    };
    let url = postgres.url();
    // No public authority has signed the certificate, so the client sends no password.
    for more in ["", "?sslmode=require"] {
        let said = refused(&json!({"url": format!("{url}{more}")}), &[]);
        assert!(said.contains("UnknownIssuer"), "{said}");
        assert!(
            said.contains("name the server's authority in `ca`"),
            "{said}"
        );
    }
    // This error shows that the connection succeeds: this server has no pgvector.
    let connected = "install pgvector on the machine of the database";
    let with = json!({"url": format!("{url}?sslmode=require"), "ca": authorities.path()});
    let said = refused(&with, &[]);
    assert!(said.contains(connected), "{said}");
    let said = refused(&json!({"url": format!("{url}?sslmode=disable")}), &[]);
    assert!(said.contains(connected), "{said}");
    // The certificate is for another host name.
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let with = json!({"url": elsewhere, "ca": authorities.path()});
    let said = refused(&with, &[]);
    assert!(said.contains("not valid for name"), "{said}");
}

#[tokio::test]
async fn a_table_that_is_not_for_the_index_is_refused() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let flow = alone(&postgres, ", table: docs");
    index(&flow, &[document("a", &[1.0, 0.0])]).await;
    postgres.sql("CREATE TABLE others (id text)");
    let url = postgres.url();
    for (with, expected) in [
        (
            json!({"url": url, "table": "docs", "dimensions": 3}),
            "has vectors of 2 values, and `dimensions` is 3",
        ),
        (
            json!({"url": url, "table": "docs", "metric": "l2"}),
            "was not made for this index",
        ),
        (
            json!({"url": url, "table": "others"}),
            "was not made for this index",
        ),
    ] {
        let said = refused(&with, &[]);
        assert!(said.contains(expected), "{said}");
    }
}

#[tokio::test]
async fn a_url_may_come_from_the_environment_of_flow_up() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let yaml = "executors: [{name: index, uses: pgvector-index, uses_with: {dimensions: 2}}]";
    let flow = TestFlow::up_in(yaml, &[("PGVECTOR_URL", &postgres.url())]);
    index(&flow, &[document("a", &[1.0, 0.0])]).await;
    let said = [flow.program().stdout(), flow.program().stderr()].concat();
    assert!(!said.contains(Postgres::PASSWORD), "{said}");
    let made = postgres.sql("SELECT count(*) FROM flow_index");
    assert_eq!(made.trim(), "1");
    drop(alone_as(&postgres, "", ", workers: 3"));
    let reply = post(&flow, vec![flow_tests::texts("/status", &[])])
        .await
        .remove(0);
    assert_eq!(reply.results.len(), 1);
}
