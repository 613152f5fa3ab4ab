//! Loads the keys of an identity provider. They are used until newer valid ones are loaded.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use flow_core::Chain;
use flow_net::tls::{ClientTls, TlsError, TlsOptions};
use flow_net::{FileWatch, HttpClient, HttpClientError, HttpVersion};
use flow_spec::JwtKeys;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode, Uri};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::super::bad_token::RETRY_EVERY;
use super::key_set::KeySet;

/// How often the keys at an address are read again without a cause: a key that the provider has withdrawn is refused as soon.
const REFRESH_EVERY: Duration = Duration::from_secs(5 * 60);

/// Minimum time between two requests to the provider, whatever tokens clients send.
const REST: Duration = Duration::from_secs(5);

/// How long the provider may take to answer.
const FETCH_MAX: Duration = Duration::from_secs(10);

/// How long a request waits for newer keys.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The keys of an identity provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadJwt {
    /// The file cannot be read.
    #[error("cannot read the keys of the identity provider `{}` (`jwt_keys`)", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a set of keys.
    #[error("`{}` (`jwt_keys`) is not a JSON Web Key Set: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The address is not a URL.
    #[error("`{0}` (`jwt_keys`) is not an address such as `https://id.example.com/keys`")]
    Address(String),
    /// The authorities of the address cannot be used.
    #[error("the certificates of `jwt_ca_certs` cannot be used")]
    Authorities(#[from] TlsError),
}

/// Why keys could not be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("no answer within {} s", FETCH_MAX.as_secs())]
    TooLate,
    #[error(transparent)]
    Http(#[from] HttpClientError),
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    #[error("the answer is not a JSON Web Key Set: {0}")]
    Content(String),
}

/// The keys of an identity provider.
#[derive(Debug)]
pub(super) struct Provider {
    /// `None` until they are read for the first time.
    keys: RwLock<Option<Arc<KeySet>>>,
    source: KeySource,
}

#[derive(Debug)]
enum KeySource {
    File { path: PathBuf, watch: FileWatch },
    Address(Box<Address>),
}

#[derive(Debug)]
struct Address {
    uri: Uri,
    tls: ClientTls,
    asked: Arc<Notify>,
    state: watch::Sender<State>,
}

/// What is done about the keys at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fetching,
    /// It was asked a moment ago.
    Resting,
    /// It may be asked.
    Ready,
}

impl Provider {
    /// Reads a file. What is at an address is read by [`Self::follow`].
    pub(super) fn load(keys: &JwtKeys) -> Result<Self, BadJwt> {
        match keys {
            JwtKeys::File(path) => {
                let watch = FileWatch::new(vec![path.clone()]);
                Ok(Self {
                    keys: RwLock::new(Some(Arc::new(read(path)?))),
                    source: KeySource::File {
                        path: path.clone(),
                        watch,
                    },
                })
            }
            JwtKeys::Url { url, roots } => {
                let uri = url.parse().ok().filter(|uri: &Uri| uri.host().is_some());
                let options = TlsOptions {
                    roots: roots.clone(),
                    ..TlsOptions::default()
                };
                let address = Address {
                    uri: uri.ok_or_else(|| BadJwt::Address(url.clone()))?,
                    tls: ClientTls::load(options)?,
                    asked: Arc::default(),
                    state: watch::Sender::new(State::Fetching),
                };
                Ok(Self {
                    keys: RwLock::default(),
                    source: KeySource::Address(Box::new(address)),
                })
            }
        }
    }

    pub(super) fn keys(&self) -> Option<Arc<KeySet>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    fn replace(&self, keys: KeySet) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
    }

    /// Asks for newer keys, and waits for them for some time; `None` if that would be too soon.
    pub(super) fn ask(&self) -> Option<BoxFuture<'static, ()>> {
        let KeySource::Address(address) = &self.source else {
            return None;
        };
        if *address.state.borrow() == State::Resting {
            return None;
        }
        let (asked, mut state) = (address.asked.clone(), address.state.subscribe());
        Some(Box::pin(async move {
            asked.notify_one();
            let fetched = state.wait_for(|state| *state == State::Resting);
            // Without newer keys, the token is refused as it would have been.
            drop(timeout(WAIT_MAX, fetched).await);
        }))
    }

    /// Keeps the keys up to date, until the future is dropped. What cannot be used is logged, and changes nothing.
    pub(super) async fn follow(&self, look_every: Duration) -> Infallible {
        match &self.source {
            KeySource::File { path, watch } => {
                let mut watch = watch.clone();
                loop {
                    watch.changed(look_every).await;
                    self.read_again(path).await;
                }
            }
            KeySource::Address(address) => loop {
                address.state.send_replace(State::Fetching);
                let fetched = self.fetch(address).await;
                address.state.send_replace(State::Resting);
                sleep(REST).await;
                address.state.send_replace(State::Ready);
                let pause = match fetched {
                    true => REFRESH_EVERY,
                    false => RETRY_EVERY - REST,
                };
                drop(timeout(pause, address.asked.notified()).await);
            },
        }
    }

    async fn read_again(&self, path: &Path) {
        let file = path.to_owned();
        let Ok(read) = tokio::task::spawn_blocking(move || read(&file)).await else {
            return;
        };
        match read {
            Ok(keys) => {
                let count = keys.len();
                self.replace(keys);
                tracing::info!(
                    keys = count,
                    "the keys of the identity provider have changed"
                );
            }
            Err(error) => {
                let error = Chain(&error);
                tracing::error!(%error, "the changed keys of the identity provider are invalid; keeping the old ones");
            }
        }
    }

    /// Reads the keys at an address, and returns whether they can be used.
    async fn fetch(&self, address: &Address) -> bool {
        let fetched = timeout(FETCH_MAX, fetched(address)).await;
        match fetched.unwrap_or(Err(FetchError::TooLate)) {
            Ok(keys) => {
                match keys.len() {
                    0 => {
                        tracing::error!(address = %address.uri, "the identity provider has no keys: no token is accepted");
                    }
                    keys => tracing::debug!(keys, "read the keys of the identity provider"),
                }
                self.replace(keys);
                true
            }
            Err(error) => {
                let (error, address) = (Chain(&error), &address.uri);
                let kept = self.keys().map_or(0, |keys| keys.len());
                tracing::error!(%error, %address, kept, "cannot read the keys of the identity provider");
                false
            }
        }
    }
}

async fn fetched(address: &Address) -> Result<KeySet, FetchError> {
    // A new connection each time: the last one is minutes old.
    let client = HttpClient::new(HttpVersion::Http1, Some(address.tls.clone()));
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = address.uri.clone();
    let response = client.send(request).await?;
    match response.status {
        StatusCode::OK => KeySet::parse(&response.body).map_err(FetchError::Content),
        status => Err(FetchError::Status(status)),
    }
}

fn read(path: &Path) -> Result<KeySet, BadJwt> {
    let json = std::fs::read(path).map_err(|source| BadJwt::Read {
        path: path.to_owned(),
        source,
    })?;
    let keys = KeySet::parse(&json).and_then(|keys| match keys.len() {
        0 => Err("it has no keys".to_owned()),
        _ => Ok(keys),
    });
    keys.map_err(|reason| BadJwt::Content {
        path: path.to_owned(),
        reason,
    })
}
