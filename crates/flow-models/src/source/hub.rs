//! The Hugging Face hub, through `hf-hub`, into the Hugging Face cache.
//!
//! `hf-hub` knows no time limits, and where packets vanish a connection takes minutes to fail. So it
//! works on a thread of its own that reports what it does, and whoever hears nothing for too long
//! gives up. An abandoned thread harms nobody: what it writes is `hf-hub`'s own business in a cache
//! that is made for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};

use super::environment::Environment;
use super::folder::{CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE};
use super::name::HubName;
use super::progress::Progress;
use super::wheel::sha256;

/// How long the hub may take to its first answer: a slow line needs two seconds, a user waits ten.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long nothing may come once something has.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Events that may wait for a slow listener before the download waits too.
const EVENTS_MAX: usize = 64;
/// How often a file that came damaged is fetched again.
const TRIES: usize = 2;

/// Why the hub did not give the model.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The user wants nothing fetched.
    #[error("HF_HUB_OFFLINE forbids to ask `{0}`")]
    Offline(String),
    /// The hub said no, or nothing.
    #[error("`{endpoint}` did not give `{what}`")]
    Request {
        /// The hub.
        endpoint: String,
        /// What was asked for.
        what: String,
        /// What went wrong.
        #[source]
        source: Box<ApiError>,
    },
    /// Nothing came for too long.
    #[error("`{endpoint}` was silent for {waited:?}")]
    Silent {
        /// The hub.
        endpoint: String,
        /// How long.
        waited: Duration,
    },
    /// The repository has no weights that can be read.
    #[error("the repository has no `{WEIGHTS_FILE}`; weights in other forms are not read")]
    NoWeights,
    /// A file came damaged, more than once.
    #[error("`{file}` came damaged {TRIES} times: its checksum is not `{wanted}`")]
    Damaged {
        /// The file.
        file: String,
        /// The checksum that the hub names.
        wanted: String,
    },
    /// The cache cannot be written.
    #[error("cannot write to the cache `{0}`")]
    Cache(PathBuf, #[source] std::io::Error),
    /// `hf-hub` panicked or its thread could not be started.
    #[error("the download stopped without a word")]
    Stopped,
}

enum Event {
    Begin(String, u64),
    Advance(u64),
    End,
    Done(Result<PathBuf, HubError>),
}

/// Fetches `name` into the Hugging Face cache. The caller holds the model's lock.
///
/// # Errors
///
/// If the hub cannot be reached or does not have it.
pub(super) fn fetch(
    name: &HubName,
    environment: &Environment,
    progress: &mut dyn Progress,
) -> Result<PathBuf, HubError> {
    if environment.offline {
        return Err(HubError::Offline(environment.endpoint.clone()));
    }
    let (events, heard) = sync_channel(EVENTS_MAX);
    let fetch = Fetch::new(name, environment, events);
    let run = move || fetch.run();
    thread::Builder::new()
        .name("hub".to_owned())
        .spawn(run)
        .map_err(|_| HubError::Stopped)?;
    relay(&heard, &environment.endpoint, progress)
}

/// Passes on what is heard until the end, or until there is nothing to hear for too long.
fn relay(
    heard: &Receiver<Event>,
    endpoint: &str,
    progress: &mut dyn Progress,
) -> Result<PathBuf, HubError> {
    let mut wait_max = ANSWER_WAIT_MAX;
    loop {
        match heard.recv_timeout(wait_max) {
            Ok(Event::Begin(file, bytes)) => progress.begin(&file, Some(bytes)),
            Ok(Event::Advance(bytes)) => progress.advance(bytes),
            Ok(Event::End) => progress.end(),
            Ok(Event::Done(result)) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(HubError::Stopped),
            Err(RecvTimeoutError::Timeout) => {
                return Err(HubError::Silent {
                    endpoint: endpoint.to_owned(),
                    waited: wait_max,
                });
            }
        }
        wait_max = STALL_MAX;
    }
}

/// One fetch, on its own thread.
struct Fetch {
    name: HubName,
    endpoint: String,
    cache: Cache,
    token: Option<String>,
    events: SyncSender<Event>,
}

impl Fetch {
    fn new(name: &HubName, environment: &Environment, events: SyncSender<Event>) -> Self {
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
        // Nobody listens any more if we were given up.
        self.events.send(Event::Done(result)).ok();
    }

    fn fetch(&self) -> Result<PathBuf, HubError> {
        let api = ApiBuilder::from_cache(self.cache.clone())
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone())
            .build()
            .map_err(self.refused(&self.name.id))?;
        let repository = self.repository(&self.name.revision);
        let about = api
            .repo(repository.clone())
            .info()
            .map_err(self.refused(&self.name.id))?;
        let files: Vec<&str> = about
            .siblings
            .iter()
            .map(|file| file.rfilename.as_str())
            .collect();
        if !files.contains(&WEIGHTS_FILE) {
            return Err(HubError::NoWeights);
        }
        // All files of one commit, whatever is pushed meanwhile; the branch's name is noted last, so
        // that it never points to a part.
        for file in wanted(&files) {
            self.fetch_file(&api, &about.sha, file)?;
        }
        let cached = self.cache.repo(repository);
        let noted = cached.create_ref(&about.sha);
        noted.map_err(|source| HubError::Cache(self.cache.path().clone(), source))?;
        Ok(cached.pointer_path(&about.sha))
    }

    fn fetch_file(&self, api: &Api, commit: &str, file: &str) -> Result<(), HubError> {
        let repository = api.repo(self.repository(commit));
        let mut wanted = String::new();
        for _ in 0..TRIES {
            let reporter = Reporter(self.events.clone());
            let path = repository
                .download_with_progress(file, reporter)
                .map_err(self.refused(file))?;
            match damage(&path) {
                None => return Ok(()),
                Some(checksum) => wanted = checksum,
            }
        }
        Err(HubError::Damaged {
            file: file.to_owned(),
            wanted,
        })
    }

    fn repository(&self, revision: &str) -> Repo {
        Repo::with_revision(self.name.id.clone(), RepoType::Model, revision.to_owned())
    }

    fn refused(&self, what: &str) -> impl FnOnce(ApiError) -> HubError + use<> {
        let (endpoint, what) = (self.endpoint.clone(), what.to_owned());
        move |source| HubError::Request {
            endpoint,
            what,
            source: Box::new(source),
        }
    }
}

/// The files that are needed, small ones first: a model that we cannot use costs no long download.
fn wanted<'a>(files: &[&'a str]) -> Vec<&'a str> {
    let is_needed = |file: &str| match file.split_once('/') {
        // Modules such as `1_Pooling`.
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
    let small = files.iter().copied().filter(|file| is_needed(file));
    small.chain([WEIGHTS_FILE]).collect()
}

/// The checksum that a file should have and has not; the file is gone then. Only large files tell
/// theirs: the cache names their blobs after it.
fn damage(path: &Path) -> Option<String> {
    let blob = fs::canonicalize(path).ok()?;
    let wanted = blob.file_name()?.to_str()?.to_owned();
    let is_checksum = wanted.len() == 64 && wanted.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_checksum || sha256(&blob).is_ok_and(|found| found == wanted) {
        return None;
    }
    for damaged in [path, &blob] {
        if let Err(error) = fs::remove_file(damaged) {
            tracing::debug!(file = %damaged.display(), %error, "cannot remove a damaged file");
        }
    }
    Some(wanted)
}

/// Turns `hf-hub`'s reports into events.
struct Reporter(SyncSender<Event>);

impl Reporter {
    fn tell(&self, event: Event) {
        self.0.send(event).ok();
    }
}

impl hf_hub::api::Progress for Reporter {
    fn init(&mut self, size: usize, filename: &str) {
        self.tell(Event::Begin(filename.to_owned(), size as u64));
    }

    fn update(&mut self, size: usize) {
        self.tell(Event::Advance(size as u64));
    }

    fn finish(&mut self) {
        self.tell(Event::End);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_fetched_and_the_weights_come_last() {
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
        assert_eq!(wanted(&files), expected);
    }
}
