//! A registry of images of the test's own: Debian's, on a port of this machine.

use std::fs;
use std::path::Path;

use flow_tests::{Program, free_port};

/// Name and password of whoever may use a registry that is locked.
pub(crate) const USER: &str = "someone";
pub(crate) const PASSWORD: &str = "secret";

/// The password as the registry keeps it (bcrypt).
const KEPT: &str = "$2b$04$YCtF769Dd3gI9lfSzBHp3O8z5iy4MFi7tLvMlXh2NnL08qqk7Dc.G";

/// `someone:secret`, as `docker login` keeps it.
const LOGIN: &str = "c29tZW9uZTpzZWNyZXQ=";

/// A registry. It ends with the test, and so does all that it holds.
pub(crate) struct Registry {
    pub(crate) host: String,
    _program: Program,
    folder: tempfile::TempDir,
}

impl Registry {
    /// One that everybody may use. None: this machine has no such program, or no engine.
    pub(crate) fn open() -> Option<Self> {
        Self::start("")
    }

    /// One that wants a name and a password.
    pub(crate) fn locked() -> Option<Self> {
        Self::start("auth: {htpasswd: {realm: flow, path: PASSWORDS}}\n")
    }

    fn start(auth: &str) -> Option<Self> {
        let registry = flow_tests::registry()?;
        if !crate::docker::can_run() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let host = format!("127.0.0.1:{}", free_port());
        let config = format!(
            "version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {host}}}\n{}",
            path("images"),
            auth.replace("PASSWORDS", &path("passwords")),
        );
        fs::write(path("passwords"), format!("{USER}:{KEPT}\n")).unwrap();
        fs::write(path("config.yml"), config).unwrap();
        let mut command = std::process::Command::new(registry);
        command.arg("serve").arg(path("config.yml"));
        command.env("OTEL_TRACES_EXPORTER", "none");
        let program = Program::start(command);
        program.line("listening on");
        Some(Self {
            host,
            _program: program,
            folder,
        })
    }

    /// The hub of a team in it.
    pub(crate) fn hub(&self) -> String {
        format!("{}/team", self.host)
    }

    /// A folder like `~/.docker` after `docker login`.
    pub(crate) fn login(&self) -> &Path {
        let auths = format!(r#"{{"auths": {{"{}": {{"auth": "{LOGIN}"}}}}}}"#, self.host);
        self.config(&auths)
    }

    /// A folder like `~/.docker` with this config.
    pub(crate) fn config(&self, text: &str) -> &Path {
        fs::write(self.folder.path().join("config.json"), text).unwrap();
        self.folder.path()
    }
}
