//! Fetches models from the Hugging Face hub into the Hugging Face cache, with `hf-hub`.
//!
//! `hf-hub` has no time-outs, and a connection whose packets are dropped takes minutes to fail. It therefore runs on its own
//! thread and reports events; if none arrives for too long, the caller gives up. An abandoned thread does no harm: it writes
//! to the cache in the way that `hf-hub` coordinates between processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};

use super::environment::SourceEnvironment;
use super::file::sha256;
use super::folder::{CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE};
use super::name::HubModel;
use super::progress::DownloadProgress;

/// Maximum time until the first event. A slow connection needs two seconds; ten is what a user will wait.
const FIRST_EVENT_WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum time between later events.
const EVENT_WAIT_MAX: Duration = Duration::from_secs(60);
/// Maximum events in the queue before the download waits for the receiver.
const EVENTS_MAX: usize = 64;
/// Maximum downloads of a file whose checksum is wrong.
const ATTEMPTS_MAX: usize = 2;

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
        /// The error of `hf-hub`.
        #[source]
        source: Box<ApiError>,
    },
    /// The hub did not respond in time.
    #[error("`{endpoint}` did not respond for {waited:?}")]
    Timeout {
        /// URL of the hub.
        endpoint: String,
        /// How long the caller waited.
        waited: Duration,
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
    /// The cache could not be written.
    #[error("cannot write to the cache `{0}`")]
    Cache(PathBuf, #[source] std::io::Error),
    /// `hf-hub` panicked, or its thread could not be started.
    #[error("the download ended without a result")]
    NoResult,
}

/// An event of a download.
enum DownloadEvent {
    Begin(String, u64),
    Advance(u64),
    End,
    Done(Result<PathBuf, HubError>),
}

/// Fetches a model into the Hugging Face cache, and returns its folder. The caller must hold the model's lock.
///
/// # Errors
///
/// If the hub cannot be reached or does not have the model.
pub(super) fn fetch(
    name: &HubModel,
    environment: &SourceEnvironment,
    progress: &mut dyn DownloadProgress,
) -> Result<PathBuf, HubError> {
    if environment.offline {
        return Err(HubError::Offline(environment.endpoint.clone()));
    }
    let (sender, events) = sync_channel(EVENTS_MAX);
    let download = HubDownload::new(name, environment, sender);
    let run = move || download.run();
    thread::Builder::new()
        .name("hub-download".to_owned())
        .spawn(run)
        .map_err(|_| HubError::NoResult)?;
    forward(&events, &environment.endpoint, progress)
}

/// Forwards events to `progress` until the download ends or times out.
fn forward(
    events: &Receiver<DownloadEvent>,
    endpoint: &str,
    progress: &mut dyn DownloadProgress,
) -> Result<PathBuf, HubError> {
    let mut wait_max = FIRST_EVENT_WAIT_MAX;
    loop {
        match events.recv_timeout(wait_max) {
            Ok(DownloadEvent::Begin(file, bytes)) => progress.begin(&file, Some(bytes)),
            Ok(DownloadEvent::Advance(bytes)) => progress.advance(bytes),
            Ok(DownloadEvent::End) => progress.end(),
            Ok(DownloadEvent::Done(result)) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(HubError::NoResult),
            Err(RecvTimeoutError::Timeout) => {
                return Err(HubError::Timeout {
                    endpoint: endpoint.to_owned(),
                    waited: wait_max,
                });
            }
        }
        wait_max = EVENT_WAIT_MAX;
    }
}

/// A download of one model, on its own thread.
struct HubDownload {
    name: HubModel,
    endpoint: String,
    cache: Cache,
    token: Option<String>,
    events: SyncSender<DownloadEvent>,
}

impl HubDownload {
    fn new(
        name: &HubModel,
        environment: &SourceEnvironment,
        events: SyncSender<DownloadEvent>,
    ) -> Self {
        let from_file = || fs::read_to_string(&environment.token_file).ok();
        let token = environment.token.clone().or_else(from_file);
        Self {
            name: name.clone(),
            endpoint: environment.endpoint.clone(),
            cache: Cache::new(environment.hub_cache.clone()),
            token: token
                .map(|token| token.trim().to_owned())
                .filter(|token| !token.is_empty()),
            events,
        }
    }

    fn run(self) {
        let result = self.fetch();
        // The receiver is gone if the caller has given up.
        self.events.send(DownloadEvent::Done(result)).ok();
    }

    fn fetch(&self) -> Result<PathBuf, HubError> {
        let api = ApiBuilder::from_cache(self.cache.clone())
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone())
            .build()
            .map_err(self.request_error(&self.name.id))?;
        let repository = self.repository(&self.name.revision);
        let info = api
            .repo(repository.clone())
            .info()
            .map_err(self.request_error(&self.name.id))?;
        let files: Vec<&str> = info
            .siblings
            .iter()
            .map(|file| file.rfilename.as_str())
            .collect();
        if !files.contains(&WEIGHTS_FILE) {
            return Err(HubError::NoWeights);
        }
        // All files are of one commit, whatever is pushed meanwhile. The ref is written last, so that it never points to
        // an incomplete snapshot.
        for file in required_files(&files) {
            self.fetch_file(&api, &info.sha, file)?;
        }
        let cached = self.cache.repo(repository);
        let written = cached.create_ref(&info.sha);
        written.map_err(|source| HubError::Cache(self.cache.path().clone(), source))?;
        Ok(cached.pointer_path(&info.sha))
    }

    fn fetch_file(&self, api: &Api, commit: &str, file: &str) -> Result<(), HubError> {
        let repository = api.repo(self.repository(commit));
        let mut expected = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let reporter = Reporter(self.events.clone());
            let path = repository
                .download_with_progress(file, reporter)
                .map_err(self.request_error(file))?;
            match remove_if_corrupt(&path) {
                None => return Ok(()),
                Some(checksum) => expected = checksum,
            }
        }
        Err(HubError::Corrupt {
            file: file.to_owned(),
            expected,
        })
    }

    fn repository(&self, revision: &str) -> Repo {
        Repo::with_revision(self.name.id.clone(), RepoType::Model, revision.to_owned())
    }

    fn request_error(&self, what: &str) -> impl FnOnce(ApiError) -> HubError + use<> {
        let (endpoint, what) = (self.endpoint.clone(), what.to_owned());
        move |source| HubError::Request {
            endpoint,
            what,
            source: Box::new(source),
        }
    }
}

/// The files to fetch. The weights come last, so that an unusable model does not cost a long download.
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
    let small = files.iter().copied().filter(|file| is_required(file));
    small.chain([WEIGHTS_FILE]).collect()
}

/// Removes a file whose checksum is wrong, and returns the checksum that it should have. Only large files are checked: the
/// cache names their blobs after their SHA-256.
fn remove_if_corrupt(path: &Path) -> Option<String> {
    let blob = fs::canonicalize(path).ok()?;
    let expected = blob.file_name()?.to_str()?.to_owned();
    let is_checksum = expected.len() == 64 && expected.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_checksum || sha256(&blob).is_ok_and(|found| found == expected) {
        return None;
    }
    for corrupt in [path, &blob] {
        if let Err(error) = fs::remove_file(corrupt) {
            tracing::debug!(file = %corrupt.display(), %error, "cannot remove a corrupt file");
        }
    }
    Some(expected)
}

/// Sends `hf-hub`'s progress as events.
struct Reporter(SyncSender<DownloadEvent>);

impl Reporter {
    fn send(&self, event: DownloadEvent) {
        self.0.send(event).ok();
    }
}

impl hf_hub::api::Progress for Reporter {
    fn init(&mut self, size: usize, filename: &str) {
        self.send(DownloadEvent::Begin(filename.to_owned(), size as u64));
    }

    fn update(&mut self, size: usize) {
        self.send(DownloadEvent::Advance(size as u64));
    }

    fn finish(&mut self) {
        self.send(DownloadEvent::End);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_files_are_fetched_and_the_weights_come_last() {
        let files = [
            "model.safetensors",
            "README.md",
            "config.json",
            "onnx/config.json",
            "1_Pooling/config.json",
            "pytorch_model.bin",
            "sentence_bert_config.json",
            "tokenizer.json",
        ];
        let expected = [
            "config.json",
            "1_Pooling/config.json",
            "sentence_bert_config.json",
            "tokenizer.json",
            "model.safetensors",
        ];
        assert_eq!(required_files(&files), expected);
    }
}
