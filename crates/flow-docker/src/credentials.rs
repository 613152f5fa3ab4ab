//! Who we are at a registry: what `docker login` has kept, in Docker's own config file or with the helpers that it
//! names.
//!
//! The order is Docker's: the registry's own helper, the helper of all registries, the file itself. Who stands in
//! none of them is nobody, and sees what everybody may see.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::Credentials;

/// Docker's public registry, as image names leave it out.
pub const PUBLIC_REGISTRY: &str = "docker.io";

/// The same as `docker login` writes it.
const PUBLIC_KEY: &str = "https://index.docker.io/v1/";

/// The user's name where a helper holds a token and no password.
const TOKEN_USER: &str = "<token>";

/// Why nobody knows who we are.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file is there and cannot be read.
    #[error("cannot read config `{path}` of Docker's")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not what Docker writes.
    #[error("config `{path}` of Docker's is not as `docker login` writes it")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The file's entry of the registry is not what Docker writes.
    #[error(
        "config `{path}` of Docker's has no name and password for `{registry}` (repair it with `docker login {registry}`)"
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
    /// The helper failed.
    #[error("`{program}` knows no password for `{registry}`: {message}")]
    Helper {
        /// The helper.
        program: String,
        /// The registry.
        registry: String,
        /// Its words.
        message: String,
    },
}

/// Docker's config file, as far as it is about registries.
#[derive(Debug, Default)]
pub struct DockerConfig {
    path: PathBuf,
    file: File,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    auths: BTreeMap<String, Entry>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    /// Name and password with a colon between, in base64.
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

/// What a helper prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    username: String,
    secret: String,
}

impl DockerConfig {
    /// Reads `config.json` in this folder: DOCKER_CONFIG, or `.docker` in the user's home. Without a file nobody
    /// has logged in anywhere.
    ///
    /// # Errors
    /// If the file cannot be read, or is not Docker's.
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

    /// Who we are at this registry, `host[:port]`; none: nobody in particular.
    ///
    /// # Errors
    /// If somebody is kept, and cannot be read.
    pub fn credentials(&self, registry: &str) -> Result<Option<Credentials>, CredentialsError> {
        let key = key(registry);
        let own = self.file.cred_helpers.get(key);
        let told = match own.or(self.file.creds_store.as_ref()) {
            Some(helper) => ask(&format!("docker-credential-{helper}"), key)?,
            None => None,
        };
        let found = match told {
            Some(told) => Some(told.credentials()),
            None => self.kept(registry)?,
        };
        Ok(found.map(|found| Credentials {
            serveraddress: Some(key.to_owned()),
            ..found
        }))
    }

    /// What the file itself holds.
    fn kept(&self, registry: &str) -> Result<Option<Credentials>, CredentialsError> {
        let is_it = |name: &&String| host(name) == host(key(registry));
        let Some(name) = self.file.auths.keys().find(is_it) else {
            return Ok(None);
        };
        let entry = &self.file.auths[name];
        let token = |text: &String| Some(text.clone()).filter(|it| !it.is_empty());
        let tokens = Credentials {
            identitytoken: token(&entry.identitytoken),
            registrytoken: token(&entry.registrytoken),
            ..Credentials::default()
        };
        if entry.auth.is_empty() {
            let has_any = tokens.identitytoken.is_some() || tokens.registrytoken.is_some();
            return Ok(has_any.then_some(tokens));
        }
        let (user, password) = pair(&entry.auth).ok_or_else(|| CredentialsError::Entry {
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

impl Told {
    fn credentials(self) -> Credentials {
        if self.username == TOKEN_USER {
            return Credentials {
                identitytoken: Some(self.secret),
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

/// The registry of an image's name: what stands before the first slash, if that can be a host's name.
#[must_use]
pub fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => PUBLIC_REGISTRY,
    }
}

/// A registry as `docker login` writes it.
fn key(registry: &str) -> &str {
    match registry {
        PUBLIC_REGISTRY => PUBLIC_KEY,
        other => other,
    }
}

/// The host in a key: old versions of Docker wrote URLs.
fn host(key: &str) -> &str {
    let after = key.split_once("://").map_or(key, |(_, after)| after);
    after.split('/').next().unwrap_or(after)
}

fn pair(auth: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// Asks a helper; none: it knows nobody there.
fn ask(program: &str, key: &str) -> Result<Option<Told>, CredentialsError> {
    let output = run(program, key).map_err(|source| CredentialsError::NoHelper {
        program: program.to_owned(),
        registry: key.to_owned(),
        source,
    })?;
    if output.status.success()
        && let Ok(told) = serde_json::from_slice(&output.stdout)
    {
        return Ok(Some(told));
    }
    // Helpers say so on stdout, and fail.
    let said = [output.stdout, output.stderr].concat();
    let message = String::from_utf8_lossy(&said).trim().to_owned();
    if message.contains("credentials not found") {
        return Ok(None);
    }
    Err(CredentialsError::Helper {
        program: program.to_owned(),
        registry: key.to_owned(),
        message,
    })
}

/// Without a limit of time: a helper may ask a person for a password.
fn run(program: &str, key: &str) -> io::Result<Output> {
    let mut helper = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = helper.stdin.take() {
        // One that does not read has ended, and its exit code is looked at.
        drop(input.write_all(key.as_bytes()));
    }
    helper.wait_with_output()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config(text: &str) -> DockerConfig {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), text).unwrap();
        DockerConfig::read(folder.path()).unwrap()
    }

    /// Name and password, or the tokens.
    fn who(config: &DockerConfig, registry: &str) -> Option<String> {
        let found = config.credentials(registry).unwrap()?;
        let parts = [
            found.username,
            found.password,
            found.identitytoken,
            found.registrytoken,
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
                who(&config, "r.example.com").unwrap(),
                "me se:cret",
                "{key}"
            );
            assert_eq!(who(&config, "r.example.org"), None);
        }
        let public = format!(r#"{{"auths": {{"{PUBLIC_KEY}": {{"auth": "{auth}"}}}}}}"#);
        assert_eq!(
            who(&config(&public), PUBLIC_REGISTRY).unwrap(),
            "me se:cret"
        );
    }

    #[test]
    fn who_never_logged_in_is_nobody() {
        let nothing = DockerConfig::read(Path::new("/nowhere")).unwrap();
        assert_eq!(who(&nothing, "r.example.com"), None);
        let emptied = config(r#"{"auths": {"r.example.com": {}}, "currentContext": "x"}"#);
        assert_eq!(who(&emptied, "r.example.com"), None);
    }

    #[test]
    fn what_docker_did_not_write_is_told_with_its_file() {
        let error = config(r#"{"auths": {"r": {"auth": "%"}}}"#)
            .credentials("r")
            .unwrap_err();
        assert!(error.to_string().contains("docker login r"), "{error}");
    }

    /// A helper that is run by its path: what is searched on PATH is the whole process's.
    fn helper(folder: &Path, script: &str) -> String {
        let path = folder.join("helper");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    #[test]
    fn a_helper_is_asked_for_the_registry_and_may_know_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let echo = r#"read -r host; echo "{\"Username\": \"$1\", \"Secret\": \"$host\"}""#;
        let told = ask(&helper(folder.path(), echo), "r").unwrap().unwrap();
        assert_eq!((told.username.as_str(), told.secret.as_str()), ("get", "r"));
        let unknown = "echo credentials not found in native keychain; exit 1";
        assert!(ask(&helper(folder.path(), unknown), "r").unwrap().is_none());
        let locked = ask(&helper(folder.path(), "echo locked; exit 1"), "r");
        assert!(
            locked
                .err()
                .unwrap()
                .to_string()
                .ends_with("for `r`: locked")
        );
        let missing = ask("/nowhere/helper", "r").err().unwrap();
        assert!(missing.to_string().contains("is it installed"), "{missing}");
    }

    #[test]
    fn a_helpers_token_is_no_password() {
        let told = Told {
            username: TOKEN_USER.to_owned(),
            secret: "t".to_owned(),
        };
        assert_eq!(told.credentials().identitytoken.as_deref(), Some("t"));
    }
}
