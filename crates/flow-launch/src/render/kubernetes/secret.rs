//! Files of the gateway that come from Secrets: its certificate and key, the authorities of its clients, and API keys.
//!
//! Each Secret is mounted as a folder. The kubelet replaces the files of a folder when the Secret changes, all at once,
//! and the gateway follows them. A file that is mounted alone (`subPath`) would stay as it was.

use std::path::PathBuf;

use flow_spec::Gateway;
use indexmap::IndexMap;
use k8s_openapi::api::core::v1::{KeyToPath, SecretVolumeSource, Volume, VolumeMount};

use crate::render::export::{ExportError, GatewayFiles};
use crate::render::gateway_files::{AUTHORITIES, CERTIFICATE, KEY, check_secrets, files};

/// The folder with a folder for each Secret.
const FOLDER: &str = "/run/secrets";
/// The user's group may read the files of a Secret.
const MODE: i32 = 0o440;

/// A file in a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// The Secret's name.
    pub secret: String,
    /// The entry of the Secret; `None` for that which such files usually have.
    pub entry: Option<String>,
}

/// A file of the gateway, as an entry of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// The key of the flow file.
    key: &'static str,
    /// The entry in the Secret, which is also the name of the file.
    name: String,
}

/// The Secrets with files of the gateway, by their names.
#[derive(Debug, Default)]
pub(super) struct GatewaySecrets(IndexMap<String, Vec<Entry>>);

impl GatewaySecrets {
    /// The Secrets that options name, by the key of the flow file. The private key is in the Secret of the certificate, unless an option names
    /// another.
    pub(super) fn of(
        gateway: &Gateway,
        wanted: &IndexMap<String, SecretEntry>,
    ) -> Result<Self, ExportError> {
        let of_key = |key: &str| {
            let own = wanted.get(key);
            let beside = || wanted.get(CERTIFICATE);
            own.map(|it| (it, it.entry.as_deref())).or_else(|| {
                let certificate = (key == KEY).then(beside)??;
                Some((certificate, None))
            })
        };
        check_secrets(gateway, |key| of_key(key).is_some())?;
        let mut secrets = Self::default();
        for (key, path) in files(gateway) {
            let Some((it, entry)) = of_key(key) else {
                continue;
            };
            let written = path.file_name().map(|it| it.to_string_lossy().into_owned());
            let name = entry.map(str::to_owned).or_else(|| usual(key)).or(written);
            let entry = Entry {
                key,
                name: name.unwrap_or_else(|| key.to_owned()),
            };
            secrets.0.entry(it.secret.clone()).or_default().push(entry);
        }
        Ok(secrets)
    }

    /// Where the files are in the gateway's container.
    pub(super) fn files(&self) -> GatewayFiles {
        GatewayFiles::at(|key| {
            let mut all = self.0.iter();
            all.find_map(|(secret, entries)| {
                let entry = entries.iter().find(|entry| entry.key == key)?;
                Some(folder(secret).join(&entry.name))
            })
        })
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = Volume> {
        let volume = |(index, (secret, entries)): (usize, (&String, &Vec<Entry>))| Volume {
            name: volume_name(index),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.clone()),
                default_mode: Some(MODE),
                // Only what the gateway needs: the Secret may hold more.
                items: Some(entries.iter().map(item).collect()),
                optional: None,
            }),
            ..Volume::default()
        };
        self.0.iter().enumerate().map(volume)
    }

    pub(super) fn mounts(&self) -> impl Iterator<Item = VolumeMount> {
        let mount = |(index, secret): (usize, &String)| VolumeMount {
            name: volume_name(index),
            mount_path: folder(secret).display().to_string(),
            read_only: Some(true),
            ..VolumeMount::default()
        };
        self.0.keys().enumerate().map(mount)
    }
}

/// The entry that Secrets of the type `kubernetes.io/tls` have, as cert-manager makes them. Keys have the name of their
/// file, as `kubectl create secret generic --from-file` calls them.
fn usual(key: &str) -> Option<String> {
    let name = match key {
        CERTIFICATE => "tls.crt",
        KEY => "tls.key",
        AUTHORITIES => "ca.crt",
        _ => return None,
    };
    Some(name.to_owned())
}

fn folder(secret: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(secret)
}

fn volume_name(index: usize) -> String {
    format!("secret-{index}")
}

fn item(entry: &Entry) -> KeyToPath {
    KeyToPath {
        key: entry.name.clone(),
        path: entry.name.clone(),
        mode: None,
    }
}
