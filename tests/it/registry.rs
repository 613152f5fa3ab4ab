//! A registry of images of the test's own: Debian's, on a port of this machine.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use flow_tests::{Program, free_port};

use crate::tokens::{Tokens, openssl};

/// The user of a registry that requires authentication.
pub(crate) const USER: &str = "someone";
pub(crate) const PASSWORD: &str = "secret";

/// The password as the registry keeps it (bcrypt).
const KEPT: &str = "$2b$04$YCtF769Dd3gI9lfSzBHp3O8z5iy4MFi7tLvMlXh2NnL08qqk7Dc.G";

/// `someone:secret`, as `docker login` keeps it.
pub(crate) const LOGIN: &str = "c29tZW9uZTpzZWNyZXQ=";

/// A registry. It ends with the test, and so does all that it holds.
pub(crate) struct Registry {
    pub(crate) host: String,
    _program: Program,
    folder: tempfile::TempDir,
    /// Who hands out its tokens, where it wants some.
    pub(crate) tokens: Option<Tokens>,
}

/// What a registry's config says beside where its images are.
struct Config {
    address: String,
    tls: String,
    auth: String,
}

impl Registry {
    /// A registry without a login; `None` if this machine has no such program, or no engine.
    pub(crate) fn open() -> Option<Self> {
        Self::start(|_| Some((Config::here(String::new()), None)))
    }

    /// One that wants a name and a password.
    pub(crate) fn locked() -> Option<Self> {
        Self::start(|folder| {
            let passwords = folder.join("passwords");
            fs::write(&passwords, format!("{USER}:{KEPT}\n")).unwrap();
            let path = passwords.display();
            let auth = format!("auth: {{htpasswd: {{realm: flow, path: '{path}'}}}}\n");
            Some((Config::here(auth), None))
        })
    }

    /// One that wants a token, which another server issues for a password.
    pub(crate) fn by_tokens() -> Option<Self> {
        Self::start(|folder| {
            let tokens = Tokens::start(folder)?;
            Some((Config::here(tokens.config()), Some(tokens)))
        })
    }

    /// One with TLS, for which an authority of the test's own vouches; it is not at the loopback address, which every Docker engine
    /// trusts.
    pub(crate) fn private() -> Option<Self> {
        Self::start(|folder| {
            let address = own_address()?;
            certify(folder, "registry", &address)?;
            let path = |name: &str| folder.join(name).display().to_string();
            let (certificate, key) = (path("registry.crt"), path("registry.key"));
            let config = Config {
                address,
                tls: format!(", tls: {{certificate: '{certificate}', key: '{key}'}}"),
                auth: String::new(),
            };
            Some((config, None))
        })
    }

    fn start(config: impl FnOnce(&Path) -> Option<(Config, Option<Tokens>)>) -> Option<Self> {
        let registry = flow_tests::registry()?;
        if !crate::docker::can_run() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (config, tokens) = config(folder.path())?;
        let Config { address, tls, auth } = config;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let host = format!("{address}:{}", free_port());
        let config = format!(
            "version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{host}'{tls}}}\n{auth}",
            path("images"),
        );
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
            tokens,
        })
    }

    /// The certificate of who vouches for it.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.crt")
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

    /// The folder like `~/.docker`.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A folder like `~/.docker` with this config.
    pub(crate) fn config(&self, text: &str) -> &Path {
        fs::write(self.folder.path().join("config.json"), text).unwrap();
        self.folder.path()
    }
}

impl Config {
    /// At this machine's own address, without TLS.
    fn here(auth: String) -> Self {
        Self {
            address: "127.0.0.1".to_owned(),
            tls: String::new(),
            auth,
        }
    }
}

/// An address of this machine other than the loopback address, which Docker trusts; `None` if there is no other.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the kernel says where it would send from.
    let found = socket
        .connect("192.0.2.1:9")
        .and_then(|()| socket.local_addr());
    let address = found.ok().map(|at| at.ip()).filter(|ip| !ip.is_loopback());
    if address.is_none() {
        flow_tests::skipped("this machine has no address but its own");
    }
    address.map(|ip| ip.to_string())
}

/// Makes a certificate authority, and a certificate for this address in the files that begin with `name`.
pub(crate) fn certify(folder: &Path, name: &str, address: &str) -> Option<()> {
    let new = "-newkey rsa:2048 -nodes -days 2";
    openssl(
        folder,
        &format!("req -x509 {new} -keyout authority.key -out authority.crt -subj /CN=authority"),
    )?;
    openssl(
        folder,
        &format!("req {new} -keyout {name}.key -out {name}.csr -subj /CN={name}"),
    )?;
    let more = format!(
        "subjectAltName=IP:{address}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
    );
    fs::write(folder.join(format!("{name}.ext")), more).unwrap();
    let signs = "-CA authority.crt -CAkey authority.key -CAcreateserial -days 2";
    openssl(
        folder,
        &format!("x509 -req -in {name}.csr {signs} -out {name}.crt -extfile {name}.ext"),
    )
}
