//! Credentials for registries: those that `docker login` has stored in Docker's config file, or with the credential
//! helpers that the file names.
//!
//! The order is Docker's: the registry's own helper, the helper for all registries, the file itself. Without credentials
//! in any of them, requests are anonymous.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use flow_spec::Secret;
use serde::Deserialize;

/// Docker's public registry, which image names may omit.
pub const PUBLIC_REGISTRY: &str = "docker.io";

/// The key of the public registry in Docker's config file.
const PUBLIC_KEY: &str = "https://index.docker.io/v1/";

/// The user name that a helper reports for a token instead of a password.
const TOKEN_USER: &str = "<token>";

/// Why credentials cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file exists and cannot be read.
    #[error("cannot read Docker's config `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file does not have Docker's format.
    #[error(
        "cannot parse Docker's config `{path}`, which is not in the format that `docker login` writes"
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The file's entry for the registry does not have Docker's format.
    #[error(
        "no valid user and password for `{registry}` in Docker's config `{path}` (repair it with `docker login {registry}`)"
    )]
    Entry {
        /// The file.
        path: PathBuf,
        /// The registry.
        registry: String,
    },
    /// The helper cannot be run.
    #[error(
        "cannot run `{program}`, which Docker's config names for `{registry}` (is it installed, and on PATH?)"
    )]
    NoHelper {
        /// The helper.
        program: String,
        /// The registry.
        registry: String,
        /// Why.
        source: io::Error,
    },
    /// The helper has failed.
    #[error("the credential helper `{program}` failed for `{registry}`: {message}")]
    Helper {
        /// The helper.
        program: String,
        /// The registry.
        registry: String,
        /// The helper's message.
        message: String,
    },
}

/// Credentials for a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// The registry's key in Docker's config.
    pub server_address: Option<String>,
    /// A token that replaces user and password.
    pub identity_token: Option<Secret>,
    /// A token for the registry itself.
    pub registry_token: Option<Secret>,
}

impl From<Credentials> for DockerCredentials {
    fn from(credentials: Credentials) -> Self {
        let revealed = |secret: Option<Secret>| secret.map(Secret::into_revealed);
        Self {
            username: credentials.username,
            password: revealed(credentials.password),
            serveraddress: credentials.server_address,
            identitytoken: revealed(credentials.identity_token),
            registrytoken: revealed(credentials.registry_token),
            ..Self::default()
        }
    }
}

/// The part of Docker's config file that is about registries.
#[derive(Debug, Default)]
pub struct DockerConfig {
    path: PathBuf,
    file: File,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    auths: BTreeMap<String, RegistryLogin>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RegistryLogin {
    /// `user:password` in base64.
    auth: Secret,
    identitytoken: Secret,
    registrytoken: Secret,
}

/// The output of a credential helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    username: String,
    secret: Secret,
}

impl DockerConfig {
    /// Reads `config.json` in this folder: DOCKER_CONFIG, or `.docker` in the user's home. Without a file there are no
    /// credentials.
    ///
    /// # Errors
    /// If the file cannot be read, or does not have Docker's format.
    pub fn read(folder: &Path) -> Result<Self, CredentialsError> {
        let path = folder.join("config.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(CredentialsError::Read { path, source }),
        };
        match serde_json::from_slice(&text) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(CredentialsError::Syntax { path, source }),
        }
    }

    /// The credentials for this registry, `host[:port]`; `None` if there are none. Blocks while a helper runs.
    ///
    /// # Errors
    /// If credentials are stored, and cannot be read.
    pub fn credentials(&self, registry: &str) -> Result<Option<Credentials>, CredentialsError> {
        let key = key(registry);
        let own = self.file.cred_helpers.get(key);
        let helped = match own.or(self.file.creds_store.as_ref()) {
            Some(helper) => run_helper(&format!("docker-credential-{helper}"), key)?,
            None => None,
        };
        let found = match helped {
            Some(output) => Some(output.credentials()),
            None => self.stored(registry)?,
        };
        Ok(found.map(|found| Credentials {
            server_address: Some(key.to_owned()),
            ..found
        }))
    }

    /// The credentials in the file itself.
    fn stored(&self, registry: &str) -> Result<Option<Credentials>, CredentialsError> {
        let is_it = |name: &&String| host(name) == host(key(registry));
        let Some(name) = self.file.auths.keys().find(is_it) else {
            return Ok(None);
        };
        let entry = &self.file.auths[name];
        let token = |text: &Secret| Some(text.clone()).filter(|it| !it.reveal().is_empty());
        let tokens = Credentials {
            identity_token: token(&entry.identitytoken),
            registry_token: token(&entry.registrytoken),
            ..Credentials::default()
        };
        if entry.auth.reveal().is_empty() {
            let has_any = tokens.identity_token.is_some() || tokens.registry_token.is_some();
            return Ok(has_any.then_some(tokens));
        }
        let (user, password) =
            pair(entry.auth.reveal()).ok_or_else(|| CredentialsError::Entry {
                path: self.path.clone(),
                registry: registry.to_owned(),
            })?;
        Ok(Some(Credentials {
            username: Some(user),
            password: Some(password),
            ..tokens
        }))
    }
}

impl HelperOutput {
    fn credentials(self) -> Credentials {
        if self.username == TOKEN_USER {
            return Credentials {
                identity_token: Some(self.secret),
                ..Credentials::default()
            };
        }
        Credentials {
            username: Some(self.username),
            password: Some(self.secret),
            ..Credentials::default()
        }
    }
}

/// The registry of an image's name: the part before the first slash, if that can be a host name.
#[must_use]
pub fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => PUBLIC_REGISTRY,
    }
}

/// The key of a registry in Docker's config file.
fn key(registry: &str) -> &str {
    match registry {
        PUBLIC_REGISTRY => PUBLIC_KEY,
        other => other,
    }
}

/// The host in a key. Old versions of Docker wrote URLs.
fn host(key: &str) -> &str {
    let after = key.split_once("://").map_or(key, |(_, after)| after);
    after.split('/').next().unwrap_or(after)
}

fn pair(auth: &str) -> Option<(String, Secret)> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    let password = password.trim_end_matches('\0').to_owned();
    Some((user.to_owned(), Secret::new(password)))
}

/// Runs a credential helper; `None` if it has no credentials for the registry.
fn run_helper(program: &str, key: &str) -> Result<Option<HelperOutput>, CredentialsError> {
    let output = run(program, key).map_err(|source| CredentialsError::NoHelper {
        program: program.to_owned(),
        registry: key.to_owned(),
        source,
    })?;
    if output.status.success()
        && let Ok(found) = serde_json::from_slice(&output.stdout)
    {
        return Ok(Some(found));
    }
    // Helpers report this on stdout, and fail.
    let printed = [output.stdout, output.stderr].concat();
    let message = String::from_utf8_lossy(&printed).trim().to_owned();
    if message.contains("credentials not found") {
        return Ok(None);
    }
    Err(CredentialsError::Helper {
        program: program.to_owned(),
        registry: key.to_owned(),
        message,
    })
}

/// There is no time limit: a helper may ask a person for a password.
fn run(program: &str, key: &str) -> io::Result<Output> {
    let mut helper = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = helper.stdin.take() {
        // A helper that does not read has exited, and its exit code says more.
        drop(input.write_all(key.as_bytes()));
    }
    helper.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> DockerConfig {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), text).unwrap();
        DockerConfig::read(folder.path()).unwrap()
    }

    /// User and password, or the tokens.
    fn found(config: &DockerConfig, registry: &str) -> Option<String> {
        let found = config.credentials(registry).unwrap()?;
        let parts = [
            found.username,
            found.password.map(Secret::into_revealed),
            found.identity_token.map(Secret::into_revealed),
            found.registry_token.map(Secret::into_revealed),
        ];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_registry_of_an_image_is_a_host_before_its_first_slash() {
        assert_eq!(registry_of("a"), "docker.io");
        assert_eq!(registry_of("team/a:1"), "docker.io");
        assert_eq!(registry_of("localhost/a"), "localhost");
        assert_eq!(registry_of("localhost:5000/a:1"), "localhost:5000");
        assert_eq!(
            registry_of("registry.example.com/team/a"),
            "registry.example.com"
        );
    }

    #[test]
    fn a_password_is_found_however_docker_wrote_its_registry() {
        let auth = STANDARD.encode("me:se:cret");
        for key in [
            "r.example.com",
            "https://r.example.com",
            "https://r.example.com/v1/",
        ] {
            let config = config(&format!(
                r#"{{"auths": {{"{key}": {{"auth": "{auth}"}}}}}}"#
            ));
            assert_eq!(
                found(&config, "r.example.com").unwrap(),
                "me se:cret",
                "{key}"
            );
            assert_eq!(found(&config, "r.example.org"), None);
        }
        let public = format!(r#"{{"auths": {{"{PUBLIC_KEY}": {{"auth": "{auth}"}}}}}}"#);
        assert_eq!(
            found(&config(&public), PUBLIC_REGISTRY).unwrap(),
            "me se:cret"
        );
    }

    #[test]
    fn without_a_login_there_are_no_credentials() {
        let nothing = DockerConfig::read(Path::new("/nowhere")).unwrap();
        assert_eq!(found(&nothing, "r.example.com"), None);
        let emptied = config(r#"{"auths": {"r.example.com": {}}, "currentContext": "x"}"#);
        assert_eq!(found(&emptied, "r.example.com"), None);
    }

    #[test]
    fn an_invalid_entry_is_an_error_with_advice() {
        let error = config(r#"{"auths": {"r": {"auth": "%"}}}"#)
            .credentials("r")
            .unwrap_err();
        assert!(error.to_string().contains("docker login r"), "{error}");
    }

    /// A helper that is run by its path, because PATH belongs to the whole process. Another process writes it: if this
    /// one did, a test that starts a process meanwhile would pass the open file on, and a file that is open for writing
    /// cannot be run.
    fn helper(folder: &Path, script: &str) -> String {
        let path = folder.join("helper");
        let source = folder.join("helper.sh");
        fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut install = Command::new("install");
        let installed = install.args(["-m", "755"]).arg(source).arg(&path);
        assert!(installed.status().unwrap().success());
        path.display().to_string()
    }

    #[test]
    fn a_helper_gets_the_registry_and_may_have_no_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let echo = r#"read -r host; echo "{\"Username\": \"$1\", \"Secret\": \"$host\"}""#;
        let output = run_helper(&helper(folder.path(), echo), "r")
            .unwrap()
            .unwrap();
        assert_eq!(
            (output.username.as_str(), output.secret.reveal().as_str()),
            ("get", "r")
        );
        let unknown = "echo credentials not found in native keychain; exit 1";
        assert!(
            run_helper(&helper(folder.path(), unknown), "r")
                .unwrap()
                .is_none()
        );
        let locked = run_helper(&helper(folder.path(), "echo locked; exit 1"), "r");
        assert!(
            locked
                .err()
                .unwrap()
                .to_string()
                .ends_with("for `r`: locked")
        );
        let missing = run_helper("/nowhere/helper", "r").err().unwrap();
        assert!(missing.to_string().contains("is it installed"), "{missing}");
    }

    #[test]
    fn a_token_of_a_helper_is_not_a_password() {
        let output = HelperOutput {
            username: TOKEN_USER.to_owned(),
            secret: Secret::new("t".to_owned()),
        };
        let token = output.credentials().identity_token;
        assert_eq!(token, Some(Secret::new("t".to_owned())));
    }
}
