//! The API keys that a gateway accepts. They follow changes of their file.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use flow_core::Chain;
use flow_metrics::{Counter, Description, Registry};
use flow_net::FileWatch;

use super::key_file::{BadKeyFile, KeyEntry, KeyFile, KeyHash};
use super::limits::{DayCount, RequestRate};
use crate::metrics::{GatewayMetrics, RUNTIME, RefusalReason};

/// The keys of a gateway.
#[derive(Debug)]
pub(crate) struct KeyRing {
    path: PathBuf,
    watch: FileWatch,
    keys: RwLock<Vec<Arc<Key>>>,
    /// Counters by name. They outlive a key that leaves the file, because it may come back.
    counters: Mutex<HashMap<String, KeyCounters>>,
    metrics: Option<GatewayMetrics>,
}

/// A key in use, or what a token allows.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) kind: KeyKind,
    /// The name of the entry.
    pub(super) name: Arc<str>,
    pub(super) entry: KeyEntry,
    pub(super) counters: KeyCounters,
    used: Arc<Mutex<Used>>,
    metrics: Option<GatewayMetrics>,
}

/// What proves whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    ApiKey,
    /// Of an identity provider.
    Token,
}

/// How much of its limits a key has used.
#[derive(Debug, Default)]
struct Used {
    rate: RequestRate,
    documents: DayCount,
    tokens: DayCount,
}

/// What one key did. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyCounters {
    pub(super) accepted: Counter,
    pub(super) refused: Counter,
    pub(super) documents: Counter,
    pub(super) tokens: Counter,
}

impl KeyRing {
    /// Reads the file. The use of keys is counted, if the gateway is monitored.
    pub(crate) fn load(path: PathBuf, metrics: Option<GatewayMetrics>) -> Result<Self, BadKeyFile> {
        let watch = FileWatch::new(vec![path.clone()]);
        let file = KeyFile::read(&path)?;
        let ring = Self {
            path,
            watch,
            keys: RwLock::default(),
            counters: Mutex::default(),
            metrics,
        };
        ring.replace(file);
        Ok(ring)
    }

    /// Reads the file again whenever it changes, until the future is dropped. A file that cannot be used is logged, and
    /// changes nothing.
    pub(crate) async fn follow_file(&self, look_every: Duration) -> Infallible {
        let mut watch = self.watch.clone();
        loop {
            watch.changed(look_every).await;
            let path = self.path.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || KeyFile::read(&path)).await else {
                continue;
            };
            match read {
                Ok(file) => {
                    tracing::info!(keys = file.keys.len(), "the API keys have changed");
                    self.replace(file);
                }
                Err(error) => {
                    let error = Chain(&error);
                    tracing::error!(%error, "the changed API keys are invalid; keeping the old ones");
                }
            }
        }
    }

    /// The key with this text. All keys are compared, so that the time does not tell which one it is.
    pub(super) fn find(&self, text: &str) -> Option<Arc<Key>> {
        let hash = KeyHash::of(text);
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().fold(None, |found, key| {
            match bool::from(key.entry.hash.is(&hash)) {
                true => Some(key.clone()),
                false => found,
            }
        })
    }

    /// Uses the keys of the file from now on. What a key has used of its limits stays.
    fn replace(&self, file: KeyFile) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let known = |entry: &KeyEntry| {
            let is_same = |key: &&Arc<Key>| key.entry.hash == entry.hash;
            keys.iter().find(is_same).map(|key| key.used.clone())
        };
        let key = |entry: KeyEntry| Key {
            kind: KeyKind::ApiKey,
            used: known(&entry).unwrap_or_default(),
            counters: self.counters(&entry.name),
            name: entry.name.as_str().into(),
            metrics: self.metrics.clone(),
            entry,
        };
        *keys = file.keys.into_iter().map(key).map(Arc::new).collect();
    }

    fn counters(&self, name: &str) -> KeyCounters {
        let mut all = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let counters = KeyCounters::default();
            if let Some(metrics) = &self.metrics {
                counters.register(name, metrics.registry());
            }
            counters
        };
        all.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

impl Key {
    /// What a token allows, whose use is counted with that of all tokens. It has no limits.
    pub(super) fn of_token(
        subject: &str,
        endpoints: Option<Vec<String>>,
        expires: Option<SystemTime>,
        counters: KeyCounters,
        metrics: Option<GatewayMetrics>,
    ) -> Self {
        Self {
            kind: KeyKind::Token,
            name: subject.into(),
            entry: KeyEntry {
                endpoints,
                expires,
                ..KeyEntry::new(subject, "")
            },
            counters,
            used: Arc::default(),
            metrics,
        }
    }

    /// How messages name it.
    pub(super) fn title(&self) -> String {
        let name = &self.entry.name;
        match self.kind {
            KeyKind::ApiKey => format!("the API key `{name}`"),
            KeyKind::Token => format!("the token of `{name}`"),
        }
    }

    pub(super) fn is_expired(&self, now: SystemTime) -> bool {
        self.entry.expires.is_some_and(|end| end <= now)
    }

    /// Counts a request with this key that was refused after its path was allowed.
    pub(super) fn count_refusal(&self, reason: RefusalReason) {
        self.counters.refused.add(1);
        self.metrics.iter().for_each(|it| it.refuse(reason));
    }

    /// Takes the place of one request, or says after which time there is one.
    pub(super) fn take_request(&self) -> Result<(), Duration> {
        match self.entry.requests_per_second {
            None => Ok(()),
            Some(rate) => self.used().rate.take(rate, Instant::now()),
        }
    }

    /// Counts documents, or says after which time that many are allowed again.
    pub(super) fn add_documents(&self, documents: usize) -> Result<(), Duration> {
        if let Some(max) = self.entry.documents_per_day {
            let count = u64::try_from(documents).unwrap_or(u64::MAX);
            self.used().documents.add(count, max, SystemTime::now())?;
        }
        self.counters.documents.add(documents);
        Ok(())
    }

    /// Whether tokens are left today. If not, it says after which time there are.
    pub(super) fn check_tokens(&self) -> Result<(), Duration> {
        match self.entry.tokens_per_day {
            None => Ok(()),
            Some(max) => self.used().tokens.check(max, SystemTime::now()),
        }
    }

    /// Counts tokens that models read.
    pub(super) fn add_tokens(&self, tokens: u64) {
        if self.entry.tokens_per_day.is_some() {
            self.used().tokens.note(tokens, SystemTime::now());
        }
        self.counters
            .tokens
            .add(usize::try_from(tokens).unwrap_or(usize::MAX));
    }

    fn used(&self) -> std::sync::MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyCounters {
    fn register(&self, name: &str, metrics: &Registry) {
        let all = [
            (
                "flow_key_requests_total",
                "Requests with this API key that were accepted.",
                &self.accepted,
            ),
            (
                "flow_key_refused_total",
                "Requests with this API key that were refused.",
                &self.refused,
            ),
            (
                "flow_key_documents_total",
                "Documents that were sent with this API key.",
                &self.documents,
            ),
            (
                "flow_key_tokens_total",
                "Tokens that models read for requests with this API key.",
                &self.tokens,
            ),
        ];
        for (metric, help, counter) in all {
            let description = Description { name: metric, help };
            let labels = [("key", name), ("runtime_name", RUNTIME)];
            metrics.register(description, &labels, counter.clone());
        }
    }

    /// The counters of all tokens together: their subjects are too many to be labels.
    pub(super) fn of_tokens(metrics: Option<&GatewayMetrics>) -> Self {
        let counters = Self::default();
        let all = [
            (
                "flow_jwt_requests_total",
                "Requests with a token that were accepted.",
                &counters.accepted,
            ),
            (
                "flow_jwt_refused_total",
                "Requests with a valid token that were refused.",
                &counters.refused,
            ),
            (
                "flow_jwt_documents_total",
                "Documents that were sent with a token.",
                &counters.documents,
            ),
            (
                "flow_jwt_tokens_total",
                "Tokens that models read for requests with a JSON Web Token.",
                &counters.tokens,
            ),
        ];
        for (name, help, counter) in all {
            if let Some(metrics) = metrics {
                let description = Description { name, help };
                let labels = [("runtime_name", RUNTIME)];
                metrics
                    .registry()
                    .register(description, &labels, counter.clone());
            }
        }
        counters
    }
}

#[cfg(test)]
mod tests;
