//! A connection to the database that reconnects when it is lost.
//!
//! An executor handles one call at a time on a thread of its own. Each thread therefore has one connection, and there is no pool:
//! `workers: N` opens N connections. The PostgreSQL client is asynchronous. It runs in a runtime of this thread, and only while a call
//! waits for it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::{Client, Statement};

use crate::error::DatabaseError;
use crate::settings::ConnectionSettings;

/// Time that the client waits for an answer beyond `statement_timeout`. The server itself cancels a statement at `statement_timeout`
/// and reports it, unless the server or the network hangs.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

/// The future that sends and receives the bytes of a connection. It completes when the connection ends.
type Driver = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>>>>;

/// A connection to the database, which is opened when it is first needed.
pub(crate) struct DatabaseConnection {
    settings: Arc<ConnectionSettings>,
    runtime: Runtime,
    open: Option<(DatabaseSession, Driver)>,
}

impl std::fmt::Debug for DatabaseConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_open = self.open.is_some();
        f.debug_struct("Connection")
            .field("server", &self.settings.server)
            .field("is_open", &is_open)
            .finish_non_exhaustive()
    }
}

impl DatabaseConnection {
    /// Creates the runtime. The first call of [`run`](Self::run) connects.
    pub(crate) fn new(settings: Arc<ConnectionSettings>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            settings,
            runtime,
            open: None,
        })
    }

    /// Runs `work` with a connection, and connects first if there is none.
    ///
    /// It runs `work` a second time if an existing connection turns out to be lost, or if the server cancels the work because of a
    /// conflict with another transaction. `work` must therefore be idempotent.
    pub(crate) fn run<T>(
        &mut self,
        work: &impl AsyncFn(&DatabaseSession) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let was_open = self.open.is_some();
        let outcome = self.attempt(work);
        let Err(error) = &outcome else { return outcome };
        let is_lost = was_open && matches!(error, DatabaseError::Lost { .. });
        if !is_lost && !error.is_conflict() {
            return outcome;
        }
        tracing::warn!(%error, "trying again");
        self.attempt(work)
    }

    fn attempt<T>(
        &mut self,
        work: &impl AsyncFn(&DatabaseSession) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let (session, driver) = match self.open.take() {
            Some(open) => open,
            None => self.runtime.block_on(connect(&self.settings))?,
        };
        let (outcome, driver) = self.runtime.block_on(drive(driver, work(&session)));
        let outcome = outcome.map_err(|error| error.with_reason(driver.as_ref().err()));
        let is_usable = !outcome.as_ref().is_err_and(DatabaseError::ends_connection);
        self.open = driver.ok().filter(|_| is_usable).map(|it| (session, it));
        outcome
    }
}

/// Runs `work` and the driver together. Returns the driver with the result, or the reason why the connection ended.
async fn drive<T>(
    mut driver: Driver,
    work: impl Future<Output = Result<T, DatabaseError>>,
) -> (
    Result<T, DatabaseError>,
    Result<Driver, Option<tokio_postgres::Error>>,
) {
    let mut work = pin!(work);
    let ended = tokio::select! {
        biased;
        outcome = &mut work => return (outcome, Ok(driver)),
        ended = &mut driver => ended,
    };
    // Without the driver, statements that still wait for an answer fail.
    drop(driver);
    (work.await, Err(ended.err()))
}

async fn connect(
    settings: &ConnectionSettings,
) -> Result<(DatabaseSession, Driver), DatabaseError> {
    let server = &settings.server;
    let limit = settings.connect_timeout;
    let connecting = async {
        let tls = settings.tls.clone();
        let connected = settings.config.connect(tls).await;
        let (client, connection) =
            connected.map_err(|error| DatabaseError::connecting(server, &error))?;
        let session = DatabaseSession::new(client, settings);
        let driver: Driver = Box::pin(connection);
        let (done, driver) = drive(driver, session.execute(&settings.session)).await;
        done?;
        match driver {
            Ok(driver) => Ok((session, driver)),
            Err(_) => Err(DatabaseError::Lost {
                server: server.clone(),
                cause: "it was closed at once".to_owned(),
            }),
        }
    };
    let connected = timeout(limit, connecting).await;
    connected.unwrap_or_else(|_elapsed| {
        Err(DatabaseError::ConnectTimeout {
            server: server.clone(),
            limit,
        })
    })
}

/// An open connection, with its prepared statements.
pub(crate) struct DatabaseSession {
    client: Client,
    server: String,
    limit: Duration,
    /// The prepared statements, by their SQL text.
    prepared: RefCell<HashMap<String, Statement>>,
    /// The value that [`tune`](Self::tune) last applied.
    tuning: Cell<Option<usize>>,
}

impl DatabaseSession {
    fn new(client: Client, settings: &ConnectionSettings) -> Self {
        Self {
            client,
            server: settings.server.clone(),
            limit: settings.statement_timeout + ANSWER_MARGIN,
            prepared: RefCell::default(),
            tuning: Cell::new(None),
        }
    }

    /// Returns the client. Pass the futures of its methods to [`answer`](Self::answer).
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for an answer, at most `statement_timeout` and [`ANSWER_MARGIN`].
    pub(crate) async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, DatabaseError> {
        match timeout(self.limit, asked).await {
            Ok(answer) => answer.map_err(|error| self.error(&error)),
            Err(_elapsed) => Err(DatabaseError::Silent {
                server: self.server.clone(),
                limit: self.limit,
            }),
        }
    }

    /// Runs statements without parameters.
    pub(crate) async fn execute(&self, statements: &str) -> Result<(), DatabaseError> {
        self.answer(self.client.batch_execute(statements)).await
    }

    /// Runs statements without parameters and without a time limit, such as one that builds an index.
    pub(crate) async fn execute_unlimited(&self, statements: &str) -> Result<(), DatabaseError> {
        let done = self.client.batch_execute(statements).await;
        done.map_err(|error| self.error(&error))
    }

    /// Prepares a statement. The server parses each statement once per connection.
    pub(crate) async fn prepare(&self, text: &str) -> Result<Statement, DatabaseError> {
        let known = self.prepared.borrow().get(text).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.answer(self.client.prepare(text)).await?;
        let mut prepared = self.prepared.borrow_mut();
        prepared.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs `work` in a transaction: commits if it succeeds, and rolls back if it fails.
    pub(crate) async fn transaction<T>(
        &self,
        work: impl Future<Output = Result<T, DatabaseError>>,
    ) -> Result<T, DatabaseError> {
        self.execute("BEGIN").await?;
        match work.await {
            Ok(done) => self.execute("COMMIT").await.map(|()| done),
            Err(error) if error.ends_connection() => Err(error),
            Err(error) => {
                self.execute("ROLLBACK").await?;
                Err(error)
            }
        }
    }

    /// Runs statements that apply `value`, unless the last call applied the same value.
    pub(crate) async fn tune(&self, value: usize, statements: &str) -> Result<(), DatabaseError> {
        if self.tuning.get() == Some(value) {
            return Ok(());
        }
        self.execute(statements).await?;
        self.tuning.set(Some(value));
        Ok(())
    }

    pub(crate) fn error(&self, error: &tokio_postgres::Error) -> DatabaseError {
        DatabaseError::of_statement(&self.server, error)
    }
}
