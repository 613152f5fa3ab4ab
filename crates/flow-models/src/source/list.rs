//! Which models there are on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::folder::{CONFIG_FILE, check_folder};
use super::name::{DEFAULT_MODEL, DEFAULT_REVISION};
use super::wheel;

/// A model on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its name on the hub.
    pub id: String,
    /// The branches and tags that point to it, or its commit.
    pub revision: String,
    /// Where it lies.
    pub folder: PathBuf,
    /// How much room it takes.
    pub bytes: u64,
    /// Whether all of it is there.
    pub is_whole: bool,
}

/// All models in both caches, by name. Only what can be a model: folders with a `config.json`.
#[must_use]
pub fn list(environment: &Environment) -> Vec<Stored> {
    let mut stored: Vec<Stored> = folders(&environment.hub_cache)
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

fn snapshots(repository: &Path) -> Vec<Stored> {
    let Some(id) = repository_id(repository) else {
        return Vec::new();
    };
    folders(&repository.join("snapshots"))
        .into_iter()
        .filter(|folder| folder.join(CONFIG_FILE).exists())
        .map(|folder| describe(id.clone(), revision(repository, &folder), folder))
        .collect()
}

/// `models--owner--name` is `owner/name`.
fn repository_id(repository: &Path) -> Option<String> {
    let name = repository.file_name()?.to_str()?.strip_prefix("models--")?;
    Some(name.replacen("--", "/", 1))
}

/// The names that point to a snapshot; its commit if none does.
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

fn describe(id: String, revision: String, folder: PathBuf) -> Stored {
    let (bytes, is_whole) = (wheel::size(&folder), check_folder(&folder).is_ok());
    Stored {
        id,
        revision,
        folder,
        bytes,
        is_whole,
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
