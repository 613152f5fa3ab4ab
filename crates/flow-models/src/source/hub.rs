//! Fetches models from the Hugging Face hub into the Hugging Face cache.
//!
//! The layout of the cache and the description of a repository are those of `hf-hub`. The requests are our own: `hf-hub`
//! joins what the hub answers to paths of the cache, and limits neither bytes nor time. Here nothing that the hub says
//! becomes a path before it was checked ([`answers`]), each body ends at its announced length, and each answer has a
//! time limit. Decision 34 has the reasons.

mod answers;
mod client;
mod download;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hf_hub::api::RepoInfo;
use hf_hub::{Cache, Repo, RepoType};

use self::answers::{Commit, is_plain_path};
use self::client::HubClient;
use self::download::FileDownload;
use super::environment::SourceEnvironment;
use super::folder::{CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE};
use super::name::HubModel;
use super::progress::DownloadProgress;

/// Maximum downloads of a file whose checksum is wrong.
const ATTEMPTS_MAX: usize = 2;
/// Maximum files of a model. Sentence encoders have five to ten.
const FILES_MAX: usize = 64;

/// A model could not be fetched from the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The user has forbidden network access.
    #[error("HF_HUB_OFFLINE forbids requests to `{0}`")]
    Offline(String),
    /// A request failed.
    #[error("cannot fetch `{what}` from `{endpoint}`")]
    Request {
        /// URL of the hub.
        endpoint: String,
        /// The requested repository or file.
        what: String,
        /// The error of the HTTP client.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The hub refused a request.
    #[error("`{url}` answered with status {status}{}", advice(*.status))]
    Status {
        /// The requested URL.
        url: String,
        /// The HTTP status code.
        status: u16,
    },
    /// An answer did not arrive in time.
    #[error("`{url}` did not answer within {limit:?}")]
    Timeout {
        /// The requested URL.
        url: String,
        /// The time limit of the answer.
        limit: Duration,
    },
    /// An answer has an invalid part.
    #[error("the answer of `{url}` has an invalid {part} {found:?}: expected {expected}")]
    InvalidResponse {
        /// The requested URL.
        url: String,
        /// The part of the answer.
        part: &'static str,
        /// What was found there, shortened.
        found: String,
        /// What is valid.
        expected: &'static str,
    },
    /// The description of a repository is invalid.
    #[error("`{url}` does not describe a repository")]
    Description {
        /// The requested URL.
        url: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A redirect that is not followed.
    #[error("`{url}` redirects {reason}")]
    Redirect {
        /// The requested URL.
        url: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// A file is longer than a model's file may be.
    #[error("`{file}` has {announced} bytes; a file of this kind may have at most {max}")]
    TooLarge {
        /// The file.
        file: String,
        /// The length that the hub announces.
        announced: u64,
        /// The limit.
        max: u64,
    },
    /// The hub sent more bytes than it announced.
    #[error("`{file}` is longer than the {announced} bytes that the hub announced")]
    TooLong {
        /// The file.
        file: String,
        /// The length that the hub announced.
        announced: u64,
    },
    /// The hub sent fewer bytes than it announced.
    #[error(
        "the download of `{file}` ended after {received} of {announced} bytes; the next one continues there"
    )]
    TooShort {
        /// The file.
        file: String,
        /// The bytes that arrived.
        received: u64,
        /// The length that the hub announced.
        announced: u64,
    },
    /// The repository has no weights in a supported format.
    #[error("the repository has no `{WEIGHTS_FILE}`; weights in other formats are not supported")]
    NoWeights,
    /// A file was corrupt after every download.
    #[error(
        "`{file}` was corrupt after {ATTEMPTS_MAX} downloads: its checksum is not `{expected}`"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// The checksum that the hub gives.
        expected: String,
    },
    /// Another process downloads the same file.
    #[error("another process is writing `{0}`; try again when it has finished")]
    Busy(PathBuf),
    /// The cache could not be written.
    #[error("cannot write to the cache `{0}`")]
    Cache(PathBuf, #[source] std::io::Error),
}

/// What helps against a status code.
fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "; a private model needs a token in HF_TOKEN, which is sent over HTTPS only",
        404 => "; check the name and the revision of the model",
        _ => "",
    }
}

/// Limits of a download.
#[derive(Debug, Clone)]
struct DownloadLimits {
    /// Maximum time until a connection is open.
    connect_time: Duration,
    /// Maximum time without a byte.
    silence: Duration,
    /// Maximum time for a description or the head of a file, and for a file in addition to that of its bytes.
    answer_time: Duration,
    /// The slowest connection. With its size, it gives the maximum time of a file. What has arrived until then is kept, and
    /// the next download continues there.
    bytes_per_second_min: u64,
    /// Maximum length of the description of a repository.
    description_bytes_max: u64,
    /// Maximum length of a file other than the weights. The largest tokenizers have 35 MB.
    file_bytes_max: u64,
    /// Maximum length of the weights.
    weights_bytes_max: u64,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self {
            // A slow connection needs two seconds; ten is what a user will wait.
            connect_time: Duration::from_secs(10),
            silence: Duration::from_secs(60),
            answer_time: Duration::from_secs(60),
            bytes_per_second_min: 64 << 10,
            description_bytes_max: 8 << 20,
            file_bytes_max: 256 << 20,
            weights_bytes_max: 64 << 30,
        }
    }
}

impl DownloadLimits {
    fn bytes_max(&self, file: &str) -> u64 {
        match file {
            WEIGHTS_FILE => self.weights_bytes_max,
            _ => self.file_bytes_max,
        }
    }

    /// Maximum time for a body of this length.
    fn body_time(&self, bytes: u64) -> Duration {
        self.answer_time + Duration::from_secs(bytes / self.bytes_per_second_min)
    }
}

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
fn token(environment: &SourceEnvironment) -> Option<String> {
    let from_file = || fs::read_to_string(&environment.token_file).ok();
    let token = environment.token.clone().or_else(from_file)?;
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
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
