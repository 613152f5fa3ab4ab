//! Starts a PostgreSQL server for a single test.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::peers::{postgres_programs, skipped};
use crate::program::Program;
use crate::stock::free_port;

/// The superuser's name and password. No output of `flow` may contain the password.
const USER: &str = "tester";

/// The id of the user `nobody`. The server runs as this user if root runs the tests, because it refuses to run as root.
const NOBODY: u32 = 65_534;

/// The message of a server that is ready.
const READY: &str = "database system is ready to accept connections";

/// A PostgreSQL server and its files. Dropping this value stops the server.
#[derive(Debug)]
pub struct Postgres {
    /// The running server; `None` if it is stopped.
    program: Option<Program>,
    /// The folder with the server's programs.
    programs: PathBuf,
    folder: TempDir,
    port: u16,
    /// Settings in addition to those of every test server.
    settings: Vec<String>,
}

impl Postgres {
    /// The superuser's password. Output of flow must never contain it.
    pub const PASSWORD: &str = "not2beshown";

    /// Starts a server with an empty database. Prints the reason and returns `None` if PostgreSQL is not set up or
    /// cannot run here.
    pub fn start() -> Option<Self> {
        Self::start_in(
            postgres_programs()?,
            tempfile::tempdir().unwrap(),
            Vec::new(),
        )
    }

    /// Starts the server of Debian's package, which has TLS but no pgvector, with these settings. The server's user becomes the owner
    /// of the files in `folder`. Prints the reason and returns `None` if the package is not installed or cannot run here.
    pub fn start_debian(folder: TempDir, settings: Vec<String>) -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let mut programs = versions.map(|it| it.unwrap().path().join("bin"));
        let Some(programs) = programs.find(|it| it.join("postgres").exists()) else {
            skipped("no server of PostgreSQL with TLS; Debian's package `postgresql` has one");
            return None;
        };
        Self::start_in(programs, folder, settings)
    }

    fn start_in(programs: PathBuf, folder: TempDir, settings: Vec<String>) -> Option<Self> {
        if is_root() {
            let files = fs::read_dir(folder.path()).unwrap();
            let files = files.map(|it| it.unwrap().path());
            for path in files.chain([folder.path().to_owned()]) {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut it = Self {
            program: None,
            programs,
            folder,
            port: free_port(),
            settings,
        };
        let version = it.command("postgres").arg("--version").output();
        if let Err(error) = version {
            skipped(&format!(
                "the user that runs PostgreSQL cannot start `{}`: {error}",
                it.programs.display()
            ));
            return None;
        }
        it.make_files();
        it.start_again();
        Some(it)
    }

    fn make_files(&self) {
        let password = self.folder.path().join("password");
        fs::write(&password, Self::PASSWORD).unwrap();
        let mut command = self.command("initdb");
        command.arg("--pgdata").arg(self.data());
        command.args(["--username", USER, "--auth", "scram-sha-256", "--pwfile"]);
        command.arg(password);
        command.args(["--encoding", "UTF8", "--locale", "C", "--no-sync"]);
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}", program.said());
    }

    /// Starts the server again, with the same port and data.
    pub fn start_again(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        command.args(["-p", &self.port.to_string(), "-k"]);
        command.arg(self.folder.path());
        // The data need not survive a crash of the machine.
        let settings = ["listen_addresses=127.0.0.1", "fsync=off"];
        let settings = settings.into_iter();
        for setting in settings.chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        let program = Program::start(command);
        program.line(READY);
        self.program = Some(program);
    }

    /// Stops the server immediately, with all its connections.
    pub fn stop(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.signal(Signal::QUIT);
            program.end();
        }
    }

    /// Returns the URL for clients, with the password.
    pub fn url(&self) -> String {
        self.url_of(USER, Self::PASSWORD, "postgres")
    }

    /// Returns the URL for another user or database.
    pub fn url_of(&self, user: &str, password: &str, database: &str) -> String {
        let port = self.port;
        format!("postgres://{user}:{password}@127.0.0.1:{port}/{database}")
    }

    /// Runs SQL and returns its output, one line for each row.
    pub fn sql(&self, text: &str) -> String {
        let (code, program) = Program::run(self.psql(text));
        assert_eq!(code, Some(0), "{}", program.said());
        program.stdout()
    }

    /// Returns the `psql` command that runs SQL.
    pub fn psql(&self, text: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args([&self.url(), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]);
        command.args(["-c", text]);
        command
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        // The server's user may have no access to the current folder.
        command.current_dir(self.folder.path());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
