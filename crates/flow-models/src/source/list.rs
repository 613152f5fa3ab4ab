//! Lists the models on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::SourceEnvironment;
use super::file::folder_bytes;
use super::folder::{CONFIG_FILE, check_folder};
use super::name::{DEFAULT_MODEL, DEFAULT_REVISION};
use super::wheel;

/// A model on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModel {
    /// Its name on the hub.
    pub id: String,
    /// The branches and tags that point to it, or its commit if there are none.
    pub revision: String,
    /// The folder of its files.
    pub folder: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether all of its files are complete.
    pub is_complete: bool,
}

/// Lists all models in both caches, by name. Only folders with a `config.json` count as models.
#[must_use]
pub fn list(environment: &SourceEnvironment) -> Vec<StoredModel> {
    let mut stored: Vec<StoredModel> = folders(&environment.hub_cache)
        .into_iter()
        .flat_map(|repository| snapshots(&repository))
        .collect();
    let from_wheel = wheel::folder(environment);
    if from_wheel.is_dir() {
        stored.push(describe(
            DEFAULT_MODEL.to_owned(),
            DEFAULT_REVISION.to_owned(),
            from_wheel,
        ));
    }
    stored.sort_by(|a, b| (&a.id, &a.revision).cmp(&(&b.id, &b.revision)));
    stored
}

fn snapshots(repository: &Path) -> Vec<StoredModel> {
    let Some(id) = repository_id(repository) else {
        return Vec::new();
    };
    folders(&repository.join("snapshots"))
        .into_iter()
        .filter(|folder| folder.join(CONFIG_FILE).exists())
        .map(|folder| describe(id.clone(), revision(repository, &folder), folder))
        .collect()
}

/// The hub name of a repository: `models--owner--name` is `owner/name`.
fn repository_id(repository: &Path) -> Option<String> {
    let name = repository.file_name()?.to_str()?.strip_prefix("models--")?;
    Some(name.replacen("--", "/", 1))
}

/// The branches and tags that point to a snapshot, or its commit if there are none.
fn revision(repository: &Path, snapshot: &Path) -> String {
    let commit = name_of(snapshot);
    let references = fs::read_dir(repository.join("refs"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = references
        .filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.trim() == commit))
        .map(|entry| name_of(&entry.path()))
        .filter(|name| *name != commit)
        .collect();
    names.sort();
    if names.is_empty() {
        commit
    } else {
        names.join(", ")
    }
}

fn describe(id: String, revision: String, folder: PathBuf) -> StoredModel {
    let (bytes, is_complete) = (folder_bytes(&folder), check_folder(&folder).is_ok());
    StoredModel {
        id,
        revision,
        folder,
        bytes,
        is_complete,
    }
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
