//! Errors of the database. Each message says what happened, at which server, and what to do about it.
//!
//! No message shows a password: messages name a server by host, port and database.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use flow_executor::{CallError, Chain, LoadError};
use flow_index::MatchesTooLarge;
use tokio_postgres::error::SqlState;

/// An error of the database or of the connection to it.
///
/// It does not implement `std::error::Error`. If it did, `?` would convert every error into a `CallError` that callers do not retry.
#[derive(Debug)]
pub(crate) enum DatabaseError {
    /// A connection attempt failed.
    Connect {
        server: String,
        cause: String,
        remedy: &'static str,
        /// Whether a later attempt may succeed.
        passes: bool,
    },
    /// A connection attempt took longer than `connect_timeout`.
    ConnectTimeout { server: String, limit: Duration },
    /// An open connection ended.
    Lost { server: String, cause: String },
    /// The server did not answer in time.
    Silent { server: String, limit: Duration },
    /// The server answered with an error.
    Refused {
        server: String,
        cause: String,
        remedy: &'static str,
        code: SqlState,
    },
    /// The table in the database does not match the options.
    Unfit(String),
    /// What a search found is too large for a reply.
    MatchesTooLarge,
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect {
                server,
                cause,
                remedy,
                ..
            } => write!(
                f,
                "cannot connect to PostgreSQL at `{server}`: {cause}{remedy}"
            ),
            Self::ConnectTimeout { server, limit } => write!(
                f,
                "PostgreSQL at `{server}` did not accept a connection within {limit:?}"
            ),
            Self::Lost { server, cause } => {
                write!(
                    f,
                    "the connection to PostgreSQL at `{server}` was lost: {cause}"
                )
            }
            Self::Silent { server, limit } => {
                write!(
                    f,
                    "PostgreSQL at `{server}` did not answer within {limit:?}"
                )
            }
            Self::Refused {
                server,
                cause,
                remedy,
                ..
            } => write!(f, "PostgreSQL at `{server}` refused: {cause}{remedy}"),
            Self::Unfit(what) => f.write_str(what),
            Self::MatchesTooLarge => f.write_str("the matches have too many bytes"),
        }
    }
}

impl DatabaseError {
    /// Converts an error of a connection attempt.
    pub(crate) fn connecting(server: &str, error: &tokio_postgres::Error) -> Self {
        let remedy = match error.code() {
            Some(code) if is_login(code) => "; check the user and the password of `url`",
            Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                "; make it with `createdb`, or name another one in `url`"
            }
            _ => remedy_of_tls(error),
        };
        let passes = match error.code() {
            Some(code) => is_passing(code),
            None => remedy.is_empty(),
        };
        Self::Connect {
            server: server.to_owned(),
            cause: cause(error),
            remedy,
            passes,
        }
    }

    /// Converts an error of a statement.
    pub(crate) fn of_statement(server: &str, error: &tokio_postgres::Error) -> Self {
        let server = server.to_owned();
        match error.as_db_error() {
            None => Self::Lost {
                server,
                cause: cause(error),
            },
            Some(found) if is_end(found.code()) => Self::Lost {
                server,
                cause: cause(error),
            },
            Some(found) => Self::Refused {
                server,
                cause: cause(error),
                remedy: remedy(found.code()),
                code: found.code().clone(),
            },
        }
    }

    /// Replaces the cause of a lost connection by the reason why the connection ended, if the driver reported one.
    pub(crate) fn with_reason(self, ended: Option<&Option<tokio_postgres::Error>>) -> Self {
        match (self, ended) {
            // The statement's own error says only that the connection is closed.
            (Self::Lost { server, .. }, Some(Some(reason))) => Self::Lost {
                server,
                cause: cause(reason),
            },
            (error, _) => error,
        }
    }

    /// Whether the connection is unusable after this error, or would first have to read all that the search found.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::Lost { .. } | Self::Silent { .. } | Self::MatchesTooLarge
        )
    }

    /// Whether the server cancelled the work because of a conflict with another transaction.
    pub(crate) fn is_conflict(&self) -> bool {
        self.is(&SqlState::T_R_DEADLOCK_DETECTED) || self.is(&SqlState::T_R_SERIALIZATION_FAILURE)
    }

    /// Whether the server answered with this code.
    pub(crate) fn is(&self, wanted: &SqlState) -> bool {
        matches!(self, Self::Refused { code, .. } if code == wanted)
    }

    /// Replaces the remedy if the server answered with one of these codes.
    pub(crate) fn with_remedy(mut self, codes: &[SqlState], text: &'static str) -> Self {
        if let Self::Refused { remedy, code, .. } = &mut self
            && codes.contains(code)
        {
            *remedy = text;
        }
        self
    }

    /// Whether a retry of the call is safe and may succeed.
    fn is_passing(&self) -> bool {
        match self {
            Self::Connect { passes, .. } => *passes,
            // All endpoints are idempotent, so it is safe to retry a call that may have run.
            Self::ConnectTimeout { .. } | Self::Lost { .. } | Self::Silent { .. } => true,
            Self::Refused { code, .. } => is_passing(code),
            Self::Unfit(_) | Self::MatchesTooLarge => false,
        }
    }
}

impl From<MatchesTooLarge> for DatabaseError {
    fn from(MatchesTooLarge: MatchesTooLarge) -> Self {
        Self::MatchesTooLarge
    }
}

impl From<DatabaseError> for CallError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::MatchesTooLarge => MatchesTooLarge.into(),
            error if error.is_passing() => Self::unavailable(error.to_string()),
            error => Self::new(error.to_string()),
        }
    }
}

impl From<DatabaseError> for LoadError {
    fn from(error: DatabaseError) -> Self {
        Self::new(error.to_string())
    }
}

/// Returns the message and the code of the server's error, or else the client's error with its causes, on one line.
fn cause(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(found) => format!("{} ({})", found.message(), found.code().code()),
        None => match error.source() {
            Some(source) => Chain(source).to_string(),
            None => error.to_string(),
        },
    }
}

fn remedy_of_tls(error: &tokio_postgres::Error) -> &'static str {
    // `tokio_postgres` does not export the kinds of its errors, so this compares their messages.
    let text = error.to_string();
    if text.contains("TLS") {
        return "; name the server's authority in `ca`, or write `sslmode=disable` into `url` for a connection without TLS";
    }
    match text.contains("configuration") || text.contains("authentication") {
        true => "; check the user and the password of `url`",
        false => "",
    }
}

fn is_login(code: &SqlState) -> bool {
    *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
}

/// Whether the server ends the connection with this code.
fn is_end(code: &SqlState) -> bool {
    *code == SqlState::ADMIN_SHUTDOWN
        || *code == SqlState::CRASH_SHUTDOWN
        || *code == SqlState::CANNOT_CONNECT_NOW
        || *code == SqlState::IDLE_SESSION_TIMEOUT
}

fn is_passing(code: &SqlState) -> bool {
    is_end(code)
        || *code == SqlState::TOO_MANY_CONNECTIONS
        // The server cancelled this transaction to resolve a conflict.
        || *code == SqlState::T_R_DEADLOCK_DETECTED
        || *code == SqlState::T_R_SERIALIZATION_FAILURE
        // The server is a standby, for example after a failover.
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

fn remedy(code: &SqlState) -> &'static str {
    if *code == SqlState::QUERY_CANCELED {
        "; raise `statement_timeout`, send fewer documents, or set `index: hnsw`"
    } else if *code == SqlState::UNDEFINED_TABLE {
        "; it was there before: the next `/index` makes it again"
    } else {
        ""
    }
}
