//! Fetches models from the Hugging Face hub into the Hugging Face cache.
//!
//! The layout of the cache and the description of a repository are those of `hf-hub`. The requests are our own: `hf-hub`
//! joins what the hub answers to paths of the cache, and limits neither bytes nor time. Here nothing that the hub says
//! becomes a path before it was checked ([`answers`]), each body ends at its announced length, and each answer has a
//! time limit. Decision 34 has the reasons.

mod answers;
mod client;
mod download;
mod error;
mod limits;

use std::fs;
use std::path::PathBuf;

use flow_core::Secret;
use hf_hub::api::RepoInfo;
use hf_hub::{Cache, Repo, RepoType};

use self::answers::{Commit, is_plain_path};
use self::client::HubClient;
use self::download::FileDownload;
use self::limits::DownloadLimits;
use super::environment::SourceEnvironment;
use super::folder::{CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE};
use super::name::HubModel;
use super::progress::DownloadProgress;

pub use self::error::HubError;

/// Maximum files of a model. Sentence encoders have five to ten.
const FILES_MAX: usize = 64;

/// Fetches a model into the Hugging Face cache, and returns its folder. The caller must hold the model's lock.
///
/// # Errors
///
/// If the hub cannot be reached, does not have the model, or sends something invalid.
pub(super) fn fetch(
    name: &HubModel,
    environment: &SourceEnvironment,
    progress: &mut dyn DownloadProgress,
) -> Result<PathBuf, HubError> {
    fetch_within(name, environment, &DownloadLimits::default(), progress)
}

fn fetch_within(
    name: &HubModel,
    environment: &SourceEnvironment,
    limits: &DownloadLimits,
    progress: &mut dyn DownloadProgress,
) -> Result<PathBuf, HubError> {
    if environment.offline {
        return Err(HubError::Offline(environment.endpoint.clone()));
    }
    let client = HubClient::new(&environment.endpoint, token(environment), limits)?;
    if client.withholds_token() {
        let endpoint = &environment.endpoint;
        progress.note(&format!(
            "the token is not sent to `{endpoint}`, which has no TLS"
        ));
    }
    let repository =
        |revision: &str| Repo::with_revision(name.id.clone(), RepoType::Model, revision.to_owned());
    let branch = repository(&name.revision);
    let path = format!("api/{}", branch.api_url());
    let info: RepoInfo = client.description(&name.id, &path)?;
    let commit = Commit::parse(&info.sha).map_err(|part| client.invalid(&path, part))?;
    let files: Vec<&str> = info
        .siblings
        .iter()
        .map(|file| file.rfilename.as_str())
        .collect();
    if !files.contains(&WEIGHTS_FILE) {
        return Err(HubError::NoWeights);
    }
    // All files are of one commit, whatever is pushed meanwhile. The ref is written last, so that it never points to an
    // incomplete snapshot.
    let cached = Cache::new(environment.hub_cache.clone()).repo(branch);
    let at_commit = repository(commit.as_str());
    for file in required_files(&files) {
        let download = FileDownload {
            client: &client,
            limits,
            cached: &cached,
            path: format!(
                "{}/resolve/{}/{file}",
                at_commit.url(),
                at_commit.url_revision()
            ),
            commit: &commit,
            file,
        };
        download.run(progress)?;
    }
    let written = cached.create_ref(commit.as_str());
    written.map_err(|source| HubError::Cache(environment.hub_cache.clone(), source))?;
    Ok(cached.pointer_path(commit.as_str()))
}

/// The user's token for the hub.
fn token(environment: &SourceEnvironment) -> Option<Secret> {
    let from_file = || fs::read_to_string(&environment.token_file).ok();
    let own = environment.token.clone().map(Secret::into_revealed);
    let token = own.or_else(from_file)?;
    let token = Some(token.trim().to_owned()).filter(|token| !token.is_empty());
    token.map(Secret::new)
}

/// The files to fetch. The weights come last, so that an unusable model does not cost a long download. Names that are no
/// plain paths are left out.
fn required_files<'a>(files: &[&'a str]) -> Vec<&'a str> {
    let is_required = |file: &str| match file.split_once('/') {
        // The configuration of a module such as `1_Pooling`.
        Some((folder, "config.json")) => folder.starts_with(|c: char| c.is_ascii_digit()),
        Some(_) => false,
        None => {
            [
                CONFIG_FILE,
                TOKENIZER_FILE,
                "modules.json",
                "config_sentence_transformers.json",
            ]
            .contains(&file)
                || file.starts_with("sentence_") && file.ends_with("_config.json")
        }
    };
    let small = files
        .iter()
        .copied()
        .filter(|file| is_plain_path(file) && is_required(file))
        .take(FILES_MAX);
    small.chain([WEIGHTS_FILE]).collect()
}

#[cfg(test)]
mod tests;
